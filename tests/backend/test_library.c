/* Libraries that are opened at run time: where they are looked for, and what is said. */
#include "backend/library.h"
#include "check.h"
#include "scratch.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#define MATH_MAP(X) X(floor) X(hypot)
typedef struct math {
#define X(fn) GR_LIBRARY_FIELD(, fn)
    MATH_MAP(X)
#undef X
} math;
#define X(fn) GR_LIBRARY_SYMBOL(math, , fn)
static const gr_library_symbol symbols[] = { MATH_MAP(X){ NULL, 0 } };
#undef X

static const char *const loader_name[] = { "libm.so.6", NULL };
static const char *const own_name[] = { "libgr_test_0.so", "libgr_test_1.so", NULL };
static const char *const usual[] = { "usual", NULL };

static gr_library library_of(const char *const *files, math *table)
{
    gr_library l = { .name = "Math",
                     .env = "GR_TEST_LIBS",
                     .files = files,
                     .folders = usual,
                     .symbols = symbols,
                     .table = table,
                     .lock = PTHREAD_MUTEX_INITIALIZER };

    return l;
}

/* The system's libm under another name in `folder`. */
static void place(const char *folder, const char *name)
{
    void *m = dlopen("libm.so.6", RTLD_NOW);
    struct link_map *map = NULL;
    char path[512];

    GR_CHECK(m != NULL && dlinfo(m, RTLD_DI_LINKMAP, &map) == 0);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    GR_CHECK(symlink(map->l_name, path) == 0);
    dlclose(m);
}

static void check_found(const char *const *files)
{
    math table = { 0 };
    gr_library l = library_of(files, &table);

    GR_CHECK_OK(gr_library_load(&l));
    GR_CHECK(table.floor(2.5) == 2.0 && table.hypot(3.0, 4.0) == 5.0);
    GR_CHECK_OK(gr_library_load(&l));
}

static void check_refused(gr_library *l, const char *text)
{
    for (int i = 0; i < 2; i++) { /* the second time without looking */
        gr_status st = gr_library_load(l);

        GR_CHECK_EQ(st, GR_ERR_DEVICE);
        if (!strstr(gr_error_message(), text)) {
            fprintf(stderr, "'%s' is not in: %s\n", text, gr_error_message());
            exit(1);
        }
    }
}

int main(void)
{
    static const gr_library_symbol too_many[] = { { "floor", offsetof(math, floor) },
                                                  { "no_such_function", offsetof(math, hypot) },
                                                  { NULL, 0 } };
    math table = { 0 };
    gr_library l;

    gr_test_scratch();
    unsetenv("GR_TEST_LIBS");
    check_found(loader_name);

    l = library_of(own_name, &table);
    check_refused(&l, "Math is not installed or not found: no libgr_test_0.so, libgr_test_1.so in "
                      "GR_TEST_LIBS");
    l = library_of(loader_name, &table);
    l.symbols = too_many;
    check_refused(&l, "this Math is too old or too new: it has no no_such_function()");

    GR_CHECK(mkdir("usual", 0777) == 0);
    place("usual", "libgr_test_1.so");
    check_found(own_name);

    /* A folder itself, its lib, and the lib of what is in it, as packages of Python have it. */
    GR_CHECK(unlink("usual/libgr_test_1.so") == 0);
    GR_CHECK(mkdir("a", 0777) == 0 && mkdir("a/lib", 0777) == 0 && mkdir("a/b", 0777) == 0 &&
             mkdir("a/b/lib", 0777) == 0);
    setenv("GR_TEST_LIBS", "/nowhere::a", 1);
    l = library_of(own_name, &table);
    check_refused(&l, "GR_TEST_LIBS");
    place("a/b/lib", "libgr_test_0.so");
    check_found(own_name);
    GR_CHECK(rename("a/b/lib/libgr_test_0.so", "a/lib/libgr_test_1.so") == 0);
    check_found(own_name);
    GR_CHECK(rename("a/lib/libgr_test_1.so", "a/libgr_test_1.so") == 0);
    check_found(own_name);
    return 0;
}

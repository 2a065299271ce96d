/* Libraries that are opened while the program runs. They stay open until the process ends. */
#include "backend/library.h"

#include "base/log.h"
#include "base/text.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <unistd.h>

/* Opens the file if it is there; a library that is there and cannot be opened is worth a word. */
static void *open_file(const char *path)
{
    void *handle;

    if (access(path, R_OK) != 0)
        return NULL;
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        gr_log(CUDA, WARN, "'%s' cannot be opened: %s", path, dlerror());
    return handle;
}

static void *open_in(const char *folder, size_t n_folder, const char *file)
{
    static const char *const below[] = { "", "/lib", "/*/lib" };
    void *handle = NULL;

    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]) && !handle; i++) {
        char pattern[PATH_MAX];
        glob_t found = { 0 };
        int n =
            snprintf(pattern, sizeof(pattern), "%.*s%s/%s", (int)n_folder, folder, below[i], file);

        if (n <= 0 || n >= (int)sizeof(pattern))
            continue;
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t j = 0; j < found.gl_pathc && !handle; j++)
                handle = open_file(found.gl_pathv[j]);
        globfree(&found);
    }
    return handle;
}

/* In the folders of the user, for every name before the next place is looked at. */
static void *open_by_env(const gr_library *l)
{
    const char *at = l->env ? getenv(l->env) : NULL;
    void *handle = NULL;

    while (at && *at && !handle) {
        size_t n = strcspn(at, ":");

        for (const char *const *f = l->files; *f && n > 0 && !handle; f++)
            handle = open_in(at, n, *f);
        at += n + (at[n] == ':');
    }
    return handle;
}

static void *open_any(const gr_library *l)
{
    void *handle = open_by_env(l);

    for (const char *const *f = l->files; *f && !handle; f++)
        handle = dlopen(*f, RTLD_NOW | RTLD_LOCAL);
    for (const char *const *d = l->folders; d && *d && !handle; d++)
        for (const char *const *f = l->files; *f && !handle; f++)
            handle = open_in(*d, strlen(*d), *f);
    return handle;
}

static gr_status not_found(const gr_library *l)
{
    gr_text names = GR_TEXT_INIT, folders = GR_TEXT_INIT;
    gr_status st;

    for (const char *const *f = l->files; *f; f++)
        gr_text_addf(&names, "%s%s", f == l->files ? "" : ", ", *f);
    for (const char *const *d = l->folders; d && *d; d++)
        gr_text_addf(&folders, ", %s", *d);
    st = gr_fail(GR_ERR_DEVICE,
                 "%s is not installed or not found: no %s in %s, by the system's loader%s", l->name,
                 gr_text_str(&names), l->env ? l->env : "its folders", gr_text_str(&folders));
    gr_text_fini(&folders);
    gr_text_fini(&names);
    return st;
}

static gr_status load(gr_library *l)
{
    void *handle = open_any(l);

    if (!handle)
        return not_found(l);
    for (const gr_library_symbol *s = l->symbols; s->name; s++) {
        void *sym = dlsym(handle, s->name);

        if (!sym) {
            dlclose(handle);
            return gr_fail(GR_ERR_DEVICE, "this %s is too old or too new: it has no %s()", l->name,
                           s->name);
        }
        /* ISO C has no cast from an object to a function pointer; POSIX says the bytes agree. */
        memcpy((char *)l->table + s->offset, &sym, sizeof(sym));
    }
    l->handle = handle;
    return GR_OK;
}

gr_status gr_library_load(gr_library *l)
{
    gr_status st;

    pthread_mutex_lock(&l->lock);
    if (!l->handle && l->error.status == GR_OK)
        gr_error_take(&l->error, load(l));
    st = l->handle ? GR_OK : gr_error_raise(&l->error);
    pthread_mutex_unlock(&l->lock);
    return st;
}

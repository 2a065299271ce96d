/*
 * Binding through hwloc's library, which is opened here and nowhere else. The sets are computed
 * before fork() as the system's own type, so that the child only makes one call.
 */
#include "launch/bind.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "launch/options.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if __has_include(<hwloc.h>)
#include <hwloc.h>
#define HAVE_HWLOC 1
#else
#define HAVE_HWLOC 0
#endif

struct gr_binding {
    int n;
    cpu_set_t sets[];
};

void gr_binding_destroy(gr_binding *b)
{
    gr_free(b);
}

void gr_binding_apply(const gr_binding *b, int local_rank)
{
    /* Refused only when the cores were taken from us meanwhile: the rank runs all the same. */
    if (b && local_rank < b->n)
        (void)sched_setaffinity(0, sizeof(cpu_set_t), &b->sets[local_rank]);
}

#if HAVE_HWLOC

#define HWLOC_MAP(X)             \
    X(hwloc_topology_init)       \
    X(hwloc_topology_load)       \
    X(hwloc_topology_destroy)    \
    X(hwloc_get_type_depth)      \
    X(hwloc_get_nbobjs_by_depth) \
    X(hwloc_get_obj_by_depth)    \
    X(hwloc_bitmap_next)

typedef struct library {
    void *handle;
#define X(name) __typeof__(&name) name;
    HWLOC_MAP(X)
#undef X
} library;

const char *gr_hwloc_version(void)
{
    static char text[32];
    void *handle = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
    void *symbol = handle ? dlsym(handle, "hwloc_get_api_version") : NULL;

    if (symbol) {
        unsigned v = ((__typeof__(&hwloc_get_api_version))(uintptr_t)symbol)();

        snprintf(text, sizeof(text), "%u.%u.%u", v >> 16, v >> 8 & 255, v & 255);
    }
    if (handle)
        dlclose(handle);
    return symbol ? text : NULL;
}

/* False, with a message, when it is not there. */
static bool load(library *lib)
{
    void *symbol;

    lib->handle = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
    if (!lib->handle) {
        (void)gr_fail(GR_ERR_IO, "--bind needs hwloc (package libhwloc15): %s", dlerror());
        return false;
    }
#define X(name)                                                                   \
    symbol = dlsym(lib->handle, #name);                                           \
    if (!symbol) {                                                                \
        (void)gr_fail(GR_ERR_IO, "the hwloc that is installed has no %s", #name); \
        return false;                                                             \
    }                                                                             \
    lib->name = (__typeof__(lib->name))(uintptr_t)symbol;
    HWLOC_MAP(X)
#undef X
    return true;
}

/* Adds the processors of an object that we may use. */
static void add(const library *lib, cpu_set_t *set, hwloc_obj_t o, const cpu_set_t *allowed)
{
    for (int i = lib->hwloc_bitmap_next(o->cpuset, -1); i >= 0 && i < CPU_SETSIZE;
         i = lib->hwloc_bitmap_next(o->cpuset, i))
        if (CPU_ISSET((size_t)i, allowed))
            CPU_SET((size_t)i, set);
}

static void describe(int local_rank, const cpu_set_t *set)
{
    gr_text list = GR_TEXT_INIT;

    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET((size_t)i, set))
            gr_text_addf(&list, "%s%d", list.len ? "," : "", i);
    gr_log(LAUNCH, INFO, "local rank %d is bound to processors %s", local_rank, gr_text_str(&list));
    gr_text_fini(&list);
}

static void share_out(const library *lib, hwloc_topology_t t, int kind, gr_binding *b)
{
    int depth =
        lib->hwloc_get_type_depth(t, kind == GR_BIND_NUMA ? HWLOC_OBJ_NUMANODE : HWLOC_OBJ_CORE);
    int n;
    cpu_set_t allowed;

    if (depth == HWLOC_TYPE_DEPTH_UNKNOWN)
        depth = lib->hwloc_get_type_depth(t, HWLOC_OBJ_PU);
    n = (int)lib->hwloc_get_nbobjs_by_depth(t, depth);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        memset(&allowed, 0xff, sizeof(allowed));
    for (int r = 0; r < b->n; r++) {
        int first = r % (n > 0 ? n : 1), end = first + 1;

        if (kind == GR_BIND_CORES && n >= b->n) {
            first = (int)((int64_t)n * r / b->n);
            end = (int)((int64_t)n * (r + 1) / b->n);
        }
        for (int i = first; i < end && i < n; i++)
            add(lib, &b->sets[r], lib->hwloc_get_obj_by_depth(t, depth, (unsigned)i), &allowed);
        if (CPU_COUNT(&b->sets[r]) == 0)
            b->sets[r] = allowed;
        describe(r, &b->sets[r]);
    }
}

static gr_status compute(gr_binding *b, int kind)
{
    library lib = { 0 };
    gr_status st = GR_ERR_IO;
    hwloc_topology_t t;

    if (load(&lib) && lib.hwloc_topology_init(&t) == 0) {
        if (lib.hwloc_topology_load(t) == 0) {
            share_out(&lib, t, kind, b);
            st = GR_OK;
        } else {
            st = gr_fail(GR_ERR_IO, "hwloc cannot read the topology of this host");
        }
        lib.hwloc_topology_destroy(t);
    }
    if (lib.handle)
        dlclose(lib.handle);
    return st;
}

#else

const char *gr_hwloc_version(void)
{
    return NULL;
}

static gr_status compute(gr_binding *b, int kind)
{
    (void)b;
    (void)kind;
    return gr_fail(GR_ERR_ARG, "--bind: this gradrun was built without hwloc (libhwloc-dev)");
}

#endif

gr_status gr_binding_create(gr_binding **out, int kind, int n_local)
{
    gr_binding *b = (gr_binding *)gr_calloc(1, sizeof(*b) + (size_t)n_local * sizeof(cpu_set_t));
    gr_status st;

    if (!b)
        return GR_ERR_NOMEM;
    b->n = n_local;
    st = compute(b, kind);
    if (st != GR_OK) {
        gr_binding_destroy(b);
        return st;
    }
    *out = b;
    return GR_OK;
}

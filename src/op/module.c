/*
 * Finding and loading modules.
 *
 * Places, in this order: the folders of GR_MODULE_PATH (separated by ':'), then around the
 * file this code was linked into and around the running program: its folder, gradus/ in
 * it, ../lib/gradus and ../lib; last the loader's own path. A file that is there but does
 * not load is no reason to stop looking, but its reason is kept for the message.
 *
 * A module is never unloaded: its kernels may be in plans of any lifetime. No state is
 * kept here, so any thread may call; the loader gives the same module again.
 */
#include "op/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct search {
    const char *name;
    gr_text reasons; /* of files that are there */
    gr_text missing; /* paths of those that are not */
    const gr_module *found;
} search;

static void refuse(search *s, const char *path, const char *why)
{
    gr_text_addf(&s->reasons, "; %s: %s", path, why);
}

static void check_module(search *s, const char *path, void *handle)
{
    gr_module_get_fn *get = NULL;
    void *symbol = dlsym(handle, "gr_module_get");
    const gr_module *m;
    char why[64];

    /* ISO C has no cast from object to function pointer; POSIX says the bits are one. */
    memcpy(&get, &symbol, sizeof(get));
    if (!get) {
        refuse(s, path, "exports no gr_module_get");
        return;
    }
    m = get();
    if (m->abi == GR_MODULE_ABI) {
        s->found = m;
        return;
    }
    snprintf(why, sizeof(why), "has ABI %d, this program needs %d", m->abi, GR_MODULE_ABI);
    refuse(s, path, why);
}

static void try_path(search *s, const char *path)
{
    bool is_file = strchr(path, '/') != NULL;
    void *handle;

    if (s->found)
        return;
    if (is_file && access(path, F_OK) != 0) {
        gr_text_addf(&s->missing, " %s", path);
        return;
    }
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle)
        check_module(s, path, handle);
    else if (is_file)
        refuse(s, path, dlerror());
    else
        gr_text_addf(&s->missing, " %s", path);
}

/* `folder`: its first `len` characters. */
static void try_folder(search *s, const char *folder, size_t len, const char *below)
{
    char path[PATH_MAX];
    int n =
        snprintf(path, sizeof(path), "%.*s/%slibgradus-%s.so", (int)len, folder, below, s->name);

    if (n > 0 && (size_t)n < sizeof(path))
        try_path(s, path);
}

static void try_list(search *s, const char *list)
{
    while (list && *list) {
        size_t len = strcspn(list, ":");

        if (len > 0)
            try_folder(s, list, len, "");
        list += len;
        list += *list == ':';
    }
}

static void try_around(search *s, const char *file)
{
    const char *slash = strrchr(file, '/');
    size_t len = slash ? (size_t)(slash - file) : 0;

    if (!slash)
        return;
    try_folder(s, file, len, "");
    try_folder(s, file, len, "gradus/");
    try_folder(s, file, len, "../lib/gradus/");
    try_folder(s, file, len, "../lib/");
}

static void try_own_places(search *s)
{
    static const char here = 0; /* an address in the file we were linked into */
    char library[PATH_MAX] = "", program[PATH_MAX] = "";
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    Dl_info info;

    program[n > 0 ? n : 0] = '\0';
    if (dladdr(&here, &info) && info.dli_fname && !realpath(info.dli_fname, library))
        library[0] = '\0';
    try_around(s, library);
    if (strcmp(program, library) != 0)
        try_around(s, program);
}

gr_status gr_module_load(const char *name, const gr_module **out)
{
    search s = { .name = name, .reasons = GR_TEXT_INIT, .missing = GR_TEXT_INIT };
    char path[NAME_MAX + 1];
    gr_status st = GR_OK;

    try_list(&s, getenv("GR_MODULE_PATH"));
    try_own_places(&s);
    snprintf(path, sizeof(path), "libgradus-%s.so", name);
    try_path(&s, path);
    *out = s.found;
    if (!s.found)
        st = gr_fail(GR_ERR_DEVICE, "module '%s' cannot be loaded%s; not found:%s", name,
                     gr_text_str(&s.reasons), gr_text_str(&s.missing));
    gr_text_fini(&s.reasons);
    gr_text_fini(&s.missing);
    return st;
}

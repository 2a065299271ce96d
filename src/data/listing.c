/*
 * Listing folders. readdir() says what is a folder and what is a file on every usual file system,
 * so 100 000 files cost no system call each; only links and file systems that do not tell are
 * asked about, and of those not the names that end like an image.
 */
#include "data/listing.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define MAX_DEPTH 16 /* deeper is a loop of links */

static const char *const readable[] = { ".jpg", ".jpeg", ".png", NULL };
static const char *const unreadable[] = { ".bmp", ".tif", ".tiff", ".webp",
                                          ".gif", ".ppm", ".pgm",  NULL };

bool gr_ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), n_suffix = strlen(suffix);

    return n > n_suffix && strcasecmp(name + n - n_suffix, suffix) == 0;
}

static bool ends_with_any(const char *name, const char *const *suffixes)
{
    for (; *suffixes; suffixes++)
        if (gr_ends_with(name, *suffixes))
            return true;
    return false;
}

bool gr_is_image_name(const char *name)
{
    return ends_with_any(name, readable);
}

size_t gr_stem_length(const char *name)
{
    const char *slash = strrchr(name, '/'), *dot = strrchr(name, '.');

    return dot && dot != name && (!slash || dot > slash + 1) ? (size_t)(dot - name) : strlen(name);
}

bool gr_is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool gr_is_file(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

void gr_listing_fini(gr_listing *l)
{
    gr_free(l->at);
    *l = (gr_listing){ 0 };
}

static gr_status add(gr_listing *l, gr_arena *a, const char *dir, const char *name)
{
    const char *copy = gr_arena_strdup(a, name);

    if (!copy)
        return GR_ERR_NOMEM;
    GR_TRY(gr_grow((void **)&l->at, &l->cap, l->n + 1, sizeof(*l->at)));
    l->at[l->n++] = (gr_listed){ .dir = dir, .name = copy };
    return GR_OK;
}

/* One folder's entries by kind; either list may be NULL. */
typedef struct entries {
    gr_arena *arena;
    const char *dir;
    gr_listing *files, *folders;
    bool images_only;
} entries;

static bool entry_is_folder(DIR *d, const struct dirent *e)
{
    struct stat info;

    if (e->d_type == DT_DIR || e->d_type == DT_REG)
        return e->d_type == DT_DIR;
    if (gr_is_image_name(e->d_name)) /* a link: what is behind it is seen when it is read */
        return false;
    return fstatat(dirfd(d), e->d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

static gr_status take_entry(entries *en, DIR *d, const struct dirent *e)
{
    if (e->d_name[0] == '.')
        return GR_OK;
    if (entry_is_folder(d, e))
        return en->folders ? add(en->folders, en->arena, en->dir, e->d_name) : GR_OK;
    if (!en->files)
        return GR_OK;
    if (en->images_only && ends_with_any(e->d_name, unreadable))
        return gr_fail(GR_ERR_FORMAT,
                       "'%s/%s' is of a kind that is not read here; convert it to PNG or JPEG",
                       en->dir, e->d_name);
    return !en->images_only || gr_is_image_name(e->d_name)
               ? add(en->files, en->arena, en->dir, e->d_name)
               : GR_OK;
}

static gr_status read_entries(entries *en)
{
    DIR *d = opendir(en->dir);
    const struct dirent *e;
    gr_status st = GR_OK;

    if (!d)
        return gr_fail(GR_ERR_IO, "cannot open folder '%s': %s", en->dir, strerror(errno));
    while (st == GR_OK) {
        errno = 0;
        e = readdir(d);
        if (!e)
            break;
        st = take_entry(en, d, e);
    }
    if (st == GR_OK && errno != 0)
        st = gr_fail(GR_ERR_IO, "cannot read folder '%s': %s", en->dir, strerror(errno));
    closedir(d);
    return st;
}

static int by_name(const void *x, const void *y)
{
    const gr_listed *a = (const gr_listed *)x, *b = (const gr_listed *)y;

    return strcmp(a->name, b->name);
}

static void sort_from(gr_listing *l, int first)
{
    if (l->n > first)
        qsort(l->at + first, (size_t)(l->n - first), sizeof(*l->at), by_name);
}

static gr_status list_images(gr_listing *l, gr_arena *a, const char *dir, int depth)
{
    gr_listing folders = { 0 };
    entries en = { .arena = a, .dir = dir, .files = l, .folders = &folders, .images_only = true };
    int first = l->n;
    gr_status st = read_entries(&en);

    sort_from(l, first);
    sort_from(&folders, 0);
    if (st == GR_OK && folders.n > 0 && depth == MAX_DEPTH)
        st = gr_fail(GR_ERR_IO, "folder '%s' is %d folders deep", dir, depth);
    for (int i = 0; i < folders.n && st == GR_OK; i++) {
        const char *below = gr_arena_printf(a, "%s/%s", dir, folders.at[i].name);

        st = below ? list_images(l, a, below, depth + 1) : GR_ERR_NOMEM;
    }
    gr_listing_fini(&folders);
    return st;
}

gr_status gr_listing_images(gr_listing *l, gr_arena *a, const char *folder)
{
    const char *dir = gr_arena_strdup(a, folder);

    return dir ? list_images(l, a, dir, 0) : GR_ERR_NOMEM;
}

static gr_status list_plain(gr_listing *l, gr_arena *a, const char *folder, bool folders)
{
    entries en = { .arena = a, .dir = gr_arena_strdup(a, folder) };
    int first = l->n;

    if (!en.dir)
        return GR_ERR_NOMEM;
    en.files = folders ? NULL : l;
    en.folders = folders ? l : NULL;
    GR_TRY(read_entries(&en));
    sort_from(l, first);
    return GR_OK;
}

gr_status gr_listing_folders(gr_listing *l, gr_arena *a, const char *folder)
{
    return list_plain(l, a, folder, true);
}

gr_status gr_listing_files(gr_listing *l, gr_arena *a, const char *folder)
{
    return list_plain(l, a, folder, false);
}

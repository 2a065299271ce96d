/*
 * Folders: one per class, or images without labels, or images beside masks.
 *
 * The order of samples is that of torchvision's ImageFolder: classes by name, in a class the files
 * of each folder by name, deeper folders after it.
 */
#include "data/files.h"
#include "data/listing.h"

#include "base/alloc.h"

#include <string.h>

/* ---- Classes ---- */

static gr_status add_class(gr_dataset *ds, gr_files *f, const char *folder, int label)
{
    gr_listing images = { 0 };
    gr_status st = gr_listing_images(&images, ds->arena, folder);

    if (st == GR_OK && images.n == 0)
        st =
            gr_fail(GR_ERR_IO, "the class folder '%s' holds no images (.jpg, .jpeg, .png)", folder);
    for (int i = 0; i < images.n && st == GR_OK; i++)
        st = gr_files_add(
            f,
            (gr_file_sample){ .dir = images.at[i].dir, .name = images.at[i].name, .label = label });
    gr_listing_fini(&images);
    return st;
}

static gr_status add_classes(gr_dataset *ds, gr_files *f, const gr_dataset_config *config,
                             const gr_listing *folders)
{
    const char **names = gr_arena_array(ds->arena, (size_t)folders->n + 1, sizeof(*names));
    int *map = gr_arena_array(ds->arena, (size_t)folders->n + 1, sizeof(*map));

    if (!names || !map)
        return GR_ERR_NOMEM;
    for (int i = 0; i < folders->n; i++)
        names[i] = folders->at[i].name;
    GR_TRY(gr_classes_set(ds, config->classes_of, names, folders->n, map));
    for (int i = 0; i < folders->n; i++) {
        const char *path = gr_arena_printf(ds->arena, "%s/%s", config->path, names[i]);

        if (!path)
            return GR_ERR_NOMEM;
        GR_TRY(add_class(ds, f, path, map[i]));
    }
    return GR_OK;
}

/* Folders that are all called like parts are parts, and not classes. */
static gr_status check_names(const gr_listing *folders, const char *path)
{
    for (int i = 0; i < folders->n; i++)
        if (!gr_is_part_name(folders->at[i].name))
            return GR_OK;
    return gr_fail(GR_ERR_ARG, "'%s' holds parts ('%s' ...): say which one, or name its folder",
                   path, folders->at[0].name);
}

gr_status gr_open_folder(gr_dataset *ds, const gr_dataset_config *config)
{
    gr_listing folders = { 0 };
    gr_files *f = NULL;
    gr_status st;

    GR_TRY_GOTO(st, gr_files_begin(ds, &f), end);
    f->n_root = strlen(config->path);
    GR_TRY_GOTO(st, gr_listing_folders(&folders, ds->arena, config->path), end);
    if (folders.n == 0) {
        st = gr_fail(GR_ERR_IO, "there are no class folders in '%s'", config->path);
        goto end;
    }
    GR_TRY_GOTO(st, check_names(&folders, config->path), end);
    GR_TRY_GOTO(st, add_classes(ds, f, config, &folders), end);
    st = gr_files_end(ds, config->path);
end:
    gr_listing_fini(&folders);
    return st;
}

gr_status gr_open_images(gr_dataset *ds, const gr_dataset_config *config)
{
    gr_listing images = { 0 };
    gr_files *f = NULL;
    gr_status st;

    GR_TRY_GOTO(st, gr_files_begin(ds, &f), end);
    f->n_root = strlen(config->path);
    GR_TRY_GOTO(st, gr_listing_images(&images, ds->arena, config->path), end);
    for (int i = 0; i < images.n && st == GR_OK; i++)
        st = gr_files_add(
            f, (gr_file_sample){ .dir = images.at[i].dir, .name = images.at[i].name, .label = -1 });
    if (st == GR_OK)
        st = gr_files_end(ds, config->path);
end:
    gr_listing_fini(&images);
    return st;
}

/* ---- Pairs ---- */

/* One file and what it is matched by: its path below the folder without suffix. */
typedef struct keyed {
    const char *key;
    const gr_listed *file;
} keyed;

typedef struct side {
    const char *folder, *what;
    gr_listing files;
    keyed *at; /* in the arena, sorted by key */
} side;

static int by_key(const void *x, const void *y)
{
    return strcmp(((const keyed *)x)->key, ((const keyed *)y)->key);
}

/* Words that tools append to one of two names: "21_training.png" and "21_manual1.png". */
static const char *const endings[] = { "_mask",     "_label",      "_labels", "_gt",
                                       "_seg",      "_image",      "_img",    "_segmentation",
                                       "_manual",   "_manual1",    "_test",   "_manual2",
                                       "_training", "_annotation", NULL };

static void cut_ending(char *key)
{
    for (const char *const *e = endings; *e; e++)
        if (gr_ends_with(key, *e)) {
            key[strlen(key) - strlen(*e)] = '\0';
            return;
        }
}

static gr_status make_keys(side *s, gr_arena *a, bool cut)
{
    size_t n_root = strlen(s->folder);

    s->at = gr_arena_array(a, (size_t)s->files.n + 1, sizeof(*s->at));
    if (!s->at)
        return GR_ERR_NOMEM;
    for (int i = 0; i < s->files.n; i++) {
        const gr_listed *f = &s->files.at[i];
        char *key = gr_arena_printf(a, "%s/%s", f->dir + n_root, f->name);

        if (!key)
            return GR_ERR_NOMEM;
        key[gr_stem_length(key)] = '\0';
        if (cut)
            cut_ending(key);
        s->at[i] = (keyed){ .key = key, .file = f };
    }
    qsort(s->at, (size_t)s->files.n, sizeof(*s->at), by_key);
    for (int i = 1; i < s->files.n; i++)
        if (strcmp(s->at[i - 1].key, s->at[i].key) == 0)
            return gr_fail(GR_ERR_FORMAT, "%s '%s' and '%s' in '%s' have the same stem", s->what,
                           s->at[i - 1].file->name, s->at[i].file->name, s->at[i].file->dir);
    return GR_OK;
}

static void add_lonely(gr_text *t, int *n, const side *of, const keyed *k)
{
    if (++*n <= 5)
        gr_text_addf(t, "%s%s '%s/%s'", *n == 1 ? "" : ", ", of->what, k->file->dir, k->file->name);
}

/* The first few that have no partner, and how many there are. */
static gr_status check_partners(const side *images, const side *masks)
{
    gr_text t = GR_TEXT_INIT;
    gr_status st = GR_OK;
    int i = 0, m = 0, n = 0;

    while (i < images->files.n || m < masks->files.n) {
        int order = i == images->files.n  ? 1
                    : m == masks->files.n ? -1
                                          : strcmp(images->at[i].key, masks->at[m].key);

        if (order < 0)
            add_lonely(&t, &n, images, &images->at[i]);
        else if (order > 0)
            add_lonely(&t, &n, masks, &masks->at[m]);
        i += order <= 0;
        m += order >= 0;
    }
    if (n > 0)
        st = gr_fail(GR_ERR_FORMAT,
                     "%d of %d images and masks have no partner of the same stem: %s%s", n,
                     images->files.n + masks->files.n, gr_text_str(&t), n > 5 ? " ..." : "");
    gr_text_fini(&t);
    return st;
}

/* By whole stems; where that fails, without the endings that tools append. When both fail, the
 * message is that of whole stems. */
static gr_status match(side *images, side *masks, gr_arena *a)
{
    gr_error first = { 0 };
    gr_status st;

    GR_TRY(make_keys(images, a, false));
    GR_TRY(make_keys(masks, a, false));
    st = check_partners(images, masks);
    if (st != GR_ERR_FORMAT)
        return st;
    gr_error_take(&first, st);
    st = make_keys(images, a, true);
    if (st == GR_OK)
        st = make_keys(masks, a, true);
    if (st == GR_OK)
        st = check_partners(images, masks);
    return st == GR_ERR_FORMAT ? gr_error_raise(&first) : st;
}

static gr_status open_sides(gr_dataset *ds, side *images, side *masks)
{
    gr_files *f = NULL;

    GR_TRY(gr_files_begin(ds, &f));
    f->n_root = strlen(images->folder);
    GR_TRY(gr_listing_images(&images->files, ds->arena, images->folder));
    GR_TRY(gr_listing_images(&masks->files, ds->arena, masks->folder));
    GR_TRY(match(images, masks, ds->arena));
    for (int i = 0; i < images->files.n; i++)
        GR_TRY(gr_files_add(f, (gr_file_sample){ .dir = images->at[i].file->dir,
                                                 .name = images->at[i].file->name,
                                                 .mask_dir = masks->at[i].file->dir,
                                                 .mask = masks->at[i].file->name,
                                                 .label = -1 }));
    return gr_files_end(ds, images->folder);
}

gr_status gr_open_pairs(gr_dataset *ds, const gr_dataset_config *config)
{
    side images = { .folder = config->path, .what = "image" };
    side masks = { .folder = config->labels, .what = "mask" };
    gr_status st = open_sides(ds, &images, &masks);

    gr_listing_fini(&images.files);
    gr_listing_fini(&masks.files);
    return st;
}

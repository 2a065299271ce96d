/*
 * From what the user names to what an opener reads: which format a path has, where in it the
 * asked part is ("train" may be a folder "training", a file "train.txt", five files
 * "data_batch_*.bin"), and where its masks or labels are.
 *
 * Only names are looked at. A part that is not there is not an error here: *found says so, with a
 * message of what was looked for, because a caller may only want to know.
 */
#include "data/dataset.h"
#include "data/listing.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct resolver {
    gr_arena *arena;
    const gr_dataset_config *config;
    gr_dataset_config *out;
    const char *const *names; /* of the part that is asked for; NULL: none is */
    bool no_memory;
} resolver;

typedef const char *const words[8];

static const struct {
    words names;
} parts[] = { { { "train", "training", NULL } },
              { { "valid", "val", "validation", NULL } },
              { { "test", "testing", NULL } } };

static words image_folders = { "images", "imgs", "image", "JPEGImages", NULL };
static words mask_folders = { "masks",       "mask",       "labels", "label",
                              "annotations", "1st_manual", "gt",     NULL };
static words drive_masks = { "1st_manual", NULL };

/* The names under which a part is known; NULL without one, or of an unknown one. */
static const char *const *part_names(const char *split)
{
    for (size_t i = 0; split && i < sizeof(parts) / sizeof(parts[0]); i++)
        for (int k = 0; parts[i].names[k]; k++)
            if (strcmp(parts[i].names[k], split) == 0)
                return parts[i].names;
    return NULL;
}

bool gr_is_part_name(const char *name)
{
    return part_names(name) != NULL;
}

/* dir/ + before + name + after, of the first of `names` for which that is there. NULL: none
 * is. */
typedef bool looks(const char *path);

static const char *first_of(resolver *r, const char *dir, const char *before,
                            const char *const *names, const char *after, looks *is)
{
    for (; *names; names++) {
        const char *path = gr_arena_printf(r->arena, "%s/%s%s%s", dir, before, *names, after);

        if (!path)
            r->no_memory = true;
        else if (is(path))
            return path;
    }
    return NULL;
}

static const char *folder_in(resolver *r, const char *dir, const char *const *names)
{
    return first_of(r, dir, "", names, "", gr_is_folder);
}

static gr_status not_found(const char *what, const char *where)
{
    return gr_fail(GR_ERR_IO, "there is no %s in '%s'", what, where);
}

/* The folder of the asked part; the path itself when none is asked for; NULL: not there. */
static const char *part_folder(resolver *r)
{
    const char *const *names = r->names;
    const char *path;

    if (!names)
        return r->config->path;
    path = folder_in(r, r->config->path, names);
    if (!path)
        gr_fail(GR_ERR_IO, "there is no folder for '%s' (%s%s%s ...) in '%s'", r->config->split,
                names[0], names[1] ? ", " : "", names[1] ? names[1] : "", r->config->path);
    return path;
}

/* ---- Which format? ---- */

typedef struct content {
    gr_listing files, folders;
} content;

static bool any_file(const content *c, bool (*is)(const char *name))
{
    for (int i = 0; i < c->files.n; i++)
        if (is(c->files.at[i].name))
            return true;
    return false;
}

static bool any_folder(const content *c, const char *const *names)
{
    for (int i = 0; i < c->folders.n; i++)
        for (int k = 0; names[k]; k++)
            if (strcmp(c->folders.at[i].name, names[k]) == 0)
                return true;
    return false;
}

static bool is_shard(const char *name)
{
    return gr_ends_with(name, ".grs");
}

static bool is_cifar10(const char *name)
{
    return strcmp(name, "data_batch_1.bin") == 0 || strcmp(name, "test_batch.bin") == 0;
}

static bool is_cifar100(const char *name)
{
    return strcmp(name, "train.bin") == 0 || strcmp(name, "test.bin") == 0;
}

static bool is_idx_images(const char *name)
{
    return strstr(name, "images") && (strstr(name, "idx3-ubyte") || strstr(name, "idx4-ubyte"));
}

static bool is_npy(const char *name)
{
    return gr_ends_with(name, ".npy");
}

static bool is_list(const char *name)
{
    return gr_ends_with(name, ".txt") || gr_ends_with(name, ".lst");
}

static bool is_csv(const char *name)
{
    return gr_ends_with(name, ".csv");
}

static gr_format format_of_file(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct stat info;

    if (is_shard(name))
        return GR_FORMAT_SHARDS;
    if (is_npy(name))
        return GR_FORMAT_NPY;
    if (is_csv(name))
        return GR_FORMAT_CSV;
    if (is_list(name))
        return GR_FORMAT_LIST;
    if (strstr(name, "-ubyte"))
        return GR_FORMAT_IDX;
    if (gr_ends_with(name, ".bin") && stat(path, &info) == 0 && info.st_size > 0)
        return info.st_size % 3073 == 0   ? GR_FORMAT_CIFAR10
               : info.st_size % 3074 == 0 ? GR_FORMAT_CIFAR100
                                          : GR_FORMAT_AUTO;
    return GR_FORMAT_AUTO;
}

/* Formats that are recognised by their files or by the folders that belong to them. */
static gr_format format_by_marks(resolver *r, const content *c)
{
    static words training = { "training", "test", NULL };
    const char *drive = folder_in(r, r->config->path, training);

    if (any_file(c, is_shard))
        return GR_FORMAT_SHARDS;
    if (any_file(c, is_cifar10))
        return GR_FORMAT_CIFAR10;
    if (any_file(c, is_cifar100))
        return GR_FORMAT_CIFAR100;
    if (any_file(c, is_idx_images))
        return GR_FORMAT_IDX;
    if (any_folder(c, drive_masks) || (drive && folder_in(r, drive, drive_masks)))
        return GR_FORMAT_DRIVE;
    if (r->config->labels || (any_folder(c, image_folders) && any_folder(c, mask_folders)))
        return GR_FORMAT_PAIRS;
    return any_file(c, is_npy) ? GR_FORMAT_NPY : GR_FORMAT_AUTO;
}

static bool only_parts(const content *c)
{
    for (int i = 0; i < c->folders.n; i++)
        if (!part_names(c->folders.at[i].name))
            return false;
    return c->folders.n > 0;
}

static gr_status format_by_content(resolver *r, const content *c, gr_format *out)
{
    const char *path = r->config->path;

    *out = format_by_marks(r, c);
    if (*out != GR_FORMAT_AUTO)
        return GR_OK;
    if (only_parts(c) && !r->names) /* with one, that it is not there is said later */
        return gr_fail(GR_ERR_ARG, "'%s' holds parts ('%s' ...): say which one, or name its folder",
                       path, c->folders.at[0].name);
    if (c->folders.n > 0)
        *out = GR_FORMAT_FOLDER;
    else if (any_file(c, gr_is_image_name))
        *out = GR_FORMAT_IMAGES;
    else if (any_file(c, is_list))
        *out = GR_FORMAT_LIST;
    else if (any_file(c, is_csv))
        *out = GR_FORMAT_CSV;
    else
        return gr_fail(GR_ERR_FORMAT,
                       "nothing in the folder '%s' looks like data: no images, shards, "
                       "idx, CIFAR or .npy files",
                       path);
    return GR_OK;
}

static gr_status format_of_folder(resolver *r, const char *path, gr_format *out)
{
    gr_dataset_config config = *r->config;
    resolver inner = { .arena = r->arena, .config = &config, .out = r->out, .names = r->names };
    content c = { 0 };
    gr_status st;

    config.path = path;
    GR_TRY_GOTO(st, gr_listing_files(&c.files, r->arena, path), end);
    GR_TRY_GOTO(st, gr_listing_folders(&c.folders, r->arena, path), end);
    st = format_by_content(&inner, &c, out);
end:
    gr_listing_fini(&c.files);
    gr_listing_fini(&c.folders);
    return st == GR_OK && inner.no_memory ? GR_ERR_NOMEM : st;
}

static gr_status detect(resolver *r, gr_format *out)
{
    const char *path = r->config->path, *inside = NULL;

    if (gr_is_file(path)) {
        *out = format_of_file(path);
        if (*out == GR_FORMAT_AUTO)
            return gr_fail(
                GR_ERR_FORMAT,
                "'%s' is no data file that is known by its name (.txt, .lst, .csv, .npy, "
                ".grs, -ubyte, or .bin of CIFAR): say its format, "
                "list, csv, idx, cifar10, cifar100, npy or shards",
                path);
        return GR_OK;
    }
    /* What the part's folder holds decides, unless the whole has marks of its own. */
    if (r->names)
        inside = folder_in(r, path, r->names);
    if (inside && !first_of(r, inside, "", drive_masks, "", gr_is_folder))
        return format_of_folder(r, inside, out);
    return format_of_folder(r, path, out);
}

/* ---- Where? ---- */

static gr_status resolve_pairs(resolver *r, const char *const *mask_names, bool *found)
{
    const gr_dataset_config *c = r->config;
    const char *const *names = r->names;
    const char *base = c->path, *inner;

    if (c->labels) {
        r->out->path = part_folder(r);
        r->out->labels = !names ? c->labels : folder_in(r, c->labels, names);
        *found = r->out->path && r->out->labels;
        return r->out->path && !*found ? (not_found(c->split, c->labels), GR_OK) : GR_OK;
    }
    if (names && (inner = folder_in(r, base, names)) != NULL) {
        base = inner;
        names = NULL;
    } else if (!names && mask_names == drive_masks) {
        base = folder_in(r, base, parts[0].names);
        base = base ? base : c->path;
    }
    r->out->path = folder_in(r, base, image_folders);
    r->out->labels = folder_in(r, base, mask_names);
    if (names && r->out->path && r->out->labels) { /* images/train and masks/train */
        r->out->path = folder_in(r, r->out->path, names);
        r->out->labels = folder_in(r, r->out->labels, names);
    }
    *found = r->out->path && r->out->labels;
    if (!*found)
        gr_fail(GR_ERR_IO,
                "there is no folder of images (images, imgs) beside one of masks (%s ...)%s%s"
                " in '%s'",
                mask_names[0], names ? " for " : "", names ? names[0] : "", base);
    return GR_OK;
}

static gr_status resolve_list(resolver *r, bool *found)
{
    static const char *const below[] = { "", "ImageSets/SegmentationAug/",
                                         "ImageSets/Segmentation/", "ImageSets/Main/", NULL };
    const char *suffix = r->out->format == GR_FORMAT_CSV ? ".csv" : ".txt";
    const char *path = NULL;

    if (!r->names) {
        not_found("list file; name the file itself, or a part such as 'train',", r->config->path);
        return GR_OK;
    }
    for (int i = 0; below[i] && !path; i++)
        path = first_of(r, r->config->path, below[i], r->names, suffix, gr_is_file);
    if (!r->config->root)
        r->out->root = r->config->path;
    r->out->path = path;
    *found = path != NULL;
    if (!*found)
        gr_fail(GR_ERR_IO, "there is no '%s%s' in '%s'", r->names[0], suffix, r->config->path);
    return GR_OK;
}

/* "t10k-images-idx3-ubyte.gz" -> the labels beside it, packed or not; NULL: not there. */
static const char *idx_labels(resolver *r, const char *images)
{
    static words endings = { "", ".gz", NULL };
    const char *slash = strrchr(images, '/'), *name = slash ? slash + 1 : images;
    const char *word = strstr(name, "images"), *kind = strstr(name, "idx"), *end;
    const char *dir;

    if (!word || !kind || kind < word)
        return NULL;
    end = strstr(kind, "-ubyte");
    dir =
        gr_arena_printf(r->arena, "%.*s", slash ? (int)(slash - images) : 1, slash ? images : ".");
    word = gr_arena_printf(r->arena, "%.*slabels%.*sidx1-ubyte", (int)(word - name), name,
                           (int)(kind - word - 6), word + 6);
    if (!end || !dir || !word) {
        r->no_memory = r->no_memory || !dir || !word;
        return NULL;
    }
    return first_of(r, dir, word, endings, "", gr_is_file);
}

static bool begins_with_any(const char *name, const char *const *beginnings)
{
    for (; beginnings && *beginnings; beginnings++)
        if (strncmp(name, *beginnings, strlen(*beginnings)) == 0)
            return true;
    return false;
}

static gr_status resolve_idx(resolver *r, bool *found)
{
    static words mnist_test = { "t10k", "test", NULL };
    const char *const *names = r->names;
    const char *path = r->config->path, *image = NULL;
    gr_listing files = { 0 };
    gr_status st;

    if (names == parts[2].names)
        names = mnist_test;
    GR_TRY_GOTO(st, gr_listing_files(&files, r->arena, path), end);
    for (int i = 0; i < files.n && st == GR_OK; i++) {
        const char *name = files.at[i].name;

        if (!is_idx_images(name) || (names && !begins_with_any(name, names)))
            continue;
        if (image && strlen(name) > strlen(image) && strncmp(name, image, strlen(image)) == 0)
            continue; /* the same one as .gz */
        if (image)
            st = gr_fail(GR_ERR_ARG, "'%s' holds '%s' and '%s': say which part", path, image, name);
        image = name;
    }
    *found = image != NULL;
    if (st == GR_OK && !image)
        gr_fail(GR_ERR_IO, "there is no '%s%s...' in '%s'", names ? names[0] : "",
                names ? "-images" : "images", path);
    if (st == GR_OK && image) {
        r->out->path = gr_arena_printf(r->arena, "%s/%s", path, image);
        r->no_memory = r->no_memory || !r->out->path;
    }
end:
    gr_listing_fini(&files);
    return st;
}

static gr_status resolve_cifar(resolver *r, bool *found)
{
    bool fine = r->out->format == GR_FORMAT_CIFAR100;
    bool test = r->names == parts[2].names;
    static words folders10 = { "cifar-10-batches-bin", NULL };
    static words folders100 = { "cifar-100-binary", NULL };
    const char *inner = folder_in(r, r->config->path, fine ? folders100 : folders10);
    const char *dir = inner ? inner : r->config->path, *name;

    if (r->names == parts[1].names) {
        not_found("validation part of CIFAR; divide the training part", dir);
        return GR_OK;
    }
    if (fine)
        name = gr_arena_printf(r->arena, "%s/%s", dir, test ? "test.bin" : "train.bin");
    else if (test)
        name = gr_arena_printf(r->arena, "%s/test_batch.bin", dir);
    else
        name = gr_arena_printf(r->arena,
                               "%s/data_batch_1.bin\n%s/data_batch_2.bin\n%s/data_batch_3.bin\n"
                               "%s/data_batch_4.bin\n%s/data_batch_5.bin",
                               dir, dir, dir, dir, dir);
    r->no_memory = r->no_memory || !name;
    r->out->path = name;
    *found = true; /* a file that is missing is named when it is opened */
    if (name && (fine || test) && !gr_is_file(name)) {
        *found = false;
        gr_fail(GR_ERR_IO, "there is no file '%s'", name);
    }
    return GR_OK;
}

static gr_status resolve_npy(resolver *r, bool *found)
{
    static words images = { "images.npy", "data.npy", "x.npy", "X.npy", NULL };
    static words labels = { "labels.npy", "masks.npy", "y.npy", "Y.npy", NULL };
    const char *const *names = r->names;
    const char *dir = names ? folder_in(r, r->config->path, names) : r->config->path;
    const char *x = NULL, *y = NULL;

    if (dir) {
        x = first_of(r, dir, "", images, "", gr_is_file);
        y = first_of(r, dir, "", labels, "", gr_is_file);
    }
    for (int i = 0; names && names[i] && !x; i++) { /* train_images.npy */
        const char *before = gr_arena_printf(r->arena, "%s_", names[i]);

        if (!before)
            return GR_ERR_NOMEM;
        x = first_of(r, r->config->path, before, images, "", gr_is_file);
        y = first_of(r, r->config->path, before, labels, "", gr_is_file);
    }
    r->out->path = x;
    if (!r->config->labels)
        r->out->labels = y;
    *found = x != NULL;
    if (!x && names && first_of(r, r->config->path, "", images, "", gr_is_file))
        gr_fail(
            GR_ERR_IO,
            "the arrays in '%s' are not divided: there is no '%s_images.npy' and no folder '%s'",
            r->config->path, r->config->split, r->config->split);
    else if (!x)
        not_found("images.npy or data.npy", dir ? dir : r->config->path);
    return GR_OK;
}

/* A file stands for itself, and for training where a part is asked for. */
static gr_status resolve_file(resolver *r, bool *found)
{
    *found = !r->names || r->names == parts[0].names;
    if (!*found)
        gr_fail(GR_ERR_IO, "'%s' is one file: there is no part '%s'", r->config->path,
                r->config->split);
    if (*found && r->out->format == GR_FORMAT_IDX && !r->config->labels)
        r->out->labels = idx_labels(r, r->config->path);
    return GR_OK;
}

static gr_status resolve_folder(resolver *r, bool *found)
{
    switch (r->out->format) {
    case GR_FORMAT_PAIRS: return resolve_pairs(r, mask_folders, found);
    case GR_FORMAT_DRIVE: return resolve_pairs(r, drive_masks, found);
    case GR_FORMAT_LIST:
    case GR_FORMAT_CSV: return resolve_list(r, found);
    case GR_FORMAT_IDX:
        GR_TRY(resolve_idx(r, found));
        if (*found && !r->config->labels && r->out->path)
            r->out->labels = idx_labels(r, r->out->path);
        return GR_OK;
    case GR_FORMAT_CIFAR10:
    case GR_FORMAT_CIFAR100: return resolve_cifar(r, found);
    case GR_FORMAT_NPY: return resolve_npy(r, found);
    case GR_FORMAT_FOLDER:
    case GR_FORMAT_IMAGES:
    case GR_FORMAT_SHARDS:
    case GR_FORMAT_AUTO:
    case GR_FORMAT_COUNT: break;
    }
    r->out->path = part_folder(r);
    *found = r->out->path != NULL;
    return GR_OK;
}

gr_status gr_dataset_resolve(gr_arena *a, const gr_dataset_config *config, gr_dataset_config *out,
                             bool *found)
{
    resolver r = { .arena = a, .config = config, .out = out, .names = part_names(config->split) };
    gr_status st;

    *out = *config;
    out->split = NULL;
    *found = false;
    if (config->split && !r.names)
        return gr_fail(GR_ERR_ARG, "there is no part '%s'; parts are train, valid and test",
                       config->split);
    if (!gr_is_file(config->path) && !gr_is_folder(config->path)) {
        struct stat info;

        if (stat(config->path, &info) == 0) /* a pipe, a device */
            gr_fail(GR_ERR_IO, "'%s' is neither a file nor a folder", config->path);
        else
            gr_fail(GR_ERR_IO, "there is no file or folder '%s'", config->path);
        return GR_OK;
    }
    if (config->format == GR_FORMAT_AUTO)
        GR_TRY(detect(&r, &out->format));
    st = gr_is_file(config->path) ? resolve_file(&r, found) : resolve_folder(&r, found);
    if (st == GR_OK && r.no_memory)
        return gr_fail(GR_ERR_NOMEM, "no memory to look for data");
    return st;
}

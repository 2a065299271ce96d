/*
 * Data sets: the public functions. They check what callers can get wrong and hand on to the
 * kind's own table. After opening nothing changes any more but the store of buffers, which has a
 * lock, so any number of threads may read.
 */
#include "data/dataset.h"

#include "base/alloc.h"
#include "base/option.h"
#include "data/codec.h"

#include <stdio.h>
#include <string.h>

static const char *const format_names[] = {
#define X(id, name) name,
    GR_FORMAT_MAP(X)
#undef X
        NULL
};

const char *gr_format_name(gr_format f)
{
    GR_BUG_IF((unsigned)f >= GR_FORMAT_COUNT);
    return format_names[f];
}

gr_status gr_format_find(const char *name, gr_format *out)
{
    const char *near;

    for (int i = 0; i < GR_FORMAT_COUNT; i++)
        if (strcmp(format_names[i], name) == 0) {
            *out = (gr_format)i;
            return GR_OK;
        }
    near = gr_nearest(name, format_names);
    return gr_fail(GR_ERR_ARG, "there is no data format '%s'%s%s%s", name,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

gr_status gr_dataset_begin(gr_dataset **out, const gr_dataset_config *config)
{
    gr_dataset *ds = gr_calloc(1, sizeof(*ds));
    gr_status st;

    if (!ds)
        return GR_ERR_NOMEM;
    GR_TRY_GOTO(st, gr_arena_create(&ds->arena), fail);
    GR_TRY_GOTO(st, gr_buffers_create(&ds->buffers), fail);
    ds->decode = config->decode;
    ds->mask_as = config->mask_as;
    ds->format = config->format;
    *out = ds;
    return GR_OK;

fail:
    gr_dataset_destroy(ds);
    return st;
}

void gr_dataset_destroy(gr_dataset *ds)
{
    if (!ds)
        return;
    if (ds->ops)
        ds->ops->destroy(ds->impl);
    gr_buffers_destroy(ds->buffers);
    gr_arena_destroy(ds->arena);
    gr_free(ds);
}

static gr_status open_format(gr_dataset *ds, const gr_dataset_config *config)
{
    switch (config->format) {
    case GR_FORMAT_FOLDER: return gr_open_folder(ds, config);
    case GR_FORMAT_IMAGES: return gr_open_images(ds, config);
    case GR_FORMAT_PAIRS:
    case GR_FORMAT_DRIVE: return gr_open_pairs(ds, config);
    case GR_FORMAT_LIST:
    case GR_FORMAT_CSV: return gr_open_list(ds, config);
    case GR_FORMAT_IDX: return gr_open_idx(ds, config);
    case GR_FORMAT_CIFAR10:
    case GR_FORMAT_CIFAR100: return gr_open_cifar(ds, config);
    case GR_FORMAT_NPY: return gr_open_npy(ds, config);
    case GR_FORMAT_SHARDS: return gr_open_shards(ds, config);
    case GR_FORMAT_AUTO:
    case GR_FORMAT_COUNT: break;
    }
    gr_bug(__FILE__, __LINE__, "a format that was not settled");
}

static gr_status open_resolved(gr_dataset **out, gr_arena *a, const gr_dataset_config *config)
{
    gr_dataset_config settled;
    gr_dataset *ds = NULL;
    bool found = false;
    gr_status st;

    GR_TRY(gr_dataset_resolve(a, config, &settled, &found));
    if (!found)
        return GR_ERR_IO; /* the message is set */
    GR_TRY(gr_dataset_begin(&ds, &settled));
    st = open_format(ds, &settled);
    if (st != GR_OK) {
        gr_dataset_destroy(ds);
        return st;
    }
    *out = ds;
    return GR_OK;
}

static gr_status check_config(const gr_dataset_config *config)
{
    if (!config->path || config->path[0] == '\0')
        return gr_fail(GR_ERR_ARG, "a data set without a path");
    if ((unsigned)config->format >= GR_FORMAT_COUNT)
        return gr_fail(GR_ERR_ARG, "there is no data format %d", (int)config->format);
    if (config->decode.as == GR_IMAGE_LABELS)
        return gr_fail(GR_ERR_ARG, "images are decoded as stored, gray or rgb, not as labels");
    return GR_OK;
}

gr_status gr_dataset_open(gr_dataset **out, const gr_dataset_config *config)
{
    gr_arena *a = NULL;
    gr_status st;

    if (!out || !config)
        return gr_fail(GR_ERR_ARG, "data set: out or config is NULL");
    *out = NULL;
    GR_TRY(check_config(config));
    GR_TRY(gr_arena_create(&a));
    st = open_resolved(out, a, config);
    gr_arena_destroy(a);
    return st == GR_OK ? GR_OK : gr_wrap(st, "data '%s'", config->path);
}

gr_status gr_dataset_has(const gr_dataset_config *config, bool *has)
{
    gr_dataset_config settled;
    gr_arena *a = NULL;
    gr_status st;

    if (!config || !has)
        return gr_fail(GR_ERR_ARG, "data set: config or has is NULL");
    *has = false;
    GR_TRY(check_config(config));
    GR_TRY(gr_arena_create(&a));
    st = gr_dataset_resolve(a, config, &settled, has);
    gr_arena_destroy(a);
    return st == GR_OK ? GR_OK : gr_wrap(st, "data '%s'", config->path);
}

gr_format gr_dataset_format(const gr_dataset *ds)
{
    return ds->format;
}

int64_t gr_dataset_size(const gr_dataset *ds)
{
    return ds->size;
}

int gr_dataset_n_classes(const gr_dataset *ds)
{
    return ds->n_classes;
}

const char *gr_dataset_class_name(const gr_dataset *ds, int c)
{
    return ds->class_names && c >= 0 && c < ds->n_classes ? ds->class_names[c] : NULL;
}

bool gr_dataset_has_masks(const gr_dataset *ds)
{
    return ds->has_masks;
}

gr_status gr_dataset_check_index(const gr_dataset *ds, int64_t i)
{
    if (i < 0 || i >= ds->size)
        return gr_fail(GR_ERR_ARG, "there is no sample %lld among %lld", (long long)i,
                       (long long)ds->size);
    return GR_OK;
}

int gr_dataset_class(const gr_dataset *ds, int64_t i)
{
    return i >= 0 && i < ds->size ? ds->ops->label(ds, i) : -1;
}

const char *gr_dataset_name(const gr_dataset *ds, int64_t i, char *text, size_t n_bytes)
{
    if (i >= 0 && i < ds->size)
        ds->ops->name_of(ds, i, text, n_bytes);
    else
        snprintf(text, n_bytes, "no sample %lld", (long long)i);
    return text;
}

gr_status gr_dataset_image(const gr_dataset *ds, int64_t i, gr_image *out)
{
    GR_TRY(gr_dataset_check_index(ds, i));
    return ds->ops->image(ds, i, out);
}

gr_status gr_dataset_mask(const gr_dataset *ds, int64_t i, gr_image *out)
{
    GR_TRY(gr_dataset_check_index(ds, i));
    if (!ds->has_masks)
        return gr_fail(GR_ERR_ARG, "this data set has no masks");
    return ds->ops->mask(ds, i, out);
}

gr_status gr_dataset_pair(const gr_dataset *ds, int64_t i, gr_image *image, gr_image *mask)
{
    char name[GR_DATASET_NAME];

    GR_TRY(gr_dataset_image(ds, i, image));
    GR_TRY(gr_dataset_mask(ds, i, mask));
    if (image->height != mask->height || image->width != mask->width)
        return gr_fail(GR_ERR_FORMAT,
                       "sample %lld '%s': the image has %d x %d pixels, its mask %d x %d",
                       (long long)i, gr_dataset_name(ds, i, name, sizeof(name)), image->width,
                       image->height, mask->width, mask->height);
    return GR_OK;
}

gr_status gr_dataset_tensor(const gr_dataset *ds, int64_t i, const void **mem, gr_dtype *dtype,
                            gr_shape *shape)
{
    GR_TRY(gr_dataset_check_index(ds, i));
    if (!ds->ops->tensor)
        return gr_fail(GR_ERR_ARG, "samples of format '%s' are images, not arrays",
                       gr_format_name(ds->format));
    return ds->ops->tensor(ds, i, mem, dtype, shape);
}

gr_status gr_image_convert(gr_image *img, gr_image_as as)
{
    if (as == GR_IMAGE_STORED || as == GR_IMAGE_LABELS)
        return GR_OK;
    gr_image_drop_alpha(img);
    if (as == GR_IMAGE_RGB)
        return gr_image_spread_gray(img);
    gr_image_to_gray(img);
    return GR_OK;
}

/* ---- Classes ---- */

/* Names of some formats are not sorted, and there are few: one after the other. */
static int class_named(const gr_dataset *ds, const char *name)
{
    for (int i = 0; i < ds->n_classes; i++)
        if (strcmp(ds->class_names[i], name) == 0)
            return i;
    return -1;
}

static gr_status copy_names(gr_dataset *ds, const char *const *names, int n)
{
    const char **copy = gr_arena_array(ds->arena, (size_t)n + 1, sizeof(*copy));

    if (!copy)
        return GR_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        copy[i] = gr_arena_strdup(ds->arena, names[i]);
        if (!copy[i])
            return GR_ERR_NOMEM;
    }
    ds->class_names = copy;
    ds->n_classes = n;
    return GR_OK;
}

gr_status gr_dataset_of_classes(gr_dataset **out, const char *const *names, int n)
{
    gr_dataset_config config = GR_DATASET_CONFIG_INIT;
    gr_dataset *ds;
    gr_status st;

    *out = NULL;
    GR_TRY(gr_dataset_begin(&ds, &config));
    st = copy_names(ds, names, n);
    for (int i = 0; i < n && st == GR_OK; i++)
        if (class_named(ds, names[i]) != i)
            st = gr_fail(GR_ERR_ARG, "the class '%s' is there twice", names[i]);
    if (st != GR_OK) {
        gr_dataset_destroy(ds);
        return st;
    }
    *out = ds;
    return GR_OK;
}

gr_status gr_classes_set(gr_dataset *ds, const gr_dataset *classes_of, const char *const *names,
                         int n, int *map)
{
    if (!classes_of) {
        for (int i = 0; i < n; i++)
            map[i] = i;
        return copy_names(ds, names, n);
    }
    if (!classes_of->class_names)
        return gr_fail(GR_ERR_FORMAT,
                       "classes have names here ('%s'), in the training data numbers",
                       n > 0 ? names[0] : "");
    for (int i = 0; i < n; i++) {
        map[i] = class_named(classes_of, names[i]);
        if (map[i] < 0)
            return gr_fail(GR_ERR_FORMAT, "the class '%s' is not among the %d of the training data",
                           names[i], classes_of->n_classes);
    }
    return copy_names(ds, classes_of->class_names, classes_of->n_classes);
}

gr_status gr_classes_count(gr_dataset *ds, const gr_dataset *classes_of, int n)
{
    ds->n_classes = n;
    if (!classes_of)
        return GR_OK;
    if (n > classes_of->n_classes)
        return gr_fail(GR_ERR_FORMAT, "class %d is not among the %d of the training data", n - 1,
                       classes_of->n_classes);
    if (classes_of->class_names)
        return copy_names(ds, classes_of->class_names, classes_of->n_classes);
    ds->n_classes = classes_of->n_classes;
    return GR_OK;
}

/* ---- Subsets ---- */

typedef struct subset {
    const gr_dataset *of;
    int64_t *index; /* owned */
} subset;

static const subset *subset_of(const gr_dataset *ds)
{
    return (const subset *)ds->impl;
}

static gr_status subset_image(const gr_dataset *ds, int64_t i, gr_image *out)
{
    return gr_dataset_image(subset_of(ds)->of, subset_of(ds)->index[i], out);
}

static gr_status subset_mask(const gr_dataset *ds, int64_t i, gr_image *out)
{
    return gr_dataset_mask(subset_of(ds)->of, subset_of(ds)->index[i], out);
}

static int subset_label(const gr_dataset *ds, int64_t i)
{
    return gr_dataset_class(subset_of(ds)->of, subset_of(ds)->index[i]);
}

static gr_status subset_tensor(const gr_dataset *ds, int64_t i, const void **mem, gr_dtype *dtype,
                               gr_shape *shape)
{
    return gr_dataset_tensor(subset_of(ds)->of, subset_of(ds)->index[i], mem, dtype, shape);
}

static gr_status subset_stored(const gr_dataset *ds, int64_t i, bool mask, gr_text *out)
{
    const gr_dataset *of = subset_of(ds)->of;

    return of->ops->stored(of, subset_of(ds)->index[i], mask, out);
}

static gr_status subset_probe(const gr_dataset *ds, int64_t i, bool mask, gr_image *out)
{
    const gr_dataset *of = subset_of(ds)->of;

    return of->ops->probe(of, subset_of(ds)->index[i], mask, out);
}

static void subset_name(const gr_dataset *ds, int64_t i, char *text, size_t n_bytes)
{
    gr_dataset_name(subset_of(ds)->of, subset_of(ds)->index[i], text, n_bytes);
}

static void subset_destroy(void *impl)
{
    subset *s = (subset *)impl;

    if (!s)
        return;
    gr_free(s->index);
    gr_free(s);
}

/* Whether `stored` and `probe` may be called is the parent's matter: a table for each case. */
static const gr_dataset_ops subset_ops = {
    .name = "subset",
    .image = subset_image,
    .mask = subset_mask,
    .label = subset_label,
    .tensor = subset_tensor,
    .name_of = subset_name,
    .destroy = subset_destroy,
};

static const gr_dataset_ops subset_files_ops = {
    .name = "subset of files",
    .image = subset_image,
    .mask = subset_mask,
    .label = subset_label,
    .tensor = subset_tensor,
    .stored = subset_stored,
    .probe = subset_probe,
    .name_of = subset_name,
    .destroy = subset_destroy,
};

static gr_status subset_make(gr_dataset *ds, const gr_dataset *of, const int64_t *index, int64_t n)
{
    subset *s = gr_calloc(1, sizeof(*s));

    if (!s)
        return GR_ERR_NOMEM;
    ds->ops = of->ops->stored ? &subset_files_ops : &subset_ops;
    ds->impl = s;
    s->of = of;
    s->index = gr_calloc((size_t)n + 1, sizeof(*s->index));
    if (!s->index)
        return GR_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        GR_TRY(gr_dataset_check_index(of, index[i]));
        s->index[i] = index[i];
    }
    ds->size = n;
    ds->format = of->format;
    ds->has_masks = of->has_masks;
    ds->n_classes = of->n_classes;
    ds->class_names = of->class_names; /* the parent outlives this */
    return GR_OK;
}

gr_status gr_dataset_subset(gr_dataset **out, const gr_dataset *of, const int64_t *index, int64_t n)
{
    gr_dataset_config config = { .decode = of->decode, .mask_as = of->mask_as };
    gr_dataset *ds = NULL;
    gr_status st;

    *out = NULL;
    if (n < 0)
        return gr_fail(GR_ERR_ARG, "a subset of %lld samples", (long long)n);
    GR_TRY(gr_dataset_begin(&ds, &config));
    st = subset_make(ds, of, index, n);
    if (st != GR_OK) {
        gr_dataset_destroy(ds);
        return st;
    }
    *out = ds;
    return GR_OK;
}

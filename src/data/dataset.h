/*
 * The inside of a data set: a table of functions per kind of storage, and what all have in
 * common. Kinds: files (files.h), arrays (arrays.h), shards (shard.h), subsets of any.
 */
#ifndef GR_DATA_DATASET_H
#define GR_DATA_DATASET_H

#include "base/arena.h"
#include "base/text.h"
#include "data/buffers.h"
#include "gradus/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `i` is inside the data set: dataset.c has checked it. Any thread, several at once. */
typedef struct gr_dataset_ops {
    const char *name;
    gr_status (*image)(const gr_dataset *ds, int64_t i, gr_image *out);
    gr_status (*mask)(const gr_dataset *ds, int64_t i, gr_image *out); /* NULL: none */
    int (*label)(const gr_dataset *ds, int64_t i);
    /* NULL: none. */
    gr_status (*tensor)(const gr_dataset *ds, int64_t i, const void **mem, gr_dtype *dtype,
                        gr_shape *shape);
    /* Appends the file of the image or mask as it is stored. NULL: it is no file. */
    gr_status (*stored)(const gr_dataset *ds, int64_t i, bool mask, gr_text *out);
    /* Height and width of the image or mask, and whether it is whole, as cheaply as can be
     * (probe.c). NULL: there is nothing to look at. */
    gr_status (*probe)(const gr_dataset *ds, int64_t i, bool mask, gr_image *out);
    void (*name_of)(const gr_dataset *ds, int64_t i, char *text, size_t n_bytes);
    void (*destroy)(void *impl); /* accepts NULL and half-made ones */
} gr_dataset_ops;

struct gr_dataset {
    const gr_dataset_ops *ops;
    void *impl;      /* owned, of the kind's own type */
    gr_arena *arena; /* owned: names and paths */
    gr_buffers *buffers;
    gr_format format;
    int64_t size;
    bool has_masks;
    gr_decode decode;
    gr_image_as mask_as;
    int n_classes;
    const char *const *class_names; /* in the arena; NULL where there are none */
};

/* GR_ERR_ARG: there is no such sample. */
gr_status gr_dataset_check_index(const gr_dataset *ds, int64_t i) GR_MUST_CHECK;

/* An empty one with arena and buffers; the opener fills it. */
gr_status gr_dataset_begin(gr_dataset **out, const gr_dataset_config *config) GR_MUST_CHECK;

/* Openers by format; config is resolved: split is NULL, path is what the format reads. Each
 * fills ds->ops, impl, size and classes. */
gr_status gr_open_folder(gr_dataset *ds, const gr_dataset_config *config) GR_MUST_CHECK;
gr_status gr_open_images(gr_dataset *ds, const gr_dataset_config *config) GR_MUST_CHECK;
gr_status gr_open_pairs(gr_dataset *ds, const gr_dataset_config *config) GR_MUST_CHECK;
gr_status gr_open_list(gr_dataset *ds, const gr_dataset_config *config) GR_MUST_CHECK;
gr_status gr_open_idx(gr_dataset *ds, const gr_dataset_config *config) GR_MUST_CHECK;
gr_status gr_open_cifar(gr_dataset *ds, const gr_dataset_config *config) GR_MUST_CHECK;
gr_status gr_open_npy(gr_dataset *ds, const gr_dataset_config *config) GR_MUST_CHECK;
gr_status gr_open_shards(gr_dataset *ds, const gr_dataset_config *config) GR_MUST_CHECK;

/* Settles format and split: *out is `config` with paths that the opener reads as they are; its
 * strings live in the arena. *found false: there is no such part, and the message says what was
 * looked for. */
gr_status gr_dataset_resolve(gr_arena *a, const gr_dataset_config *config, gr_dataset_config *out,
                             bool *found) GR_MUST_CHECK;

/* Is it what folders of parts are called: train, val, test ...? */
bool gr_is_part_name(const char *name);

/* Sorted names to class numbers: ds takes them over, or, with classes_of, those of that data
 * set, which must know every name. map[i] is the class of names[i]. */
gr_status gr_classes_set(gr_dataset *ds, const gr_dataset *classes_of, const char *const *names,
                         int n, int *map) GR_MUST_CHECK;
/* Classes that are numbers 0 to n - 1; classes_of must not have fewer. */
gr_status gr_classes_count(gr_dataset *ds, const gr_dataset *classes_of, int n) GR_MUST_CHECK;

/* Channels as `how` asks for, of an image that did not come from a decoder. */
gr_status gr_image_convert(gr_image *img, gr_image_as as) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

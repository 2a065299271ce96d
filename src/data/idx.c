/* MNIST and what looks like it: a file of images, a file of labels, either perhaps in gzip. */
#include "data/idx.h"

#include "data/arrays.h"

#include <string.h>

gr_status gr_idx_parse(gr_idx *out, const void *src, size_t n_bytes)
{
    const uint8_t *p = (const uint8_t *)src;
    uint64_t n_data = 1;
    size_t n_head;

    if (n_bytes < 4 || p[0] != 0 || p[1] != 0)
        return gr_fail(GR_ERR_FORMAT, "not an idx file: it does not begin with two zero bytes");
    if (p[2] != 0x08 && p[2] != 0x0c)
        return gr_fail(GR_ERR_FORMAT,
                       "idx of type 0x%02x: only bytes (0x08) and 32-bit integers "
                       "(0x0c) are read",
                       p[2]);
    if (p[3] < 1 || p[3] > GR_MAX_DIMS)
        return gr_fail(GR_ERR_FORMAT, "idx of %d dimensions", p[3]);
    n_head = 4 + 4 * (size_t)p[3];
    if (n_bytes < n_head)
        return gr_fail(GR_ERR_FORMAT, "%zu bytes: too short for an idx head", n_bytes);
    *out = (gr_idx){ .dtype = p[2] == 0x08 ? GR_U8 : GR_I32, .data = p + n_head };
    out->shape.n_dims = p[3];
    for (int i = 0; i < p[3]; i++) {
        uint32_t d = gr_be32(p + 4 + 4 * (size_t)i);

        out->shape.dim[i] = d;
        n_data *= d; /* stays below 2^64: it was below 2^32 before */
        if (n_data > UINT32_MAX && i + 1 < p[3])
            return gr_fail(GR_ERR_FORMAT, "idx of more than 2^32 elements");
    }
    n_data *= gr_dtype_bytes(out->dtype);
    if (n_data != n_bytes - n_head)
        return gr_fail(GR_ERR_FORMAT, "the head says %llu bytes, the file holds %zu after it",
                       (unsigned long long)n_data, n_bytes - n_head);
    return GR_OK;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static gr_status open_file(gr_mapped *m, const char *path, gr_idx *out)
{
    gr_status st;

    GR_TRY(gr_mapped_open_packed(m, path));
    st = gr_idx_parse(out, m->mem, m->n_bytes);
    return st == GR_OK ? GR_OK : gr_wrap(st, "'%s'", path);
}

static gr_status add_labels(gr_arrays *a, const char *path)
{
    gr_block *b = &a->block[0];
    gr_idx labels = { 0 };

    GR_TRY(open_file(&a->map[1], path, &labels));
    if (labels.shape.n_dims != 1 || labels.shape.dim[0] != b->n)
        return gr_fail(GR_ERR_FORMAT, "'%s' holds %lld labels in %d dimensions, '%s' %lld images",
                       path, (long long)labels.shape.dim[0], labels.shape.n_dims, b->name,
                       (long long)b->n);
    b->labels = labels.data;
    a->label_stride = gr_dtype_bytes(labels.dtype);
    a->labels = (gr_numbers){ .dtype = labels.dtype, .big_endian = true };
    return GR_OK;
}

gr_status gr_open_idx(gr_dataset *ds, const gr_dataset_config *config)
{
    gr_arrays *a = NULL;
    gr_idx images = { 0 };

    GR_TRY(gr_arrays_begin(ds, 1, 2, &a));
    GR_TRY(open_file(&a->map[0], config->path, &images));
    if (images.dtype != GR_U8 || images.shape.n_dims < 2)
        return gr_fail(GR_ERR_FORMAT, "'%s' holds %s in %d dimensions, no images", config->path,
                       gr_dtype_name(images.dtype), images.shape.n_dims);
    a->dtype = GR_U8;
    a->shape = gr_shape_of(images.shape.n_dims - 1, images.shape.dim + 1);
    a->layout = gr_layout_of(&a->shape, GR_U8);
    a->stride = (size_t)gr_shape_count(&a->shape);
    a->block[0] = (gr_block){ .samples = images.data,
                              .n = images.shape.dim[0],
                              .name = gr_arena_strdup(ds->arena, file_name(config->path)) };
    if (!a->block[0].name)
        return GR_ERR_NOMEM;
    if (config->labels)
        GR_TRY(add_labels(a, config->labels));
    GR_TRY(gr_arrays_end(ds));
    return gr_arrays_count_classes(ds, config->classes_of);
}

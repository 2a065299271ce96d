/* Data sets of arrays in mapped memory. Any thread. */
#include "data/arrays.h"

#include "base/alloc.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const gr_arrays *arrays_of(const gr_dataset *ds)
{
    return (const gr_arrays *)ds->impl;
}

/* The block of sample i, and its place in there. */
static const gr_block *find_block(const gr_arrays *a, int64_t i, int64_t *at)
{
    const gr_block *b = a->block;

    while (i >= b->first + b->n)
        b++; /* there are six at most */
    *at = i - b->first;
    return b;
}

static int64_t number_at(const uint8_t *mem, gr_numbers kind, int64_t i)
{
    const uint8_t *p;

    switch ((int)kind.dtype) {
    case GR_I32: p = mem + i * 4; return (int32_t)(kind.big_endian ? gr_be32(p) : gr_le32(p));
    case GR_I64: return (int64_t)gr_le64(mem + i * 8);
    default: return mem[i];
    }
}

static int arrays_label(const gr_dataset *ds, int64_t i)
{
    const gr_arrays *a = arrays_of(ds);
    const gr_block *b;
    int64_t at;

    b = find_block(a, i, &at);
    return b->labels ? (int)number_at(b->labels + (size_t)at * a->label_stride, a->labels, 0) : -1;
}

static gr_status arrays_tensor(const gr_dataset *ds, int64_t i, const void **mem, gr_dtype *dtype,
                               gr_shape *shape)
{
    const gr_arrays *a = arrays_of(ds);
    int64_t at;
    const gr_block *b = find_block(a, i, &at);

    *mem = b->samples + (size_t)at * a->stride;
    *dtype = a->dtype;
    *shape = a->shape;
    return GR_OK;
}

static void interleave(gr_image *out, const uint8_t *planes)
{
    size_t n = (size_t)out->height * (size_t)out->width, c = (size_t)out->channels;

    for (size_t k = 0; k < c; k++)
        for (size_t i = 0; i < n; i++)
            out->px[i * c + k] = planes[k * n + i];
}

/* Labels that lie between images are not looked at before: here a wrong one shows. */
static gr_status check_label(const gr_dataset *ds, const gr_block *b, int64_t i)
{
    int label = arrays_label(ds, i);

    if (b->labels && (label < 0 || label >= ds->n_classes))
        return gr_fail(GR_ERR_FORMAT, "sample %lld in '%s' is of class %d, there are %d",
                       (long long)i, b->name, label, ds->n_classes);
    return GR_OK;
}

static gr_status arrays_image(const gr_dataset *ds, int64_t i, gr_image *out)
{
    const gr_arrays *a = arrays_of(ds);
    const int64_t *d = a->shape.dim;
    int64_t at;
    const gr_block *b = find_block(a, i, &at);
    const uint8_t *src = b->samples + (size_t)at * a->stride;

    GR_TRY(check_label(ds, b, i));
    switch (a->layout) {
    case GR_LAYOUT_HW: GR_TRY(gr_image_reserve(out, (int)d[0], (int)d[1], 1)); break;
    case GR_LAYOUT_HWC: GR_TRY(gr_image_reserve(out, (int)d[0], (int)d[1], (int)d[2])); break;
    case GR_LAYOUT_CHW: GR_TRY(gr_image_reserve(out, (int)d[1], (int)d[2], (int)d[0])); break;
    case GR_LAYOUT_NONE: {
        char text[GR_SHAPE_TEXT];

        return gr_fail(GR_ERR_ARG, "'%s': samples of %s %s are no images", b->name,
                       gr_dtype_name(a->dtype), gr_shape_text(&a->shape, text, sizeof(text)));
    }
    }
    if (a->layout == GR_LAYOUT_CHW)
        interleave(out, src);
    else
        memcpy(out->px, src, (size_t)out->height * (size_t)out->width * (size_t)out->channels);
    return gr_image_convert(out, ds->decode.as);
}

static gr_status arrays_mask(const gr_dataset *ds, int64_t i, gr_image *out)
{
    const gr_arrays *a = arrays_of(ds);
    int64_t n = (int64_t)a->mask_height * a->mask_width;

    GR_TRY(gr_image_reserve(out, a->mask_height, a->mask_width, 1));
    for (int64_t p = 0; p < n; p++) {
        int64_t v = number_at(a->masks, a->mask_numbers, i * n + p);

        if (v < 0 || v > 255)
            return gr_fail(
                GR_ERR_FORMAT,
                "sample %lld: a label of %lld at row %lld, column %lld: masks hold 0 to 255",
                (long long)i, (long long)v, (long long)(p / a->mask_width),
                (long long)(p % a->mask_width));
        out->px[p] = (uint8_t)v;
    }
    return GR_OK;
}

static void arrays_name(const gr_dataset *ds, int64_t i, char *text, size_t n_bytes)
{
    int64_t at;
    const gr_block *b = find_block(arrays_of(ds), i, &at);

    snprintf(text, n_bytes, "%s[%lld]", b->name, (long long)at);
}

static void arrays_destroy(void *impl)
{
    gr_arrays *a = (gr_arrays *)impl;

    if (!a)
        return;
    for (int i = 0; a->map && i < a->n_maps; i++)
        gr_mapped_close(&a->map[i]);
    gr_free(a->map);
    gr_free(a->block);
    gr_free(a);
}

static const gr_dataset_ops ops = {
    .name = "arrays",
    .image = arrays_image,
    .mask = arrays_mask,
    .label = arrays_label,
    .tensor = arrays_tensor,
    .name_of = arrays_name,
    .destroy = arrays_destroy,
};

gr_status gr_arrays_begin(gr_dataset *ds, int n_blocks, int n_maps, gr_arrays **out)
{
    gr_arrays *a = gr_calloc(1, sizeof(*a));

    if (!a)
        return GR_ERR_NOMEM;
    ds->ops = &ops;
    ds->impl = a;
    a->n_blocks = n_blocks;
    a->n_maps = n_maps;
    a->block = gr_calloc((size_t)n_blocks, sizeof(*a->block));
    a->map = gr_calloc((size_t)n_maps, sizeof(*a->map));
    if (!a->block || !a->map)
        return GR_ERR_NOMEM;
    *out = a;
    return GR_OK;
}

gr_status gr_arrays_end(gr_dataset *ds)
{
    gr_arrays *a = (gr_arrays *)ds->impl;

    ds->size = 0;
    for (int i = 0; i < a->n_blocks; i++) {
        a->block[i].first = ds->size;
        ds->size += a->block[i].n;
    }
    ds->has_masks = a->masks != NULL;
    if (ds->size == 0)
        return gr_fail(GR_ERR_FORMAT, "'%s' holds no samples", a->block[0].name);
    return GR_OK;
}

gr_status gr_arrays_count_classes(gr_dataset *ds, const gr_dataset *classes_of)
{
    const gr_arrays *a = arrays_of(ds);
    int64_t most = -1;

    for (int k = 0; k < a->n_blocks; k++)
        for (int64_t i = 0; a->block[k].labels && i < a->block[k].n; i++) {
            int64_t c = number_at(a->block[k].labels + (size_t)i * a->label_stride, a->labels, 0);

            if (c < 0 || c > INT_MAX - 1)
                return gr_fail(GR_ERR_FORMAT, "label %lld is %lld: classes are numbers from 0 on",
                               (long long)i, (long long)c);
            most = c > most ? c : most;
        }
    return most < 0 ? GR_OK : gr_classes_count(ds, classes_of, (int)most + 1);
}

static bool is_channels(int64_t n)
{
    return n == 1 || n == 3 || n == 4;
}

gr_layout gr_layout_of(const gr_shape *s, gr_dtype dtype)
{
    for (int i = 0; i < s->n_dims; i++)
        if (s->dim[i] < 1 || s->dim[i] > 65535)
            return GR_LAYOUT_NONE;
    if (dtype != GR_U8 && dtype != GR_BOOL)
        return GR_LAYOUT_NONE;
    if (s->n_dims == 2)
        return GR_LAYOUT_HW;
    if (s->n_dims == 3 && is_channels(s->dim[2]))
        return GR_LAYOUT_HWC;
    return s->n_dims == 3 && is_channels(s->dim[0]) ? GR_LAYOUT_CHW : GR_LAYOUT_NONE;
}

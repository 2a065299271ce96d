/*
 * Arrays of numbers that are no pictures (.npy of floats, say): a sample is taken as it is,
 * turned into [height, width, channels] if its channels come first. Transforms are for
 * pictures and do not touch it. A number that is not finite makes a sample a broken one: a single
 * one would make nan of the whole network.
 */
#include "recipe/vision/vision.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool gr_vision_is_array(const gr_dataset *set)
{
    const void *mem;
    gr_dtype dtype;
    gr_shape shape;

    return gr_dataset_format(set) == GR_FORMAT_NPY && gr_dataset_size(set) > 0 &&
           gr_dataset_tensor(set, 0, &mem, &dtype, &shape) == GR_OK && dtype != GR_U8;
}

/* [d] is a picture of one row, [h, w] has one channel, [3, h, w] has them in front. */
static bool shape_of(const gr_shape *s, int64_t size[3], bool *channels_first)
{
    *channels_first = s->n_dims == 3 && s->dim[2] != 1 && s->dim[2] != 3;
    switch (s->n_dims) {
    case 1: memcpy(size, (int64_t[3]){ 1, s->dim[0], 1 }, 3 * sizeof(*size)); return true;
    case 2: memcpy(size, (int64_t[3]){ s->dim[0], s->dim[1], 1 }, 3 * sizeof(*size)); return true;
    case 3:
        for (int i = 0; i < 3; i++)
            size[i] = s->dim[*channels_first ? (i + 1) % 3 : i];
        return size[2] == 1 || size[2] == 3;
    default: return false;
    }
}

gr_status gr_vision_array_size(const gr_dataset *set, int64_t size[3])
{
    char text[GR_SHAPE_TEXT];
    const void *mem;
    gr_dtype dtype;
    gr_shape shape;
    bool first;

    GR_TRY(gr_dataset_tensor(set, 0, &mem, &dtype, &shape));
    if (shape_of(&shape, size, &first))
        return GR_OK;
    return gr_fail(GR_ERR_FORMAT,
                   "samples of shape %s; expected [d], [h, w], or [h, w, c] or [c, h, w] with 1 or "
                   "3 channels",
                   gr_shape_text(&shape, text, sizeof(text)));
}

static gr_status number_at(const void *mem, gr_dtype dtype, int64_t i, float *out)
{
    switch (dtype) {
    case GR_F32: *out = ((const float *)mem)[i]; return GR_OK;
    case GR_F64: *out = (float)((const double *)mem)[i]; return GR_OK;
    case GR_I32: *out = (float)((const int32_t *)mem)[i]; return GR_OK;
    case GR_I64: *out = (float)((const int64_t *)mem)[i]; return GR_OK;
    case GR_U8:
    case GR_BOOL: *out = (float)((const uint8_t *)mem)[i]; return GR_OK;
    case GR_BF16:
    case GR_F16:
    case GR_DTYPE_COUNT: break;
    }
    return gr_fail(GR_ERR_FORMAT, "an array of %s; f32, f64, i32, i64, u8 and bool are known",
                   gr_dtype_name(dtype));
}

/* The place of number i in a sample, as numpy writes it: "[3, 4]". */
static const char *place_text(const gr_shape *s, int64_t i, char text[GR_SHAPE_TEXT])
{
    gr_shape at = *s;

    for (int k = s->n_dims - 1; k >= 0; k--) {
        at.dim[k] = i % s->dim[k];
        i /= s->dim[k];
    }
    return gr_shape_text(&at, text, GR_SHAPE_TEXT);
}

/* Bits and not isfinite(), so that the compiler makes vectors of it: all samples pass here. */
static bool all_finite(const float *x, int64_t n)
{
    const uint32_t exponent = 0x7f800000;
    uint32_t bad = 0;

    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &x[i], sizeof(bits));
        bad |= (uint32_t)((bits & exponent) == exponent);
    }
    return !bad;
}

/* As they are stored, so that the message has the place in the file. */
static gr_status not_finite(const void *from, gr_dtype dtype, const gr_shape *shape)
{
    char text[GR_SHAPE_TEXT];
    int64_t at = 0;
    float x = 0;

    for (int64_t i = 0; i < gr_shape_count(shape); i++) {
        GR_TRY(number_at(from, dtype, i, &x));
        at = i;
        if (!isfinite(x))
            break;
    }
    if (dtype == GR_F64 && isfinite(((const double *)from)[at]))
        return gr_fail(GR_ERR_FORMAT, "its number at %s is %g, which is too large for f32",
                       place_text(shape, at, text), ((const double *)from)[at]);
    return gr_fail(GR_ERR_FORMAT, "its number at %s is %s, which is not finite",
                   place_text(shape, at, text),
                   isnan(x) ? "nan"
                   : x > 0  ? "inf"
                            : "-inf");
}

gr_status gr_vision_load_array(const gr_vision *v, const gr_sample *sample, float *to)
{
    const gr_vision_model *m = &v->model;
    int64_t size[3] = { 0 }, plane = m->height * m->width;
    const void *from;
    gr_dtype dtype;
    gr_shape shape;
    bool first;

    GR_TRY(gr_dataset_tensor(v->parts[sample->split].set, sample->index, &from, &dtype, &shape));
    if (!shape_of(&shape, size, &first) || size[0] != m->height || size[1] != m->width ||
        size[2] != m->channels)
        return gr_fail(GR_ERR_FORMAT,
                       "%" PRId64 " x %" PRId64 " with %" PRId64 " channels, but the network takes "
                       "%" PRId64 " x %" PRId64 " with %" PRId64,
                       size[0], size[1], size[2], m->height, m->width, m->channels);
    for (int64_t i = 0; i < plane; i++)
        for (int64_t c = 0; c < m->channels; c++)
            GR_TRY(number_at(from, dtype, first ? c * plane + i : i * m->channels + c,
                             &to[i * m->channels + c]));
    if (!all_finite(to, plane * m->channels))
        return not_finite(from, dtype, &shape);
    return GR_OK;
}

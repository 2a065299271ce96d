/* The references: every element by its index. Bytes are copied, so all types are the same,
 * but for concat's sources of another type, which go through double. */
#include "op/element.h"
#include "op/part/part_kernels.h"

#include <string.h>

typedef struct place {
    int64_t i[GR_MAX_DIMS];
} place;

static place place_of(const gr_shape *s, int64_t n)
{
    place p = { { 0 } };

    for (int d = s->n_dims - 1; d >= 0; d--) {
        p.i[d] = n % s->dim[d];
        n /= s->dim[d];
    }
    return p;
}

static int64_t index_of(const gr_shape *s, const place *p)
{
    int64_t n = 0;

    for (int d = 0; d < s->n_dims; d++)
        n = n * s->dim[d] + p->i[d];
    return n;
}

static void copy_one(void *dst, int64_t to, const void *src, int64_t from, gr_dtype t)
{
    size_t bytes = gr_dtype_bytes(t);

    memcpy((char *)dst + (size_t)to * bytes, (const char *)src + (size_t)from * bytes, bytes);
}

gr_status gr_concat_ref_run(const gr_launch *l)
{
    const gr_concat_attr *at = l->node->attr;
    const gr_value *out = &l->node->out[0];
    int64_t base = 0;

    for (int s = 0; s < l->node->n_src; s++) {
        const gr_value *src = l->node->src[s];

        for (int64_t i = 0; i < gr_shape_count(&src->shape); i++) {
            place p = place_of(&src->shape, i);
            int64_t to;

            p.i[at->axis] += base;
            to = index_of(&out->shape, &p);
            if (src->dtype == out->dtype)
                copy_one(l->out[0], to, l->src[s], i, out->dtype);
            else
                gr_element_put_f64(l->out[0], out->dtype, to,
                                   gr_element_f64(l->src[s], src->dtype, i));
        }
        base += src->shape.dim[at->axis];
    }
    return GR_OK;
}

gr_status gr_split_ref_run(const gr_launch *l)
{
    const gr_split_attr *at = l->node->attr;
    const gr_value *src = l->node->src[0];
    int64_t base = 0;

    for (int s = 0; s < l->node->n_out; s++) {
        const gr_shape *out = &l->node->out[s].shape;

        for (int64_t i = 0; i < gr_shape_count(out); i++) {
            place p = place_of(out, i);

            p.i[at->axis] += base;
            copy_one(l->out[s], i, l->src[0], index_of(&src->shape, &p), src->dtype);
        }
        base += at->size[s];
    }
    return GR_OK;
}

gr_status gr_slice_ref_run(const gr_launch *l)
{
    const gr_slice_attr *at = l->node->attr;
    const gr_value *src = l->node->src[0];
    const gr_shape *out = &l->node->out[0].shape;

    for (int64_t i = 0; i < gr_shape_count(out); i++) {
        place p = place_of(out, i);

        for (int d = 0; d < out->n_dims; d++)
            p.i[d] = at->start[d] + p.i[d] * at->step[d];
        copy_one(l->out[0], i, l->src[0], index_of(&src->shape, &p), src->dtype);
    }
    return GR_OK;
}

gr_status gr_pad_ref_run(const gr_launch *l)
{
    const gr_pad_attr *at = l->node->attr;
    const gr_value *src = l->node->src[0], *out = &l->node->out[0];

    for (int64_t i = 0; i < gr_shape_count(&out->shape); i++)
        gr_element_put_f64(l->out[0], out->dtype, i, at->value);
    for (int64_t i = 0; i < gr_shape_count(&src->shape); i++) {
        place p = place_of(&src->shape, i);

        for (int d = 0; d < src->shape.n_dims; d++)
            p.i[d] = at->lo[d] + p.i[d] * at->step[d];
        copy_one(l->out[0], index_of(&out->shape, &p), l->src[0], i, src->dtype);
    }
    return GR_OK;
}

gr_status gr_flip_ref_run(const gr_launch *l)
{
    const gr_flip_attr *at = l->node->attr;
    const gr_value *src = l->node->src[0];

    for (int64_t i = 0; i < gr_shape_count(&src->shape); i++) {
        place p = place_of(&src->shape, i);

        for (int d = 0; d < src->shape.n_dims; d++)
            if (at->axes >> d & 1)
                p.i[d] = src->shape.dim[d] - 1 - p.i[d];
        copy_one(l->out[0], i, l->src[0], index_of(&src->shape, &p), src->dtype);
    }
    return GR_OK;
}

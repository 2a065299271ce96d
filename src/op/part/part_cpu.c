/*
 * Concat, split, slice, pad and flip on the CPU as strided copies, and their lists of
 * kernels. Every slice walks all the parts and copies its share of each.
 */
#include "op/element.h"
#include "op/part/part_kernels.h"
#include "op/shape/strided.h"

#include <string.h>

/* Where part number i lies; the executor's memory is in `l`. */
typedef void place_fn(const gr_launch *l, int i, gr_strided *s);

typedef struct job {
    const gr_launch *launch;
    place_fn *place;
    int n_parts;
} job;

static void run_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;

    for (int i = 0; i < j->n_parts; i++) {
        gr_strided s = { 0 };

        j->place(j->launch, i, &s);
        gr_strided_plan(&s);
        gr_strided_run(&s, slice, n_slices);
    }
}

static void run_all(const gr_launch *l, place_fn *place, int n_parts, size_t n_bytes)
{
    job j = { .launch = l, .place = place, .n_parts = n_parts };

    gr_pool_run(l->pool, run_slice, &j, n_bytes < GR_STRIDED_SLICE_MIN ? 1 : gr_pool_size(l->pool));
}

/* Both sides dense: `part` is one of the pieces, `whole` what they make up. */
static void set_shapes(gr_strided *s, const gr_shape *part, int64_t *part_step,
                       const gr_shape *whole, int64_t *whole_step)
{
    s->n_dims = part->n_dims;
    memcpy(s->dim, part->dim, sizeof(s->dim));
    gr_strided_steps(part, part_step);
    gr_strided_steps(whole, whole_step);
}

/* ---- concat and split ---- */

static void place_concat(const gr_launch *l, int i, gr_strided *s)
{
    const gr_concat_attr *at = l->node->attr;
    int64_t base = 0;

    for (int k = 0; k < i; k++)
        base += l->node->src[k]->shape.dim[at->axis];
    s->elem_bytes = gr_dtype_bytes(at->dtype);
    set_shapes(s, &l->node->src[i]->shape, s->from, &l->node->out[0].shape, s->to);
    s->src = l->src[i];
    s->dst = (char *)l->out[0] + (size_t)(base * s->to[at->axis]) * s->elem_bytes;
}

static gr_status concat_run(const gr_launch *l)
{
    run_all(l, place_concat, l->node->n_src, gr_value_bytes(&l->node->out[0]));
    return GR_OK;
}

static const char *concat_reject(const gr_node *n)
{
    for (int i = 0; i < n->n_src; i++)
        if (n->src[i]->dtype != n->out[0].dtype)
            return "only sources of the result's type";
    return NULL;
}

static void place_split(const gr_launch *l, int i, gr_strided *s)
{
    const gr_split_attr *at = l->node->attr;
    int64_t base = 0;

    for (int k = 0; k < i; k++)
        base += at->size[k];
    s->elem_bytes = gr_dtype_bytes(l->node->src[0]->dtype);
    set_shapes(s, &l->node->out[i].shape, s->to, &l->node->src[0]->shape, s->from);
    s->src = (const char *)l->src[0] + (size_t)(base * s->from[at->axis]) * s->elem_bytes;
    s->dst = l->out[i];
}

static gr_status split_run(const gr_launch *l)
{
    run_all(l, place_split, l->node->n_out, gr_value_bytes(l->node->src[0]));
    return GR_OK;
}

/* ---- slice, pad, flip ---- */

static void place_slice(const gr_launch *l, int i, gr_strided *s)
{
    const gr_slice_attr *at = l->node->attr;

    (void)i;
    s->elem_bytes = gr_dtype_bytes(l->node->src[0]->dtype);
    set_shapes(s, &l->node->out[0].shape, s->to, &l->node->src[0]->shape, s->from);
    s->src = l->src[0];
    s->dst = l->out[0];
    for (int d = 0; d < s->n_dims; d++) {
        s->src += (size_t)(at->start[d] * s->from[d]) * s->elem_bytes;
        s->from[d] *= at->step[d];
    }
}

static gr_status slice_run(const gr_launch *l)
{
    if (gr_value_bytes(&l->node->out[0]) > 0)
        run_all(l, place_slice, 1, gr_value_bytes(&l->node->out[0]));
    return GR_OK;
}

static void place_pad(const gr_launch *l, int i, gr_strided *s)
{
    const gr_pad_attr *at = l->node->attr;

    (void)i;
    s->elem_bytes = gr_dtype_bytes(l->node->src[0]->dtype);
    set_shapes(s, &l->node->src[0]->shape, s->from, &l->node->out[0].shape, s->to);
    s->src = l->src[0];
    s->dst = l->out[0];
    for (int d = 0; d < s->n_dims; d++) {
        s->dst += (size_t)(at->lo[d] * s->to[d]) * s->elem_bytes;
        s->to[d] *= at->step[d];
    }
}

static void fill_slice(void *arg, int slice, int n_slices)
{
    const gr_launch *l = arg;
    const gr_pad_attr *at = l->node->attr;
    gr_dtype t = l->node->out[0].dtype;
    size_t bytes = gr_dtype_bytes(t), done = bytes, n;
    int64_t lo, hi;
    char *out;

    gr_pool_cut(gr_shape_count(&l->node->out[0].shape), 64, slice, n_slices, &lo, &hi);
    if (lo == hi)
        return;
    out = (char *)l->out[0] + (size_t)lo * bytes;
    n = (size_t)(hi - lo) * bytes;
    gr_element_put_f64(out, t, 0, at->value);
    for (; done < n; done *= 2)
        memcpy(out + done, out, done < n - done ? done : n - done);
}

static gr_status pad_run(const gr_launch *l)
{
    size_t n_bytes = gr_value_bytes(&l->node->out[0]);
    gr_launch copy = *l;

    gr_pool_run(l->pool, fill_slice, &copy,
                n_bytes < GR_STRIDED_SLICE_MIN ? 1 : gr_pool_size(l->pool));
    if (gr_value_bytes(l->node->src[0]) > 0)
        run_all(l, place_pad, 1, n_bytes);
    return GR_OK;
}

static void place_flip(const gr_launch *l, int i, gr_strided *s)
{
    const gr_flip_attr *at = l->node->attr;

    (void)i;
    s->elem_bytes = gr_dtype_bytes(l->node->src[0]->dtype);
    set_shapes(s, &l->node->out[0].shape, s->to, &l->node->src[0]->shape, s->from);
    s->src = l->src[0];
    s->dst = l->out[0];
    for (int d = 0; d < s->n_dims; d++)
        if (at->axes >> d & 1) {
            s->src += (size_t)((s->dim[d] - 1) * s->from[d]) * s->elem_bytes;
            s->from[d] = -s->from[d];
        }
}

static gr_status flip_run(const gr_launch *l)
{
    if (gr_value_bytes(&l->node->out[0]) > 0)
        run_all(l, place_flip, 1, gr_value_bytes(&l->node->out[0]));
    return GR_OK;
}

/* ---- lists ---- */

const gr_kernel gr_concat_cpu[] = {
    { .name = "strided", .reject = concat_reject, .run = concat_run },
    { .name = "reference", .run = gr_concat_ref_run },
    { .name = NULL },
};

const gr_kernel gr_split_cpu[] = {
    { .name = "strided", .run = split_run },
    { .name = "reference", .run = gr_split_ref_run },
    { .name = NULL },
};

const gr_kernel gr_slice_cpu[] = {
    { .name = "strided", .run = slice_run },
    { .name = "reference", .run = gr_slice_ref_run },
    { .name = NULL },
};

const gr_kernel gr_pad_cpu[] = {
    { .name = "strided", .run = pad_run },
    { .name = "reference", .run = gr_pad_ref_run },
    { .name = NULL },
};

const gr_kernel gr_flip_cpu[] = {
    { .name = "strided", .run = flip_run },
    { .name = "reference", .run = gr_flip_ref_run },
    { .name = NULL },
};

/*
 * The reference reduction: every source element goes to its result; sums in double, or
 * i64 for integers, which wrap around. The greatest of numbers with a NaN is NaN.
 */
#include "op/element.h"
#include "op/reduce/reduce_kernels.h"

#include <math.h>

/* The source's dimensions as two loops: over results and over what becomes one. */
typedef struct walk {
    int n_dims;
    int64_t dim[GR_MAX_DIMS], step[GR_MAX_DIMS];
    int64_t count;
} walk;

static void split(const gr_node *n, walk *kept, walk *reduced)
{
    const gr_reduce_attr *at = n->attr;
    const gr_shape *s = &n->src[0]->shape;
    int64_t step = 1;

    kept->n_dims = reduced->n_dims = 0;
    kept->count = reduced->count = 1;
    for (int d = s->n_dims - 1; d >= 0; d--) { /* last first */
        walk *w = at->axes & (1u << d) ? reduced : kept;

        w->dim[w->n_dims] = s->dim[d];
        w->step[w->n_dims++] = step;
        w->count *= s->dim[d];
        step *= s->dim[d];
    }
}

static int64_t offset(const walk *w, int64_t i)
{
    int64_t at = 0;

    for (int d = 0; d < w->n_dims; d++) {
        at += i % w->dim[d] * w->step[d];
        i /= w->dim[d];
    }
    return at;
}

static double of_floats(const gr_launch *l, const walk *r, int64_t at, gr_reduce_fn fn)
{
    gr_dtype t = l->node->src[0]->dtype;
    double y = fn == GR_MAX ? -(double)INFINITY : 0;

    for (int64_t i = 0; i < r->count; i++) {
        double x = gr_element_f64(l->src[0], t, at + offset(r, i));

        if (fn != GR_MAX)
            y += x;
        else if (!(x <= y) && !isnan(y))
            y = x;
    }
    return fn == GR_MEAN ? y / (double)r->count : y;
}

static int64_t of_integers(const gr_launch *l, const walk *r, int64_t at, gr_reduce_fn fn)
{
    gr_dtype t = l->node->src[0]->dtype;
    int64_t y = 0;

    if (fn == GR_MAX)
        y = t == GR_I64 ? INT64_MIN : t == GR_I32 ? INT32_MIN : 0;
    for (int64_t i = 0; i < r->count; i++) {
        int64_t x = gr_element_i64(l->src[0], t, at + offset(r, i));

        if (fn == GR_MAX)
            y = x > y ? x : y;
        else
            y = (int64_t)((uint64_t)y + (uint64_t)x);
    }
    return y;
}

gr_status gr_reduce_ref_run(const gr_launch *l)
{
    const gr_reduce_attr *at = l->node->attr;
    walk kept, reduced;

    split(l->node, &kept, &reduced);
    for (int64_t i = 0; i < kept.count; i++) {
        int64_t from = offset(&kept, i);

        if (gr_dtype_is_float(at->dtype))
            gr_element_put_f64(l->out[0], at->dtype, i, of_floats(l, &reduced, from, at->fn));
        else
            gr_element_put_i64(l->out[0], at->dtype, i, of_integers(l, &reduced, from, at->fn));
    }
    return GR_OK;
}

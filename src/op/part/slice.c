/*
 * Slice, pad and flip.
 *
 *   slice   y[i] = x[start + i * step] in each dimension    dx = pad of dy with zeros
 *   pad     y[lo + i * step] = x[i], else a constant        dx = slice of dy
 *   flip    y[i] = x[dim - 1 - i] in some dimensions        dx = flip of dy
 */
#include "op/part/part.h"

#include "gradus/ops.h"

#include <stdio.h>
#include <string.h>

static gr_value *add_one(gr_graph *g, const gr_op *op, const char *site, gr_value *a,
                         const void *attr, size_t attr_bytes)
{
    return gr_graph_add_value(g, &(gr_build){ .op = op,
                                              .site = site,
                                              .src = &a,
                                              .n_src = 1,
                                              .attr = attr,
                                              .attr_bytes = attr_bytes });
}

/* How far n elements with this step reach. */
static int64_t reach(int64_t n, int64_t step)
{
    return n > 0 ? (n - 1) * step + 1 : 0;
}

/* ---- slice ---- */

/* Are there `count` elements from `start` by `step` among n? */
static bool is_inside(int64_t start, int64_t count, int64_t step, int64_t n)
{
    if (start < 0 || count < 0 || start > n)
        return false;
    return count == 0 || (start < n && (n - start - 1) / step + 1 >= count);
}

static gr_status slice_infer(gr_node *n)
{
    const gr_slice_attr *at = n->attr;
    const gr_shape *a = &n->src[0]->shape;

    n->out[0].shape = *a;
    n->out[0].dtype = n->src[0]->dtype;
    for (int d = 0; d < a->n_dims; d++) {
        int64_t start = at->start[d], count = at->count[d], step = at->step[d];

        if (step < 1)
            return gr_fail(GR_ERR_ARG, "the step of dimension %d is %lld, not 1 or more", d,
                           (long long)step);
        if (!is_inside(start, count, step, a->dim[d]))
            return gr_fail(GR_ERR_ARG, "dimension %d has no %lld elements from %lld by %lld", d,
                           (long long)count, (long long)start, (long long)step);
        n->out[0].shape.dim[d] = count;
    }
    return GR_OK;
}

static gr_status slice_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    const gr_slice_attr *at = n->attr;
    const gr_shape *a = &n->src[0]->shape;
    gr_pad_attr pad = { .value = 0 };

    if (!gr_dtype_is_float(n->src[0]->dtype))
        return GR_OK;
    for (int d = 0; d < a->n_dims; d++) {
        pad.step[d] = at->step[d];
        pad.lo[d] = at->start[d];
        pad.hi[d] = a->dim[d] - at->start[d] - reach(at->count[d], at->step[d]);
    }
    d_src[0] = add_one(g, &gr_op_pad, n->site, d_out[0], &pad, sizeof(pad));
    return gr_graph_status(g);
}

static void slice_print(const gr_node *n, gr_text *out)
{
    const gr_slice_attr *at = n->attr;

    gr_text_addf(out, " [");
    for (int d = 0; d < n->src[0]->shape.n_dims; d++) {
        int64_t end = at->start[d] + reach(at->count[d], at->step[d]);

        gr_text_addf(out, "%s%lld:%lld", d ? ", " : "", (long long)at->start[d], (long long)end);
        if (at->step[d] > 1)
            gr_text_addf(out, ":%lld", (long long)at->step[d]);
    }
    gr_text_addf(out, "]");
}

/* A range of a dimension of n elements as start, count, step. What does not fit is left
 * as such for the caller to refuse. */
static void resolve(gr_slice_attr *at, int d, gr_range r, int64_t n)
{
    int64_t start = r.start < 0 ? r.start + n : r.start;
    int64_t stop = r.stop == GR_END ? n : r.stop < 0 ? r.stop + n : r.stop;

    at->start[d] = start;
    at->step[d] = r.step;
    at->count[d] = 0;
    if (start < 0) /* of any size: nothing is subtracted from it */
        return;
    at->count[d] = stop <= start ? 0 : r.step < 1 ? 0 : (stop - start - 1) / r.step + 1;
    if (stop > n || stop < start) /* not clamped, as Python would: it is most often a slip */
        at->count[d] = stop > n ? stop - start : -1;
    if (at->count[d] <= 1 && r.step > 1) /* of one element, however long: not to be multiplied */
        at->step[d] = 1;
}

/* Says what was asked for, which infer does not know any more. */
static void refuse_range(const char *site, gr_graph *g, const gr_shape *s, int d, gr_range r)
{
    char text[GR_SHAPE_TEXT], stop[24] = "the end";

    if (r.stop != GR_END)
        snprintf(stop, sizeof(stop), "%lld", (long long)r.stop);
    gr_graph_fail(g, site,
                  "slice of %s: %lld to %s by %lld of dimension %d, which has %lld elements",
                  gr_shape_text(s, text, sizeof(text)), (long long)r.start, stop, (long long)r.step,
                  d, (long long)s->dim[d]);
}

gr_value *gr_slice_at(const char *site, gr_graph *g, gr_value *a, const gr_range *ranges)
{
    gr_slice_attr attr = { .start = { 0 } };
    gr_shape s = gr_value_shape(a);

    if (!ranges) {
        gr_graph_fail(g, site, "slice: the ranges are NULL");
        return NULL;
    }
    for (int d = 0; d < s.n_dims; d++) {
        resolve(&attr, d, ranges[d], s.dim[d]);
        if (ranges[d].step >= 1 &&
            !is_inside(attr.start[d], attr.count[d], attr.step[d], s.dim[d])) {
            refuse_range(site, g, &s, d, ranges[d]);
            return NULL;
        }
    }
    return add_one(g, &gr_op_slice, site, a, &attr, sizeof(attr));
}

gr_value *gr_slice_axis_at(const char *site, gr_graph *g, gr_value *a, int axis, int64_t start,
                           int64_t stop)
{
    gr_range ranges[GR_MAX_DIMS] = { { 0 } };
    gr_shape s = gr_value_shape(a);
    int at = gr_axis_of(axis, s.n_dims);

    if (a && at < 0) {
        char text[GR_SHAPE_TEXT];

        gr_graph_fail(g, site, "slice of %s: there is no dimension %d",
                      gr_shape_text(&s, text, sizeof(text)), axis);
        return NULL;
    }
    for (int d = 0; d < s.n_dims; d++)
        ranges[d] = d == at ? (gr_range){ start, stop, 1 } : (gr_range)GR_RANGE_ALL;
    return gr_slice_at(site, g, a, ranges);
}

const gr_op gr_op_slice = {
    .name = "slice",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_FOLLOW,
    .infer = slice_infer,
    .grad = slice_grad,
    .print = slice_print,
    .kernels = gr_slice_cpu,
};

/* ---- pad ---- */

static gr_status pad_infer(gr_node *n)
{
    const gr_pad_attr *at = n->attr;
    const gr_shape *a = &n->src[0]->shape;

    n->out[0].shape = *a;
    n->out[0].dtype = n->src[0]->dtype;
    for (int d = 0; d < a->n_dims; d++) {
        int64_t *dim = &n->out[0].shape.dim[d];

        if (at->lo[d] < 0 || at->hi[d] < 0)
            return gr_fail(GR_ERR_ARG, "%lld and %lld around dimension %d: less than nothing",
                           (long long)at->lo[d], (long long)at->hi[d], d);
        *dim = reach(a->dim[d], at->step[d]);
        if (__builtin_add_overflow(*dim, at->lo[d], dim) ||
            __builtin_add_overflow(*dim, at->hi[d], dim))
            return gr_fail(GR_ERR_ARG, "dimension %d would be too long", d);
    }
    return GR_OK;
}

static gr_status pad_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    const gr_pad_attr *at = n->attr;
    const gr_shape *a = &n->src[0]->shape;
    gr_slice_attr slice = { .start = { 0 } };

    if (!gr_dtype_is_float(n->src[0]->dtype))
        return GR_OK;
    for (int d = 0; d < a->n_dims; d++) {
        slice.start[d] = at->lo[d];
        slice.step[d] = at->step[d];
        slice.count[d] = a->dim[d];
    }
    d_src[0] = add_one(g, &gr_op_slice, n->site, d_out[0], &slice, sizeof(slice));
    return gr_graph_status(g);
}

static void pad_print(const gr_node *n, gr_text *out)
{
    const gr_pad_attr *at = n->attr;

    for (int d = 0; d < n->src[0]->shape.n_dims; d++)
        if (at->lo[d] || at->hi[d])
            gr_text_addf(out, " %d by %lld, %lld", d, (long long)at->lo[d], (long long)at->hi[d]);
    gr_text_addf(out, " with %g", at->value);
}

gr_value *gr_pad_at(const char *site, gr_graph *g, gr_value *a, const int64_t *lo,
                    const int64_t *hi, double value)
{
    gr_pad_attr attr = { .value = value };
    gr_shape s = gr_value_shape(a);

    if (!lo || !hi) {
        gr_graph_fail(g, site, "pad: the widths are NULL");
        return NULL;
    }
    for (int d = 0; d < s.n_dims; d++) {
        attr.lo[d] = lo[d];
        attr.hi[d] = hi[d];
        attr.step[d] = 1;
    }
    return add_one(g, &gr_op_pad, site, a, &attr, sizeof(attr));
}

const gr_op gr_op_pad = {
    .name = "pad",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_FOLLOW,
    .infer = pad_infer,
    .grad = pad_grad,
    .print = pad_print,
    .kernels = gr_pad_cpu,
};

/* ---- flip ---- */

static gr_status flip_infer(gr_node *n)
{
    const gr_flip_attr *at = n->attr;
    int n_dims = n->src[0]->shape.n_dims;

    if (at->axes >> n_dims != 0)
        return gr_fail(GR_ERR_ARG, "dimension %d, but there are %d", 31 - __builtin_clz(at->axes),
                       n_dims);
    n->out[0].shape = n->src[0]->shape;
    n->out[0].dtype = n->src[0]->dtype;
    return GR_OK;
}

static gr_status flip_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    const gr_flip_attr *at = n->attr;

    if (gr_dtype_is_float(n->src[0]->dtype))
        d_src[0] = gr_flip_at(n->site, g, d_out[0], at->axes);
    return gr_graph_status(g);
}

static void flip_print(const gr_node *n, gr_text *out)
{
    const gr_flip_attr *at = n->attr;

    for (int d = 0; d < n->src[0]->shape.n_dims; d++)
        if (at->axes >> d & 1)
            gr_text_addf(out, " %d", d);
}

gr_value *gr_flip_at(const char *site, gr_graph *g, gr_value *a, unsigned axes)
{
    gr_flip_attr attr = { .axes = axes };

    if (axes == GR_AXES_ALL)
        attr.axes = (1u << gr_value_shape(a).n_dims) - 1;
    return add_one(g, &gr_op_flip, site, a, &attr, sizeof(attr));
}

const gr_op gr_op_flip = {
    .name = "flip",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_FOLLOW,
    .infer = flip_infer,
    .grad = flip_grad,
    .print = flip_print,
    .kernels = gr_flip_cpu,
};

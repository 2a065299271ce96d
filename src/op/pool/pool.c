/*
 * Max pooling.
 *
 *   y[o] = max over the window of o of x      dx[i] = sum of dy[o] over the windows o in
 *                                             which i won, in the order of o
 *
 * The forward pass notes which element of its window won, one byte per result; the
 * gradient asks every window that covers a pixel. Nothing is scattered, so it does not
 * matter who runs where.
 */
#include "op/pool/pool.h"

#include "base/alloc.h"

/* ---- windows ---- */

static gr_status resolve_axis(gr_pool_attr *at, int a)
{
    gr_window *w = &at->window;
    int64_t span, room;

    if (w->stride[a] == 0)
        w->stride[a] = w->kernel[a];
    if (w->kernel[a] < 1 || w->stride[a] < 1 || w->dilation[a] < 1 || w->padding[a] < 0)
        return gr_fail(GR_ERR_ARG, "kernel %lld, stride %lld, dilation %lld, padding %lld",
                       (long long)w->kernel[a], (long long)w->stride[a], (long long)w->dilation[a],
                       (long long)w->padding[a]);
    if (w->kernel[a] > INT32_MAX || w->dilation[a] > INT32_MAX || w->padding[a] > INT32_MAX ||
        w->stride[a] > INT32_MAX)
        return gr_fail(GR_ERR_ARG, "a window of %lld, %lld apart, is too large",
                       (long long)w->kernel[a], (long long)w->stride[a]);
    span = w->dilation[a] * (w->kernel[a] - 1) + 1;
    if (w->padding[a] > span / 2)
        return gr_fail(GR_ERR_ARG, "padding %lld is more than half a window of %lld",
                       (long long)w->padding[a], (long long)span);
    /* Rounded up, less than a stride may be missing for the first window: it is cut, too. */
    room = at->in[a] + 2 * w->padding[a] - span + (w->ceil_mode ? w->stride[a] - 1 : 0);
    if (room < 0 || at->in[a] < 1)
        return gr_fail(GR_ERR_ARG, "a window of %lld does not fit %lld with padding %lld",
                       (long long)span, (long long)at->in[a], (long long)w->padding[a]);
    at->out[a] = room / w->stride[a] + 1;
    if ((at->out[a] - 1) * w->stride[a] >= at->in[a] + w->padding[a])
        at->out[a]--;
    return GR_OK;
}

gr_status gr_pool_resolve(gr_pool_attr *at)
{
    for (int a = 0; a < 2; a++)
        GR_TRY(resolve_axis(at, a));
    return GR_OK;
}

gr_status gr_pool_taps(gr_taps **out, const gr_pool_attr *at, int axis)
{
    const gr_window *w = &at->window;
    int64_t n = at->out[axis], k = 0;
    gr_taps *t;

    GR_TRY(gr_taps_create(&t, n, n * w->kernel[axis]));
    for (int64_t o = 0; o < n; o++) {
        for (int64_t e = 0; e < w->kernel[axis]; e++) {
            int64_t i = o * w->stride[axis] - w->padding[axis] + e * w->dilation[axis];

            if (i >= 0 && i < at->in[axis])
                t->tap[k++] = (gr_tap){ .at = i, .code = (int)e, .w = 1, .wide = 1 };
        }
        t->first[o + 1] = k;
    }
    *out = t;
    return GR_OK;
}

/* ---- max_pool ---- */

static gr_status max_infer(gr_node *n)
{
    const gr_pool_attr *at = n->attr;
    const gr_value *x = n->src[0];
    gr_pool_attr again = *at;

    if (x->shape.n_dims != 4 || !gr_dtype_is_float(x->dtype))
        return gr_fail(GR_ERR_ARG, "takes floating images [n, h, w, c]");
    GR_TRY(gr_pool_resolve(&again));
    n->out[0].shape = x->shape;
    n->out[0].shape.dim[1] = again.out[0];
    n->out[0].shape.dim[2] = again.out[1];
    n->out[0].dtype = x->dtype;
    n->out[1].shape = n->out[0].shape;
    n->out[1].dtype = at->window.kernel[0] * at->window.kernel[1] <= 256 ? GR_U8 : GR_I32;
    return GR_OK;
}

static gr_status max_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    d_src[0] = gr_graph_add_value(g, &(gr_build){ .op = &gr_op_max_pool_grad,
                                                  .site = n->site,
                                                  .src = (gr_value *[]){ d_out[0], &n->out[1] },
                                                  .n_src = 2,
                                                  .attr = n->attr,
                                                  .attr_bytes = sizeof(gr_pool_attr) });
    return gr_graph_status(g);
}

static void max_print(const gr_node *n, gr_text *out)
{
    const gr_pool_attr *at = n->attr;
    const gr_window *w = &at->window;

    gr_text_addf(out, " %lld x %lld by %lld, %lld", (long long)w->kernel[0],
                 (long long)w->kernel[1], (long long)w->stride[0], (long long)w->stride[1]);
    if (w->padding[0] || w->padding[1])
        gr_text_addf(out, " padded %lld, %lld", (long long)w->padding[0], (long long)w->padding[1]);
}

gr_value *gr_max_pool2d_at(const char *site, gr_graph *g, gr_value *a, const gr_window *window)
{
    gr_shape s = gr_value_shape(a);
    gr_pool_attr attr = { .in = { s.n_dims == 4 ? s.dim[1] : 0, s.n_dims == 4 ? s.dim[2] : 0 } };

    if (!window) {
        gr_graph_fail(g, site, "max_pool: the window is NULL");
        return NULL;
    }
    attr.window = *window;
    if (gr_pool_resolve(&attr) != GR_OK) /* infer says it again, with shapes and site */
        attr.out[0] = attr.out[1] = 0;
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_max_pool,
                                              .site = site,
                                              .src = &a,
                                              .n_src = 1,
                                              .attr = &attr,
                                              .attr_bytes = sizeof(attr) });
}

const gr_op gr_op_max_pool = {
    .name = "max_pool",
    .n_src = 1,
    .n_out = 2,
    .amp = GR_AMP_FOLLOW,
    .infer = max_infer,
    .grad = max_grad,
    .print = max_print,
    .kernels = gr_max_pool_cpu,
};

/* ---- max_pool_grad ---- */

static gr_status max_grad_infer(gr_node *n)
{
    const gr_pool_attr *at = n->attr;
    const gr_value *dy = n->src[0], *which = n->src[1];

    if (dy->shape.n_dims != 4 || !gr_shape_equal(&dy->shape, &which->shape) ||
        dy->shape.dim[1] != at->out[0] || dy->shape.dim[2] != at->out[1])
        return gr_fail(GR_ERR_ARG, "the gradient must have the shape of the result");
    n->out[0].shape = dy->shape;
    n->out[0].shape.dim[1] = at->in[0];
    n->out[0].shape.dim[2] = at->in[1];
    n->out[0].dtype = dy->dtype;
    return GR_OK;
}

const gr_op gr_op_max_pool_grad = {
    .name = "max_pool_grad",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_FIRST,
    .infer = max_grad_infer,
    .kernels = gr_max_pool_grad_cpu,
};

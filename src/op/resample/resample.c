/*
 * Resample: average pooling and resizing; see resample.h. The gradient is the node itself
 * with `is_inverse` turned over.
 */
#include "op/resample/resample.h"

#include "gradus/ops.h"

static gr_status infer(gr_node *n)
{
    const gr_resample_attr *at = n->attr;
    const gr_value *x = n->src[0];
    const int64_t *to = at->is_inverse ? at->size.in : at->size.out;
    gr_pool_attr again = at->size;

    if (x->shape.n_dims != 4 || !gr_dtype_is_float(x->dtype))
        return gr_fail(GR_ERR_ARG, "takes floating images [n, h, w, c]");
    if (at->kind == GR_RESAMPLE_AVERAGE)
        GR_TRY(gr_pool_resolve(&again));
    if (at->kind == GR_RESAMPLE_AVERAGE &&
        (again.window.dilation[0] != 1 || again.window.dilation[1] != 1))
        return gr_fail(GR_ERR_ARG, "averages have no dilation");
    for (int a = 0; a < 2; a++)
        if (at->size.in[a] < 1 || to[a] < 1)
            return gr_fail(GR_ERR_ARG, "cannot make %lld x %lld of %lld x %lld",
                           (long long)at->size.out[0], (long long)at->size.out[1],
                           (long long)at->size.in[0], (long long)at->size.in[1]);
    n->out[0].shape = x->shape;
    n->out[0].shape.dim[1] = to[0];
    n->out[0].shape.dim[2] = to[1];
    n->out[0].dtype = x->dtype;
    return GR_OK;
}

static gr_value *add(const char *site, gr_graph *g, gr_value *a, const gr_resample_attr *attr)
{
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_resample,
                                              .site = site,
                                              .src = &a,
                                              .n_src = 1,
                                              .attr = attr,
                                              .attr_bytes = sizeof(*attr) });
}

static gr_status grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    gr_resample_attr attr = *(const gr_resample_attr *)n->attr;

    attr.is_inverse = !attr.is_inverse;
    d_src[0] = add(n->site, g, d_out[0], &attr);
    return gr_graph_status(g);
}

static void print(const gr_node *n, gr_text *out)
{
    static const char *const kinds[] = { "average", "adaptive average", "resize" };
    static const char *const modes[] = { "nearest",           "nearest exact", "bilinear",
                                         "bilinear, corners", "bicubic",       "bicubic, corners" };
    const gr_resample_attr *at = n->attr;

    gr_text_addf(out, " %s", at->kind == GR_RESAMPLE_RESIZE ? modes[at->mode] : kinds[at->kind]);
    if (at->is_inverse)
        gr_text_addf(out, ", inverse");
}

const gr_op gr_op_resample = {
    .name = "resample",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_FOLLOW,
    .infer = infer,
    .grad = grad,
    .print = print,
    .kernels = gr_resample_cpu,
};

/* ---- builders ---- */

static gr_resample_attr attr_of(const gr_value *a, gr_resample_kind kind)
{
    gr_resample_attr attr = { .kind = kind, .size = { .window = GR_WINDOW_INIT } };
    gr_shape s = gr_value_shape(a);

    for (int i = 0; s.n_dims == 4 && i < 2; i++)
        attr.size.in[i] = s.dim[1 + i];
    return attr;
}

gr_value *gr_avg_pool2d_at(const char *site, gr_graph *g, gr_value *a, const gr_window *window)
{
    gr_resample_attr attr = attr_of(a, GR_RESAMPLE_AVERAGE);

    if (!window) {
        gr_graph_fail(g, site, "avg_pool: the window is NULL");
        return NULL;
    }
    attr.size.window = *window;
    if (gr_pool_resolve(&attr.size) != GR_OK) /* infer says it again, with shapes and site */
        attr.size.out[0] = attr.size.out[1] = 0;
    return add(site, g, a, &attr);
}

gr_value *gr_adaptive_avg_pool2d_at(const char *site, gr_graph *g, gr_value *a, int64_t h,
                                    int64_t w)
{
    gr_resample_attr attr = attr_of(a, GR_RESAMPLE_ADAPTIVE);

    attr.size.out[0] = h;
    attr.size.out[1] = w;
    return add(site, g, a, &attr);
}

gr_value *gr_global_avg_pool2d_at(const char *site, gr_graph *g, gr_value *a)
{
    gr_shape s = gr_value_shape(a);
    char text[GR_SHAPE_TEXT];

    if (a && s.n_dims != 4) {
        gr_graph_fail(g, site, "global_avg_pool2d takes images [n, h, w, c], not %s",
                      gr_shape_text(&s, text, sizeof(text)));
        return NULL;
    }
    return gr_cast_at(site, g, gr_reduce_at(site, g, "mean", a, GR_AXIS(1) | GR_AXIS(2), false),
                      gr_value_dtype(a));
}

gr_value *gr_resize_at(const char *site, gr_graph *g, gr_value *a, int64_t h, int64_t w,
                       gr_resize_mode mode)
{
    gr_resample_attr attr = attr_of(a, GR_RESAMPLE_RESIZE);

    if ((int)mode < GR_NEAREST || mode > GR_BICUBIC_CORNERS) {
        gr_graph_fail(g, site, "resize: %d is no mode", (int)mode);
        return NULL;
    }
    attr.mode = mode;
    attr.size.out[0] = h;
    attr.size.out[1] = w;
    return add(site, g, a, &attr);
}

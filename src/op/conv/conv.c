/*
 * Convolution.
 *
 *     conv:        y[n, oy, ox, o]  = sum over i, ky, kx of x[n, iy, ix, i] w[o, i, ky, kx]
 *     conv_data:   x[n, iy, ix, i]  = sum over o, ky, kx of y[n, oy, ox, o] w[o, i, ky, kx]
 *     conv_weight: w[o, i, ky, kx]  = sum over n, oy, ox of y[n, oy, ox, o] x[n, iy, ix, i]
 *
 *     with iy = oy stride + ky dilation - pad, and likewise ix; x is 0 outside. With groups,
 *     o meets the channels i of its own group only.
 *
 * All three sum the same triples x w y, so each is the gradient of the others and the family
 * is closed: second derivatives need nothing more.
 *
 *     node           gradient of first source    of second source
 *     conv(x, w)     conv_data(dy, w)            conv_weight(x, dy)
 *     conv_data(y, w)    conv(dx, w)             conv_weight(dx, y)
 *     conv_weight(x, y)  conv_data(y, dw)        conv(x, dw)
 *
 * A transposed convolution is conv_data as a layer.
 */
#include "op/conv/conv.h"

#include "gradus/ops.h"

#include <string.h>

/* ---- shapes ---- */

static gr_status check_opt(const gr_conv *o)
{
    for (int i = 0; i < 2; i++) {
        bool is_small =
            o->stride[i] < 1 || o->dilation[i] < 1 || o->pad[i] < 0 || o->out_pad[i] < 0;
        bool is_large = o->stride[i] > INT32_MAX || o->dilation[i] > INT32_MAX ||
                        o->pad[i] > INT32_MAX || o->out_pad[i] > INT32_MAX;

        if (is_small || is_large)
            return gr_fail(GR_ERR_ARG,
                           "stride and dilation must be %s, but axis %d has %lld, %lld "
                           "and %lld, %lld",
                           is_small ? "1 or more and padding 0 or more"
                                    : "below 2^31, and padding too",
                           i, (long long)o->stride[i], (long long)o->dilation[i],
                           (long long)o->pad[i], (long long)o->out_pad[i]);
    }
    if (o->groups < 1)
        return gr_fail(GR_ERR_ARG, "groups must be 1 or more, not %lld", (long long)o->groups);
    return GR_OK;
}

static gr_status check_sources(const gr_node *n)
{
    const gr_conv_attr *at = n->attr;

    for (int i = 0; i < 2; i++) {
        if (!gr_dtype_is_float(n->src[i]->dtype) || !gr_dtype_is_float(at->dtype))
            return gr_fail(GR_ERR_ARG, "takes and gives floating types only");
        if (n->src[i]->shape.n_dims != 4)
            return gr_fail(GR_ERR_ARG, "source %d has %d dimensions, not 4", i,
                           n->src[i]->shape.n_dims);
    }
    return check_opt(&at->opt);
}

/* Extent of y along an axis; 0: the kernel is larger than the padded input. */
static int64_t out_size(const gr_conv *o, int axis, int64_t in, int64_t k)
{
    int64_t room, last;

    if (k < 1 || k > INT32_MAX || in > INT32_MAX)
        return 0;
    room = in + 2 * o->pad[axis];
    last = room - o->dilation[axis] * (k - 1) - 1;
    return last < 0 ? 0 : last / o->stride[axis] + 1;
}

/* Of a transposed convolution. Less than 1: padding eats it all. */
static int64_t transposed_size(const gr_conv *o, int axis, int64_t in, int64_t k)
{
    return (in - 1) * o->stride[axis] - 2 * o->pad[axis] + o->dilation[axis] * (k - 1) +
           o->out_pad[axis] + 1;
}

/* x, weight and y must belong together. */
static gr_status check_fit(const gr_conv *o, const gr_shape *x, const gr_shape *w,
                           const gr_shape *y)
{
    int64_t c_in = x->dim[3], c_out = w->dim[0];
    char xs[GR_SHAPE_TEXT], ws[GR_SHAPE_TEXT];

    if (c_in % o->groups != 0 || c_out % o->groups != 0)
        return gr_fail(GR_ERR_ARG, "%lld groups do not divide %lld and %lld channels",
                       (long long)o->groups, (long long)c_in, (long long)c_out);
    if (w->dim[1] != c_in / o->groups)
        return gr_fail(GR_ERR_ARG,
                       "the weight takes %lld channels, but there are %lld in %lld groups; images "
                       "are NHWC %s, weights OIHW %s",
                       (long long)w->dim[1], (long long)c_in, (long long)o->groups,
                       gr_shape_text(x, xs, sizeof(xs)), gr_shape_text(w, ws, sizeof(ws)));
    if (y->dim[3] != c_out || y->dim[0] != x->dim[0])
        return gr_fail(GR_ERR_ARG, "batch or channels differ: %lld of %lld, and %lld of %lld",
                       (long long)x->dim[0], (long long)c_out, (long long)y->dim[0],
                       (long long)y->dim[3]);
    for (int i = 0; i < 2; i++) {
        int64_t n = out_size(o, i, x->dim[i + 1], w->dim[i + 2]);

        if (n < 1)
            return gr_fail(GR_ERR_ARG,
                           "a kernel of %lld, %lld apart, does not fit into %lld padded by %lld "
                           "(axis %d)",
                           (long long)w->dim[i + 2], (long long)o->dilation[i],
                           (long long)x->dim[i + 1], (long long)o->pad[i], i);
        if (n != y->dim[i + 1])
            return gr_fail(GR_ERR_ARG, "%lld along axis %d gives %lld, not %lld",
                           (long long)x->dim[i + 1], i, (long long)n, (long long)y->dim[i + 1]);
    }
    return GR_OK;
}

static gr_status finish(gr_node *n, const gr_shape *s)
{
    const gr_conv_attr *at = n->attr;

    n->out[0].shape = *s;
    n->out[0].dtype = at->dtype;
    return gr_shape_check(s, at->dtype);
}

static gr_status conv_infer(gr_node *n)
{
    const gr_conv_attr *at = n->attr;
    const gr_shape *x = &n->src[0]->shape, *w = &n->src[1]->shape;
    gr_shape y = { .n_dims = 4 };

    GR_TRY(check_sources(n));
    if (at->opt.out_pad[0] != 0 || at->opt.out_pad[1] != 0)
        return gr_fail(GR_ERR_ARG, "out_pad is for transposed convolutions");
    y.dim[0] = x->dim[0];
    for (int i = 0; i < 2; i++)
        y.dim[i + 1] = out_size(&at->opt, i, x->dim[i + 1], w->dim[i + 2]);
    y.dim[3] = w->dim[0];
    GR_TRY(check_fit(&at->opt, x, w, &y));
    return finish(n, &y);
}

/* As PyTorch: it may reach the greater of the two. */
static gr_status check_out_pad(const gr_conv *o)
{
    for (int i = 0; i < 2; i++)
        if (o->out_pad[i] >= o->stride[i] && o->out_pad[i] >= o->dilation[i])
            return gr_fail(GR_ERR_ARG,
                           "out_pad %lld of axis %d is not less than the stride, %lld, or the "
                           "dilation, %lld",
                           (long long)o->out_pad[i], i, (long long)o->stride[i],
                           (long long)o->dilation[i]);
    return GR_OK;
}

static gr_status data_infer(gr_node *n)
{
    const gr_conv_attr *at = n->attr;
    const gr_shape *y = &n->src[0]->shape, *w = &n->src[1]->shape;
    gr_shape x = { .n_dims = 4 };

    GR_TRY(check_sources(n));
    GR_TRY(check_out_pad(&at->opt));
    x.dim[0] = y->dim[0];
    x.dim[1] = at->size[0];
    x.dim[2] = at->size[1];
    x.dim[3] = w->dim[1] * at->opt.groups;
    if (w->dim[0] != y->dim[3])
        return gr_fail(GR_ERR_ARG, "the weight takes %lld channels, but there are %lld",
                       (long long)w->dim[0], (long long)y->dim[3]);
    GR_TRY(gr_shape_check(&x, at->dtype)); /* first: what padding eats up fits nothing */
    GR_TRY(check_fit(&at->opt, &x, w, y));
    return finish(n, &x);
}

static gr_status weight_infer(gr_node *n)
{
    const gr_conv_attr *at = n->attr;
    const gr_shape *x = &n->src[0]->shape, *y = &n->src[1]->shape;
    gr_shape w = { .n_dims = 4 };

    GR_TRY(check_sources(n));
    w.dim[0] = y->dim[3];
    w.dim[1] = x->dim[3] / at->opt.groups;
    w.dim[2] = at->size[0];
    w.dim[3] = at->size[1];
    GR_TRY(check_fit(&at->opt, x, &w, y));
    return finish(n, &w);
}

void gr_conv_get_dims(const gr_node *n, gr_conv_dims *d)
{
    const gr_conv_attr *at = n->attr;
    const bool is_data = n->op == &gr_op_conv_data, is_weight = n->op == &gr_op_conv_weight;
    const gr_shape *x = is_data ? &n->out[0].shape : &n->src[0]->shape;
    const gr_shape *w = is_weight ? &n->out[0].shape : &n->src[1]->shape;
    const gr_shape *y = is_data     ? &n->src[0]->shape
                        : is_weight ? &n->src[1]->shape
                                    : &n->out[0].shape;

    *d = (gr_conv_dims){ .n = x->dim[0], .ci = x->dim[3], .co = w->dim[0] };
    d->groups = at->opt.groups;
    for (int i = 0; i < 2; i++) {
        d->in[i] = x->dim[i + 1];
        d->out[i] = y->dim[i + 1];
        d->k[i] = w->dim[i + 2];
        d->stride[i] = at->opt.stride[i];
        d->pad[i] = at->opt.pad[i];
        d->dilation[i] = at->opt.dilation[i];
    }
}

/* ---- building ---- */

static gr_value *add(gr_graph *g, const char *site, const gr_op *op, gr_value *const src[2],
                     const gr_conv_attr *attr)
{
    return gr_graph_add_value(g, &(gr_build){ .op = op,
                                              .site = site,
                                              .src = src,
                                              .n_src = 2,
                                              .attr = attr,
                                              .attr_bytes = sizeof(*attr) });
}

static gr_dtype result_dtype(const gr_value *a, const gr_value *b)
{
    gr_dtype ta = gr_value_dtype(a), tb = gr_value_dtype(b);

    if (ta == tb)
        return ta;
    return ta == GR_F64 || tb == GR_F64 ? GR_F64 : GR_F32;
}

/* out_pad only says how a transposed convolution's size was chosen. */
static gr_conv geometry(const gr_conv_attr *at)
{
    gr_conv opt = at->opt;

    opt.out_pad[0] = opt.out_pad[1] = 0;
    return opt;
}

static gr_value *conv_of(gr_graph *g, const gr_node *n, gr_value *x, gr_value *w, gr_dtype t)
{
    const gr_conv_attr *at = n->attr;
    gr_conv_attr attr = { .opt = geometry(at), .dtype = t };

    return add(g, n->site, &gr_op_conv, (gr_value *[]){ x, w }, &attr);
}

static gr_value *data_of(gr_graph *g, const gr_node *n, gr_value *y, gr_value *w, gr_value *like)
{
    const gr_conv_attr *at = n->attr;
    gr_conv_attr attr = { .opt = geometry(at), .dtype = like->dtype };

    attr.size[0] = like->shape.dim[1];
    attr.size[1] = like->shape.dim[2];
    return add(g, n->site, &gr_op_conv_data, (gr_value *[]){ y, w }, &attr);
}

static gr_value *weight_of(gr_graph *g, const gr_node *n, gr_value *x, gr_value *y, gr_value *like)
{
    const gr_conv_attr *at = n->attr;
    gr_conv_attr attr = { .opt = geometry(at), .dtype = like->dtype };

    attr.size[0] = like->shape.dim[2];
    attr.size[1] = like->shape.dim[3];
    return add(g, n->site, &gr_op_conv_weight, (gr_value *[]){ x, y }, &attr);
}

static gr_status conv_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    d_src[0] = data_of(g, n, d_out[0], n->src[1], n->src[0]);
    d_src[1] = weight_of(g, n, n->src[0], d_out[0], n->src[1]);
    return gr_graph_status(g);
}

static gr_status data_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    d_src[0] = conv_of(g, n, d_out[0], n->src[1], n->src[0]->dtype);
    d_src[1] = weight_of(g, n, d_out[0], n->src[0], n->src[1]);
    return gr_graph_status(g);
}

static gr_status weight_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    d_src[0] = data_of(g, n, n->src[1], d_out[0], n->src[0]);
    d_src[1] = conv_of(g, n, n->src[0], d_out[0], n->src[1]->dtype);
    return gr_graph_status(g);
}

static const void *conv_retype(gr_graph *g, const gr_node *n, gr_dtype t)
{
    gr_conv_attr *attr = gr_arena_new(g->arena, gr_conv_attr);

    if (!attr)
        return NULL;
    memcpy(attr, n->attr, sizeof(*attr));
    attr->dtype = t;
    return attr;
}

static void print_pair(gr_text *out, const char *name, const int64_t *v, int64_t usual)
{
    if (v[0] == v[1] && v[0] != usual)
        gr_text_addf(out, " %s %lld", name, (long long)v[0]);
    else if (v[0] != v[1])
        gr_text_addf(out, " %s %lldx%lld", name, (long long)v[0], (long long)v[1]);
}

static void conv_print(const gr_node *n, gr_text *out)
{
    const gr_conv_attr *at = n->attr;

    print_pair(out, "stride", at->opt.stride, 1);
    print_pair(out, "pad", at->opt.pad, 0);
    print_pair(out, "dilation", at->opt.dilation, 1);
    if (at->opt.groups != 1)
        gr_text_addf(out, " groups %lld", (long long)at->opt.groups);
}

gr_value *gr_conv2d_at(const char *site, gr_graph *g, gr_value *x, gr_value *weight,
                       const gr_conv *opt)
{
    const gr_conv usual = GR_CONV_INIT;
    gr_conv_attr attr = { .opt = opt ? *opt : usual, .dtype = result_dtype(x, weight) };

    return add(g, site, &gr_op_conv, (gr_value *[]){ x, weight }, &attr);
}

static gr_value *add_transposed(gr_graph *g, const char *site, gr_value *x, gr_value *weight,
                                const gr_conv *opt)
{
    gr_conv_attr attr = { .opt = *opt, .dtype = result_dtype(x, weight) };
    gr_shape sx = gr_value_shape(x), sw = gr_value_shape(weight);

    for (int i = 0; i < 2 && sx.n_dims == 4 && sw.n_dims == 4; i++)
        /* Senseless numbers are left to the shape rule, which names them. */
        if (check_opt(opt) == GR_OK && sx.dim[i + 1] <= INT32_MAX && sw.dim[i + 2] <= INT32_MAX)
            attr.size[i] = transposed_size(opt, i, sx.dim[i + 1], sw.dim[i + 2]);
    return add(g, site, &gr_op_conv_data, (gr_value *[]){ x, weight }, &attr);
}

/* Rows that out_pad asks for from the stride on: with `opt` the convolution back to x would have
 * more rows than x. */
static int64_t excess(const gr_conv *opt, int axis)
{
    int64_t n = opt->out_pad[axis] - (opt->stride[axis] - 1);

    return n > 0 ? n : 0;
}

static bool is_plain(const gr_conv *o, const gr_shape *x, const gr_shape *w)
{
    if (x->n_dims != 4 || w->n_dims != 4 || check_opt(o) != GR_OK || check_out_pad(o) != GR_OK)
        return true; /* refused by the shape rule */
    for (int i = 0; i < 2; i++)
        if (x->dim[i + 1] > INT32_MAX || w->dim[i + 2] < 1 || w->dim[i + 2] > INT32_MAX ||
            transposed_size(o, i, x->dim[i + 1], w->dim[i + 2]) < 1)
            return true;
    return excess(o, 0) == 0 && excess(o, 1) == 0;
}

/*
 * out_pad from the stride on, e rows in excess: padding is taken off both sides instead, as far
 * as there is some, which gives the rows behind the end and some before the start; these are cut
 * off. What lies behind the padding no tap reaches: zeros.
 *
 *     padding p:             | result ... | p rows that padding cut off | zeros
 *     wanted:                | result ... . e rows .......................... |
 */
static gr_value *add_excess(gr_graph *g, const char *site, gr_value *x, gr_value *weight,
                            const gr_conv *opt)
{
    const int64_t none[4] = { 0 };
    gr_conv less = *opt;
    gr_shape sx = gr_value_shape(x), sw = gr_value_shape(weight), sy;
    int64_t behind[4] = { 0 };
    gr_value *y;

    for (int i = 0; i < 2; i++) {
        int64_t e = excess(opt, i);

        less.out_pad[i] -= e;
        less.pad[i] -= e < opt->pad[i] ? e : opt->pad[i];
    }
    y = add_transposed(g, site, x, weight, &less);
    sy = gr_value_shape(y);
    for (int i = 0; i < 2 && sy.n_dims == 4; i++) {
        int64_t size = transposed_size(opt, i, sx.dim[i + 1], sw.dim[i + 2]), all = sy.dim[i + 1];
        int64_t from = opt->pad[i] - less.pad[i], to = from + size;

        from = from < all ? from : all; /* padding may have cut off everything */
        to = to < all ? to : all;
        behind[i + 1] = size - (to - from);
        if (to - from < all)
            y = gr_slice_axis_at(site, g, y, i + 1, from, to);
    }
    return behind[1] || behind[2] ? gr_pad_at(site, g, y, none, behind, 0) : y;
}

gr_value *gr_conv_transpose2d_at(const char *site, gr_graph *g, gr_value *x, gr_value *weight,
                                 const gr_conv *opt)
{
    const gr_conv usual = GR_CONV_INIT;
    const gr_shape sx = gr_value_shape(x), sw = gr_value_shape(weight);

    opt = opt ? opt : &usual;
    return is_plain(opt, &sx, &sw) ? add_transposed(g, site, x, weight, opt)
                                   : add_excess(g, site, x, weight, opt);
}

const gr_op gr_op_conv = {
    .name = "conv",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_LOW,
    .tunes = true,
    .infer = conv_infer,
    .grad = conv_grad,
    .retype = conv_retype,
    .print = conv_print,
    .kernels = gr_conv_cpu,
};

const gr_op gr_op_conv_data = {
    .name = "conv_data",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_LOW,
    .tunes = true,
    .infer = data_infer,
    .grad = data_grad,
    .retype = conv_retype,
    .print = conv_print,
    .kernels = gr_conv_data_cpu,
};

const gr_op gr_op_conv_weight = {
    .name = "conv_weight",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_LOW,
    .tunes = true,
    .infer = weight_infer,
    .grad = weight_grad,
    .retype = conv_retype,
    .print = conv_print,
    .kernels = gr_conv_weight_cpu,
};

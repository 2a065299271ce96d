/*
 * Rules of layer_norm and rms_norm, over the last dimension.
 *
 *   xhat = (x - mean) rstd                     rstd = 1 / sqrt(var + eps)
 *   y    = xhat w + b
 *   dx   = rstd (q - mean(q) - xhat mean(q xhat))   with q = dy w
 *   dw   = sum over rows of dy xhat                 db = sum over rows of dy
 *
 * rms_norm is the same without a mean: xhat = x rstd, rstd = 1 / sqrt(mean(x^2) + eps), and
 * dx lacks mean(q). Clamped: rstd = 1 / max(sqrt(mean(x^2)), eps), and where the clamp holds
 * rstd is a constant: dx = rstd q.
 */
#include "gradus/norm.h"
#include "gradus/ops.h"
#include "op/norm/norm.h"

static gr_shape row_shape(const gr_value *x)
{
    gr_shape s = x->shape;

    s.n_dims--;
    return s;
}

static gr_status check_x(const gr_value *x)
{
    if (!gr_dtype_is_float(x->dtype))
        return gr_fail(GR_ERR_ARG, "only floating types can be normalised: cast first");
    if (x->shape.n_dims < 1)
        return gr_fail(GR_ERR_ARG, "there is no dimension to normalise over");
    return GR_OK;
}

static gr_status check_vector(const gr_node *n, int s, const char *what)
{
    const gr_value *x = n->src[0], *v = n->src[s];
    long long c = (long long)x->shape.dim[x->shape.n_dims - 1];

    if (v->shape.n_dims != 1 || v->shape.dim[0] != c)
        return gr_fail(GR_ERR_ARG, "the %s must be [%lld], one number per channel", what, c);
    if (!gr_dtype_is_float(v->dtype))
        return gr_fail(GR_ERR_ARG, "the %s must be of a floating type", what);
    return GR_OK;
}

static gr_status want_count(const gr_node *n, int count)
{
    if (n->n_src == count)
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "takes %d inputs, got %d", count, n->n_src);
}

static gr_status row_infer(gr_node *n)
{
    const gr_row_norm_attr *a = n->attr;
    const gr_value *x = n->src[0];

    GR_TRY(check_x(x));
    GR_TRY(want_count(n, 1 + a->has_weight + a->has_bias));
    if (a->has_weight)
        GR_TRY(check_vector(n, 1, "weight"));
    if (a->has_bias)
        GR_TRY(check_vector(n, 1 + a->has_weight, "bias"));
    if (!(a->eps > 0))
        return gr_fail(GR_ERR_ARG, "eps is %g, must be more than 0", a->eps);
    n->out[0].shape = x->shape;
    n->out[0].dtype = a->dtype;
    for (int i = 1; i < n->n_out; i++) {
        n->out[i].shape = row_shape(x);
        n->out[i].dtype = gr_norm_wide(x->dtype);
    }
    return GR_OK;
}

static const void *row_retype(gr_graph *g, const gr_node *n, gr_dtype t)
{
    gr_row_norm_attr *a = gr_arena_new(g->arena, gr_row_norm_attr);

    if (!a)
        return NULL;
    *a = *(const gr_row_norm_attr *)n->attr;
    a->dtype = t;
    return a;
}

static void row_print(const gr_node *n, gr_text *out)
{
    const gr_row_norm_attr *a = n->attr;

    gr_text_addf(out, " eps=%g%s", a->eps, a->clamped ? " clamped" : "");
}

/* ---- gradients ---- */

static gr_status check_stats(const gr_node *n, int first, int end)
{
    const gr_value *x = n->src[0];
    gr_shape rows = row_shape(x);

    for (int s = first; s < end; s++)
        if (!gr_shape_equal(&n->src[s]->shape, &rows) || n->src[s]->dtype != gr_norm_wide(x->dtype))
            return gr_fail(GR_ERR_ARG, "input %d must be %s with one number per row", s,
                           gr_dtype_name(gr_norm_wide(x->dtype)));
    return GR_OK;
}

/* dw or db, or a token in its place. */
static void vector_out(gr_node *n, int o, bool wanted)
{
    const gr_value *x = n->src[0];
    int64_t c = wanted ? x->shape.dim[x->shape.n_dims - 1] : 0;

    n->out[o].shape = gr_shape_of(1, &c);
    n->out[o].dtype = gr_norm_wide(x->dtype);
    if (!wanted)
        n->out[o].space = GR_SPACE_NONE;
}

static gr_status row_grad_infer(gr_node *n)
{
    const gr_row_norm_attr *a = n->attr;
    const gr_value *x = n->src[0];
    int n_fixed = n->op == &gr_op_layer_norm_grad ? 4 : 3;

    GR_TRY(check_x(x));
    GR_TRY(want_count(n, n_fixed + a->has_weight));
    if (!gr_shape_equal(&n->src[1]->shape, &x->shape) || !gr_dtype_is_float(n->src[1]->dtype))
        return gr_fail(GR_ERR_ARG, "the gradient must have the shape of x and a floating type");
    GR_TRY(check_stats(n, 2, n_fixed));
    if (a->has_weight)
        GR_TRY(check_vector(n, n_fixed, "weight"));
    n->out[0].shape = x->shape;
    n->out[0].dtype = a->dtype;
    vector_out(n, 1, a->has_weight);
    if (n->n_out == 3)
        vector_out(n, 2, a->has_bias);
    return GR_OK;
}

static gr_node *add_grad(gr_graph *g, gr_node *n, const gr_op *op, gr_value *dy)
{
    gr_row_norm_attr a = *(const gr_row_norm_attr *)n->attr;
    gr_value *src[5] = { n->src[0], dy, &n->out[1] };
    int k = 3;

    if (n->n_out == 3)
        src[k++] = &n->out[2];
    if (a.has_weight)
        src[k++] = n->src[1];
    a.dtype = n->src[0]->dtype;
    return gr_graph_add(g, &(gr_build){ .op = op,
                                        .site = n->site,
                                        .src = src,
                                        .n_src = k,
                                        .attr = &a,
                                        .attr_bytes = sizeof(a) });
}

static gr_status row_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    const gr_row_norm_attr *a = n->attr;
    const gr_op *op = n->op == &gr_op_layer_norm ? &gr_op_layer_norm_grad : &gr_op_rms_norm_grad;
    gr_node *d;

    for (int o = 1; o < n->n_out; o++)
        if (d_out[o])
            return gr_fail(GR_ERR_ARG, "%s: the statistics have no gradient", n->op->name);
    d = add_grad(g, n, op, d_out[0]);
    if (!d)
        return gr_graph_status(g);
    d_src[0] = &d->out[0];
    if (a->has_weight)
        d_src[1] = gr_cast_at(n->site, g, &d->out[1], n->src[1]->dtype);
    if (a->has_bias)
        d_src[1 + a->has_weight] =
            gr_cast_at(n->site, g, &d->out[2], n->src[1 + a->has_weight]->dtype);
    return gr_graph_status(g);
}

/* ---- builders ---- */

static gr_value *add_rows(const char *site, gr_graph *g, const gr_op *op, gr_value *const src[3],
                          gr_row_norm_attr *a)
{
    gr_value *given[3] = { src[0] };
    int n = 1;

    a->has_weight = src[1] != NULL;
    a->has_bias = src[2] != NULL;
    a->dtype = gr_value_dtype(src[0]);
    if (src[1])
        given[n++] = src[1];
    if (src[2])
        given[n++] = src[2];
    return gr_graph_add_value(g, &(gr_build){ .op = op,
                                              .site = site,
                                              .src = given,
                                              .n_src = n,
                                              .attr = a,
                                              .attr_bytes = sizeof(*a) });
}

gr_value *gr_layer_norm_at(const char *site, gr_graph *g, gr_value *x, gr_value *weight,
                           gr_value *bias, double eps)
{
    gr_row_norm_attr a = { .eps = eps };

    return add_rows(site, g, &gr_op_layer_norm, (gr_value *[]){ x, weight, bias }, &a);
}

gr_value *gr_rms_norm_at(const char *site, gr_graph *g, gr_value *x, gr_value *weight, double eps,
                         bool clamped)
{
    gr_row_norm_attr a = { .eps = eps, .clamped = clamped };

    return add_rows(site, g, &gr_op_rms_norm, (gr_value *[]){ x, weight, NULL }, &a);
}

const gr_op gr_op_layer_norm = {
    .name = "layer_norm",
    .n_src = GR_ANY_COUNT,
    .n_out = 3,
    .amp = GR_AMP_FIRST,
    .infer = row_infer,
    .grad = row_grad,
    .retype = row_retype,
    .print = row_print,
    .kernels = gr_layer_norm_cpu,
};

const gr_op gr_op_rms_norm = {
    .name = "rms_norm",
    .n_src = GR_ANY_COUNT,
    .n_out = 2,
    .amp = GR_AMP_FIRST,
    .infer = row_infer,
    .grad = row_grad,
    .retype = row_retype,
    .print = row_print,
    .kernels = gr_rms_norm_cpu,
};

const gr_op gr_op_layer_norm_grad = {
    .name = "layer_norm_grad",
    .n_src = GR_ANY_COUNT,
    .n_out = 3,
    .amp = GR_AMP_FIRST,
    .infer = row_grad_infer,
    .retype = row_retype,
    .kernels = gr_layer_norm_grad_cpu,
};

const gr_op gr_op_rms_norm_grad = {
    .name = "rms_norm_grad",
    .n_src = GR_ANY_COUNT,
    .n_out = 2,
    .amp = GR_AMP_FIRST,
    .infer = row_grad_infer,
    .retype = row_retype,
    .print = row_print,
    .kernels = gr_rms_norm_grad_cpu,
};

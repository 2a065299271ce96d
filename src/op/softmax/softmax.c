/*
 * Rules of softmax, log_softmax and logsumexp.
 *
 *   y = exp(x - lse), lse = log sum exp(x)    dx = y (dy - sum(y dy))
 *   y = x - lse                               dx = dy - exp(y) sum(dy)
 *   y = lse                                   dx = exp(x - y) dy
 *
 * The greatest element is taken out before exp, so nothing overflows. The first two need y
 * only, so x need not be kept for the backward pass.
 */
#include "op/softmax/softmax.h"

#include "gradus/ops.h"
#include "op/map/program.h"

#include <math.h>

static gr_dtype wide(gr_dtype t)
{
    return t == GR_F64 ? GR_F64 : GR_F32;
}

static gr_status check(const gr_node *n)
{
    const gr_softmax_attr *a = n->attr;
    const gr_value *x = n->src[0];

    if (a->axis < 0 || a->axis >= x->shape.n_dims)
        return gr_fail(GR_ERR_ARG, "over a dimension that is not there: there are %d",
                       x->shape.n_dims);
    if (!gr_dtype_is_float(x->dtype) || !gr_dtype_is_float(a->dtype))
        return gr_fail(GR_ERR_ARG, "takes and gives floating types only: cast first");
    return GR_OK;
}

static gr_status softmax_infer(gr_node *n)
{
    const gr_softmax_attr *a = n->attr;

    GR_TRY(check(n));
    n->out[0].shape = n->src[0]->shape;
    n->out[0].dtype = a->dtype;
    return GR_OK;
}

static gr_status wide_infer(gr_node *n)
{
    const gr_softmax_attr *a = n->attr;

    GR_TRY(check(n));
    n->out[0].shape = n->src[0]->shape;
    n->out[0].dtype = wide(n->src[0]->dtype);
    if (n->op == &gr_op_logsumexp)
        n->out[0].shape.dim[a->axis] = 1;
    return GR_OK;
}

static gr_status grad_infer(gr_node *n)
{
    const gr_value *y = n->src[0], *dy = n->src[1];

    GR_TRY(softmax_infer(n));
    if (!gr_shape_equal(&y->shape, &dy->shape) || !gr_dtype_is_float(dy->dtype))
        return gr_fail(GR_ERR_ARG, "the gradient must have the shape of y and a floating type");
    return GR_OK;
}

static const void *softmax_retype(gr_graph *g, const gr_node *n, gr_dtype t)
{
    gr_softmax_attr *a = gr_arena_new(g->arena, gr_softmax_attr);

    if (!a)
        return NULL;
    *a = *(const gr_softmax_attr *)n->attr;
    a->dtype = t;
    return a;
}

static void softmax_print(const gr_node *n, gr_text *out)
{
    gr_text_addf(out, " over %d", ((const gr_softmax_attr *)n->attr)->axis);
}

static gr_value *add(gr_graph *g, const char *site, const gr_op *op, gr_value *const *src,
                     const gr_softmax_attr *a)
{
    return gr_graph_add_value(g, &(gr_build){ .op = op,
                                              .site = site,
                                              .src = src,
                                              .n_src = op->n_src,
                                              .attr = a,
                                              .attr_bytes = sizeof(*a) });
}

static gr_status softmax_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    gr_softmax_attr a = *(const gr_softmax_attr *)n->attr;
    const gr_op *op = n->op == &gr_op_softmax ? &gr_op_softmax_grad : &gr_op_log_softmax_grad;

    a.dtype = n->src[0]->dtype;
    d_src[0] = add(g, n->site, op, (gr_value *[]){ &n->out[0], d_out[0] }, &a);
    return gr_graph_status(g);
}

/* exp(x - lse) dy; where all of x is -inf, and lse with it, 0 stands in for lse, so that the
 * gradient is 0 as softmax is. */
static gr_status logsumexp_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    gr_value *x = n->src[0];
    gr_program p = { .shape = x->shape, .dtype = x->dtype, .n_src = 3, .n_instr = 7 };

    p.instr[0] = (gr_instr){ .fn = GR_FN_CONST, .reg = { -1, -1, -1 }, .k = -INFINITY };
    p.instr[1] = (gr_instr){ .fn = GR_FN_EQ, .reg = { 1, 3, -1 } };
    p.instr[2] = (gr_instr){ .fn = GR_FN_CONST, .reg = { -1, -1, -1 } };
    p.instr[3] = (gr_instr){ .fn = GR_FN_WHERE, .reg = { 4, 5, 1 } };
    p.instr[4] = (gr_instr){ .fn = GR_FN_SUB, .reg = { 0, 6, -1 } };
    p.instr[5] = (gr_instr){ .fn = GR_FN_EXP, .reg = { 7, -1, -1 } };
    p.instr[6] = (gr_instr){ .fn = GR_FN_MUL, .reg = { 8, 2, -1 } };
    d_src[0] = gr_map_add(g, n->site, (gr_value *[]){ x, &n->out[0], d_out[0] }, &p);
    return gr_graph_status(g);
}

static gr_softmax_attr attr_of(const gr_value *x, int axis, gr_dtype t)
{
    int n_dims = gr_value_shape(x).n_dims;

    return (gr_softmax_attr){ .axis = axis < 0 ? axis + n_dims : axis, .dtype = t };
}

gr_value *gr_softmax_at(const char *site, gr_graph *g, gr_value *x, int axis)
{
    gr_softmax_attr a = attr_of(x, axis, gr_value_dtype(x));

    return add(g, site, &gr_op_softmax, &x, &a);
}

gr_value *gr_log_softmax_at(const char *site, gr_graph *g, gr_value *x, int axis)
{
    gr_softmax_attr a = attr_of(x, axis, wide(gr_value_dtype(x)));

    return add(g, site, &gr_op_log_softmax, &x, &a);
}

gr_value *gr_logsumexp_at(const char *site, gr_graph *g, gr_value *x, int axis, bool keep)
{
    gr_softmax_attr a = attr_of(x, axis, wide(gr_value_dtype(x)));
    gr_value *y = add(g, site, &gr_op_logsumexp, &x, &a);
    gr_shape s = gr_value_shape(y);

    if (!y || keep)
        return y;
    for (int i = a.axis; i < s.n_dims - 1; i++)
        s.dim[i] = s.dim[i + 1];
    s.n_dims--;
    return gr_reshape_at(site, g, y, s);
}

const gr_op gr_op_softmax = {
    .name = "softmax",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_FIRST,
    .infer = softmax_infer,
    .grad = softmax_grad,
    .retype = softmax_retype,
    .print = softmax_print,
    .kernels = gr_softmax_cpu,
};

const gr_op gr_op_softmax_grad = {
    .name = "softmax_grad",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_FIRST,
    .infer = grad_infer,
    .retype = softmax_retype,
    .print = softmax_print,
    .kernels = gr_softmax_grad_cpu,
};

const gr_op gr_op_log_softmax = {
    .name = "log_softmax",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_WIDE,
    .infer = wide_infer,
    .grad = softmax_grad,
    .print = softmax_print,
    .kernels = gr_log_softmax_cpu,
};

const gr_op gr_op_log_softmax_grad = {
    .name = "log_softmax_grad",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_FIRST,
    .infer = grad_infer,
    .retype = softmax_retype,
    .print = softmax_print,
    .kernels = gr_log_softmax_grad_cpu,
};

const gr_op gr_op_logsumexp = {
    .name = "logsumexp",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_WIDE,
    .infer = wide_infer,
    .grad = logsumexp_grad,
    .print = softmax_print,
    .kernels = gr_logsumexp_cpu,
};

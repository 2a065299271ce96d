/*
 * The gated unit of SwiGLU: shape rules, gradient, builder. With s = sigmoid(a):
 *     y = a s b,   da = dy b s (1 + a (1 - s)),   db = dy a s
 * An operator of its own, since both halves of a row are read and written where they lie: split
 * and map would move everything twice.
 */
#include "op/swiglu/swiglu.h"

#include "gradus/ops.h"

static gr_status check_source(const gr_value *x)
{
    const gr_shape *s = &x->shape;

    if (!gr_dtype_is_float(x->dtype))
        return gr_fail(GR_ERR_ARG, "x must be of a floating type");
    if (s->n_dims < 1 || s->dim[s->n_dims - 1] % 2 != 0)
        return gr_fail(GR_ERR_ARG, "the last dimension must have two halves");
    return GR_OK;
}

static gr_shape half_of(gr_shape s)
{
    s.dim[s.n_dims - 1] /= 2;
    return s;
}

static gr_status swiglu_infer(gr_node *n)
{
    GR_TRY(check_source(n->src[0]));
    n->out[0].shape = half_of(n->src[0]->shape);
    n->out[0].dtype = n->src[0]->dtype;
    return GR_OK;
}

static gr_status swiglu_grad_infer(gr_node *n)
{
    gr_shape half;

    GR_TRY(check_source(n->src[0]));
    half = half_of(n->src[0]->shape);
    if (!gr_shape_equal(&half, &n->src[1]->shape) || n->src[0]->dtype != n->src[1]->dtype)
        return gr_fail(GR_ERR_ARG, "the gradient must have half the last dimension, and x's type");
    n->out[0].shape = n->src[0]->shape;
    n->out[0].dtype = n->src[0]->dtype;
    return GR_OK;
}

static gr_status swiglu_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    d_src[0] = gr_graph_add_value(g, &(gr_build){ .op = &gr_op_swiglu_grad,
                                                  .site = n->site,
                                                  .src = (gr_value *[]){ n->src[0], d_out[0] },
                                                  .n_src = 2 });
    return gr_graph_status(g);
}

const gr_op gr_op_swiglu = {
    .name = "swiglu",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_FIRST,
    .infer = swiglu_infer,
    .grad = swiglu_grad,
    .kernels = gr_swiglu_cpu,
};

const gr_op gr_op_swiglu_grad = {
    .name = "swiglu_grad",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_FIRST,
    .infer = swiglu_grad_infer,
    .kernels = gr_swiglu_grad_cpu,
};

gr_value *gr_swiglu_at(const char *site, gr_graph *g, gr_value *x)
{
    return gr_graph_add_value(
        g, &(gr_build){ .op = &gr_op_swiglu, .site = site, .src = &x, .n_src = 1 });
}

/* The toy's rule, gradient and builder. */
#include "toy/toy.h"

#include "gradus/ops.h"

static gr_status toy_infer(gr_node *n)
{
    const gr_value *x = n->src[0], *w = n->src[1];

    if (x->shape.n_dims != 2 || w->shape.n_dims != 1 || x->shape.dim[1] != w->shape.dim[0])
        return gr_fail(GR_ERR_ARG, "x must be [m, n], w [n]");
    if (x->dtype != w->dtype || (x->dtype != GR_F32 && x->dtype != GR_F64))
        return gr_fail(GR_ERR_ARG, "both f32 or both f64: cast first");
    n->out[0].shape = x->shape;
    n->out[0].dtype = x->dtype;
    return GR_OK;
}

gr_value *toy_at(const char *site, gr_graph *g, gr_value *x, gr_value *w)
{
    return gr_graph_add_value(
        g, &(gr_build){ .op = &toy_op, .site = site, .src = (gr_value *[]){ x, w }, .n_src = 2 });
}

static gr_status toy_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    d_src[0] = toy_at(n->site, g, d_out[0], n->src[1]);
    d_src[1] = gr_sum(g, gr_mul(g, d_out[0], n->src[0]), GR_AXIS(0), false);
    return gr_graph_status(g);
}

const gr_op toy_op = { .name = "toy",
                       .n_src = 2,
                       .n_out = 1,
                       .amp = GR_AMP_WIDE,
                       .tunes = true,
                       .infer = toy_infer,
                       .grad = toy_grad,
                       .kernels = toy_cpu };

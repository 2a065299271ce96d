/*
 * Softmax cross-entropy per row.
 *
 *     lse[r]  = log sum over c of exp(x[r, c])
 *     loss[r] = lse[r] - x[r, label[r]]
 *     dx[r, c] = (exp(x[r, c] - lse[r]) - (c == label[r])) * dloss[r]
 *
 * The backward pass needs lse only, not the probabilities. The greatest element is taken
 * out before exp, so nothing overflows. A label out of range is written to the launch's
 * fault; its loss and gradient are then 0.
 */
#include "op/xent/xent.h"

#include "gradus/ops.h"

static gr_dtype wide(gr_dtype t)
{
    return t == GR_F64 ? GR_F64 : GR_F32;
}

static gr_status check_inputs(const gr_value *logits, const gr_value *labels)
{
    if (!gr_dtype_is_float(logits->dtype))
        return gr_fail(GR_ERR_ARG, "logits must be of a floating type");
    if (labels->dtype != GR_I32 && labels->dtype != GR_I64)
        return gr_fail(GR_ERR_ARG, "labels must be i32 or i64");
    if (logits->shape.n_dims != 2)
        return gr_fail(GR_ERR_ARG, "logits must be [rows, classes]");
    if (labels->shape.n_dims != 1 || labels->shape.dim[0] != logits->shape.dim[0])
        return gr_fail(GR_ERR_ARG, "there must be one label per row of logits: [%lld]",
                       (long long)logits->shape.dim[0]);
    return GR_OK;
}

static gr_status xent_infer(gr_node *n)
{
    GR_TRY(check_inputs(n->src[0], n->src[1]));
    for (int i = 0; i < 2; i++) {
        n->out[i].shape = n->src[1]->shape;
        n->out[i].dtype = wide(n->src[0]->dtype);
    }
    return GR_OK;
}

static gr_status xent_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    gr_xent_grad_attr attr = { .dtype = n->src[0]->dtype };

    if (d_out[1])
        return gr_fail(GR_ERR_ARG, "softmax_xent: the log-sum-exp has no gradient");
    d_src[0] = gr_graph_add_value(
        g, &(gr_build){ .op = &gr_op_softmax_xent_grad,
                        .site = n->site,
                        .src = (gr_value *[]){ n->src[0], n->src[1], &n->out[1], d_out[0] },
                        .n_src = 4,
                        .attr = &attr,
                        .attr_bytes = sizeof(attr) });
    return gr_graph_status(g);
}

gr_value *gr_softmax_xent_at(const char *site, gr_graph *g, gr_value *logits, gr_value *labels)
{
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_softmax_xent,
                                              .site = site,
                                              .src = (gr_value *[]){ logits, labels },
                                              .n_src = 2 });
}

gr_value *gr_cross_entropy_at(const char *site, gr_graph *g, gr_value *logits, gr_value *labels)
{
    gr_value *loss = gr_softmax_xent_at(site, g, logits, labels);

    return loss ? gr_reduce_at(site, g, "mean", loss, GR_AXIS(0), false) : NULL;
}

const gr_op gr_op_softmax_xent = {
    .name = "softmax_xent",
    .n_src = 2,
    .n_out = 2,
    .amp = GR_AMP_WIDE,
    .infer = xent_infer,
    .grad = xent_grad,
    .kernels = gr_softmax_xent_cpu,
};

/* ---- gradient ---- */

static gr_status xent_grad_infer(gr_node *n)
{
    const gr_xent_grad_attr *at = n->attr;
    gr_dtype t = wide(n->src[0]->dtype);

    GR_TRY(check_inputs(n->src[0], n->src[1]));
    for (int i = 2; i < 4; i++)
        if (!gr_shape_equal(&n->src[i]->shape, &n->src[1]->shape) || n->src[i]->dtype != t)
            return gr_fail(GR_ERR_ARG, "input %d must be %s with one number per row", i,
                           gr_dtype_name(t));
    if (!gr_dtype_is_float(at->dtype))
        return gr_fail(GR_ERR_ARG, "the gradient must be of a floating type");
    n->out[0].shape = n->src[0]->shape;
    n->out[0].dtype = at->dtype;
    return GR_OK;
}

static const void *xent_grad_retype(gr_graph *g, const gr_node *n, gr_dtype t)
{
    gr_xent_grad_attr *attr = gr_arena_new(g->arena, gr_xent_grad_attr);

    (void)n;
    if (attr)
        attr->dtype = t;
    return attr;
}

const gr_op gr_op_softmax_xent_grad = {
    .name = "softmax_xent_grad",
    .n_src = 4,
    .n_out = 1,
    .amp = GR_AMP_FIRST,
    .infer = xent_grad_infer,
    .retype = xent_grad_retype,
    .kernels = gr_softmax_xent_grad_cpu,
};

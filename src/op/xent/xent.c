/*
 * Softmax cross-entropy per row. With weights w of the classes (1 without), their sum W, a
 * smoothing e and y the row's label:
 *
 *     lse  = log sum over c of exp(x[c])
 *     loss = (1 - e) w[y] (lse - x[y]) + e / C (W lse - sum over c of w[c] x[c])
 *     dx[c] = (A exp(x[c] - lse) - (1 - e) w[y] (c == y) - e / C w[c]) dloss
 *             with A = (1 - e) w[y] + e / C W
 *
 * The backward pass needs lse only, not the probabilities. The greatest element is taken
 * out before exp, so nothing overflows. Rows with the label to ignore have loss and gradient
 * 0, and their logits are not looked at. Another label out of range is written to the launch's
 * fault; its loss and gradient are then 0.
 */
#include "op/xent/xent.h"

#include "gradus/ops.h"

#include <string.h>

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

/* The weights are the source behind those that are always there. */
static gr_status check_options(const gr_node *n, int n_fixed)
{
    const gr_xent_attr *at = (const gr_xent_attr *)n->attr;
    const gr_shape *x = &n->src[0]->shape;

    if (!(at->smoothing >= 0 && at->smoothing <= 1))
        return gr_fail(GR_ERR_ARG, "label smoothing is %g, must be in [0, 1]", at->smoothing);
    if (n->n_src == n_fixed)
        return GR_OK;
    if (n->n_src != n_fixed + 1)
        return gr_fail(GR_ERR_ARG, "%d inputs, must be %d, or %d with weights", n->n_src, n_fixed,
                       n_fixed + 1);
    if (n->src[n_fixed]->shape.n_dims != 1 || n->src[n_fixed]->shape.dim[0] != x->dim[1] ||
        n->src[n_fixed]->dtype != wide(n->src[0]->dtype))
        return gr_fail(GR_ERR_ARG, "weights must be %s, one per class: [%lld]",
                       gr_dtype_name(wide(n->src[0]->dtype)), (long long)x->dim[1]);
    return GR_OK;
}

static gr_status check_count(const gr_node *n, int least)
{
    if (n->n_src < least)
        return gr_fail(GR_ERR_ARG, "%d inputs, must be %d or %d", n->n_src, least, least + 1);
    return GR_OK;
}

static gr_status xent_infer(gr_node *n)
{
    GR_TRY(check_count(n, 2));
    GR_TRY(check_inputs(n->src[0], n->src[1]));
    GR_TRY(check_options(n, 2));
    for (int i = 0; i < 2; i++) {
        n->out[i].shape = n->src[1]->shape;
        n->out[i].dtype = wide(n->src[0]->dtype);
    }
    return GR_OK;
}

static gr_status xent_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    gr_value *src[5] = { n->src[0], n->src[1], &n->out[1], d_out[0] };

    if (d_out[1])
        return gr_fail(GR_ERR_ARG, "softmax_xent: the log-sum-exp has no gradient");
    if (n->n_src == 3)
        src[4] = n->src[2];
    d_src[0] = gr_graph_add_value(g, &(gr_build){ .op = &gr_op_softmax_xent_grad,
                                                  .site = n->site,
                                                  .src = src,
                                                  .n_src = n->n_src + 2,
                                                  .attr = n->attr,
                                                  .attr_bytes = sizeof(gr_xent_attr) });
    return gr_graph_status(g);
}

gr_value *gr_xent_add(const char *site, gr_graph *g, gr_value *logits, gr_value *labels,
                      gr_value *weight, gr_xent_attr attr)
{
    gr_xent_attr at;

    memset(&at, 0, sizeof(at)); /* also between the fields */
    at.dtype = gr_value_dtype(logits);
    at.has_ignore = attr.has_ignore;
    at.ignore = attr.ignore;
    at.smoothing = attr.smoothing;
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_softmax_xent,
                                              .site = site,
                                              .src = (gr_value *[]){ logits, labels, weight },
                                              .n_src = weight ? 3 : 2,
                                              .attr = &at,
                                              .attr_bytes = sizeof(at) });
}

gr_value *gr_softmax_xent_at(const char *site, gr_graph *g, gr_value *logits, gr_value *labels)
{
    return gr_xent_add(site, g, logits, labels, NULL, (gr_xent_attr){ 0 });
}

gr_value *gr_cross_entropy_at(const char *site, gr_graph *g, gr_value *logits, gr_value *labels)
{
    gr_value *loss = gr_softmax_xent_at(site, g, logits, labels);

    return loss ? gr_reduce_at(site, g, "mean", loss, GR_AXIS(0), false) : NULL;
}

static void xent_print(const gr_node *n, gr_text *out)
{
    const gr_xent_attr *at = (const gr_xent_attr *)n->attr;

    if (at->has_ignore)
        gr_text_addf(out, " ignore %lld", (long long)at->ignore);
    if (at->smoothing != 0)
        gr_text_addf(out, " smoothing %.9g", at->smoothing);
}

const gr_op gr_op_softmax_xent = {
    .name = "softmax_xent",
    .n_src = GR_ANY_COUNT,
    .n_out = 2,
    .amp = GR_AMP_WIDE,
    .infer = xent_infer,
    .grad = xent_grad,
    .print = xent_print,
    .kernels = gr_softmax_xent_cpu,
};

/* ---- gradient ---- */

static gr_status xent_grad_infer(gr_node *n)
{
    const gr_xent_attr *at = (const gr_xent_attr *)n->attr;
    gr_dtype t;

    GR_TRY(check_count(n, 4));
    t = wide(n->src[0]->dtype);
    GR_TRY(check_inputs(n->src[0], n->src[1]));
    GR_TRY(check_options(n, 4));
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
    gr_xent_attr *attr = gr_arena_new(g->arena, gr_xent_attr);

    if (!attr)
        return NULL;
    memcpy(attr, n->attr, sizeof(*attr));
    attr->dtype = t;
    return attr;
}

const gr_op gr_op_softmax_xent_grad = {
    .name = "softmax_xent_grad",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_FIRST,
    .infer = xent_grad_infer,
    .retype = xent_grad_retype,
    .print = xent_print,
    .kernels = gr_softmax_xent_grad_cpu,
};

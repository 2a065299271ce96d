/* Nearest neighbours: shape rule and builder. There is no gradient: a choice has none, and
 * distances that need one are computed from the chosen points. */
#include "op/knn/knn.h"

static gr_status check_mask(const gr_node *n)
{
    const gr_value *points = n->src[0], *mask = n->n_src == 2 ? n->src[1] : NULL;

    if (!mask)
        return GR_OK;
    if (mask->dtype != GR_BOOL && mask->dtype != GR_U8)
        return gr_fail(GR_ERR_ARG, "the mask must be bool or u8");
    if (mask->shape.n_dims != 2 || mask->shape.dim[0] != points->shape.dim[0] ||
        mask->shape.dim[1] != points->shape.dim[1])
        return gr_fail(GR_ERR_ARG, "the mask must have a number for each point");
    return GR_OK;
}

static gr_status infer(gr_node *n)
{
    const gr_knn_config *at = n->attr;
    const gr_value *points = n->src[0];
    const gr_shape *s = &points->shape;

    if (n->n_src < 1 || n->n_src > 2)
        return gr_fail(GR_ERR_ARG, "takes points and perhaps a mask");
    if (s->n_dims != 3 || s->dim[2] < 1 || !gr_dtype_is_float(points->dtype))
        return gr_fail(GR_ERR_ARG, "takes floating points [b, l, d]");
    if (at->k < 1)
        return gr_fail(GR_ERR_ARG, "the %lld nearest", (long long)at->k);
    if (s->dim[1] > 0 && s->dim[0] > INT32_MAX / s->dim[1])
        return gr_fail(GR_ERR_ARG, "places of so many points are beyond i32");
    GR_TRY(check_mask(n));
    for (int i = 0; i < 2; i++) {
        n->out[i].shape = *s;
        n->out[i].shape.dim[2] = at->k;
    }
    n->out[0].dtype = GR_I32;
    n->out[1].dtype = points->dtype == GR_F64 ? GR_F64 : GR_F32;
    return GR_OK;
}

static void print(const gr_node *n, gr_text *out)
{
    const gr_knn_config *at = n->attr;

    gr_text_addf(out, " %lld nearest%s", (long long)at->k, at->in_batch ? ", in batch" : "");
}

gr_value *gr_knn_at(const char *site, gr_graph *g, gr_value *points, gr_value *mask,
                    gr_knn_config config, gr_value **distance)
{
    gr_node *n = gr_graph_add(g, &(gr_build){ .op = &gr_op_knn,
                                              .site = site,
                                              .src = (gr_value *[]){ points, mask },
                                              .n_src = mask ? 2 : 1,
                                              .attr = &config,
                                              .attr_bytes = sizeof(config) });

    if (distance)
        *distance = n ? &n->out[1] : NULL;
    return n ? &n->out[0] : NULL;
}

const gr_op gr_op_knn = {
    .name = "knn",
    .n_src = GR_ANY_COUNT,
    .n_out = 2,
    .amp = GR_AMP_KEEP,
    .infer = infer,
    .print = print,
    .kernels = gr_knn_cpu,
};

/*
 * Top k.
 *
 *   values[i] = the i-th best of x, index[i] = where it was; dx = the gradients of the
 *   values put back where they were, zero elsewhere
 *
 * Best is greatest, or smallest; of equals the first one is better; NaN is greatest.
 */
#include "op/topk/topk.h"

#include "gradus/index.h"
#include "gradus/ops.h"
#include "op/take/take.h"

static gr_status infer(gr_node *n)
{
    const gr_top_k_attr *at = n->attr;
    const gr_value *x = n->src[0];
    int last = x->shape.n_dims - 1;

    if (last < 0 || !gr_dtype_is_float(x->dtype))
        return gr_fail(GR_ERR_ARG, "takes rows of floating numbers");
    if (at->k < 1 || at->k > x->shape.dim[last])
        return gr_fail(GR_ERR_ARG, "the %lld best of %lld", (long long)at->k,
                       (long long)x->shape.dim[last]);
    if (x->shape.dim[last] > INT32_MAX)
        return gr_fail(GR_ERR_ARG, "places in a row of %lld are beyond i32",
                       (long long)x->shape.dim[last]);
    for (int i = 0; i < 2; i++) {
        n->out[i].shape = x->shape;
        n->out[i].shape.dim[last] = at->k;
        n->out[i].dtype = i == 0 ? x->dtype : GR_I32;
    }
    return GR_OK;
}

static gr_status grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    const gr_shape *s = &n->src[0]->shape;
    gr_take_attr attr = { .axis = s->n_dims - 1, .is_each = true, .n = s->dim[s->n_dims - 1] };

    d_src[0] = gr_take_back(n->site, g, d_out[0], &n->out[1], &attr, n->src[0]->dtype);
    return gr_graph_status(g);
}

static void print(const gr_node *n, gr_text *out)
{
    const gr_top_k_attr *at = n->attr;

    gr_text_addf(out, " %lld %s", (long long)at->k, at->is_smallest ? "smallest" : "greatest");
}

gr_value *gr_top_k_at(const char *site, gr_graph *g, gr_value *a, int64_t k, bool smallest,
                      gr_value **index)
{
    gr_top_k_attr attr = { .k = k, .is_smallest = smallest };
    gr_node *n = gr_graph_add(g, &(gr_build){ .op = &gr_op_top_k,
                                              .site = site,
                                              .src = &a,
                                              .n_src = 1,
                                              .attr = &attr,
                                              .attr_bytes = sizeof(attr) });

    if (index)
        *index = n ? &n->out[1] : NULL;
    return n ? &n->out[0] : NULL;
}

const gr_op gr_op_top_k = {
    .name = "top_k",
    .n_src = 1,
    .n_out = 2,
    .amp = GR_AMP_FOLLOW,
    .infer = infer,
    .grad = grad,
    .print = print,
    .kernels = gr_top_k_cpu,
};

#include "op/flops.h"

#include "op/attention/attention.h"
#include "op/conv/conv.h"
#include "op/matmul/matmul.h"

static double matmul_flops(const gr_node *n)
{
    const gr_matmul_attr *a = n->attr;
    const gr_shape *left = &n->src[0]->shape;
    int64_t k = left->dim[left->n_dims - (a->trans_a ? 2 : 1)];

    return 2.0 * (double)gr_shape_count(&n->out[0].shape) * (double)k;
}

static double conv_flops(const gr_node *n)
{
    gr_conv_dims d;

    gr_conv_get_dims(n, &d);
    return 2.0 * (double)(d.n * d.out[0] * d.out[1] * d.co) *
           (double)(d.k[0] * d.k[1] * (d.ci / d.groups));
}

/* Forward two products; backward five, one of them the scores once more. */
static double attention_flops(const gr_node *n, int n_products)
{
    gr_attention_dims d;

    gr_attention_get_dims(n, &d);
    return 2.0 * n_products * (double)(d.b * d.hq) * (double)(d.nq * d.nk) * (double)d.d;
}

double gr_node_flops(const gr_node *n)
{
    if (n->op == &gr_op_matmul)
        return matmul_flops(n);
    if (n->op == &gr_op_conv || n->op == &gr_op_conv_data || n->op == &gr_op_conv_weight)
        return conv_flops(n);
    if (n->op == &gr_op_attention)
        return attention_flops(n, 2);
    if (n->op == &gr_op_attention_grad)
        return attention_flops(n, 5);
    return 0;
}

double gr_graph_flops(const gr_graph *g)
{
    double sum = 0;

    for (int i = 0; i < g->n_nodes; i++)
        sum += gr_node_flops(g->nodes[i]);
    return sum;
}

/*
 * Convolutions that are matrix products: 1 x 1, stride 1, no padding, one group. Pixels are
 * rows, and the weight [co, ci, 1, 1] is a matrix as it lies.
 *
 *     conv:         y [p, co] = x [p, ci] · w [co, ci]ᵀ
 *     conv_data:    x [p, ci] = y [p, co] · w [co, ci]
 *     conv_weight:  w [co, ci] = y [p, co]ᵀ · x [p, ci]
 *
 * The product gets a node of its own, which is in no graph, and matmul's best kernel whose
 * bits do not depend on the thread count: oneDNN is passed over.
 */
#include "base/alloc.h"
#include "op/conv/cpu/conv_kernels.h"
#include "op/matmul/matmul.h"

#include <string.h>

typedef struct product {
    gr_node node;
    gr_matmul_attr attr;
    gr_value a, b, y;
    gr_value *src[2];
    bool swapped; /* conv_weight: its first source is the second of the product */
    const gr_kernel *kernel;
    void *data;
} product;

const char *gr_conv_product_reject(const gr_node *n)
{
    gr_conv_dims d;

    if (n->src[0]->dtype == GR_F64 || n->src[1]->dtype == GR_F64 || n->out[0].dtype == GR_F64)
        return "f64 is left to the reference";
    gr_conv_get_dims(n, &d);
    for (int i = 0; i < 2; i++)
        if (d.k[i] != 1 || d.stride[i] != 1 || d.pad[i] != 0)
            return "only 1 x 1 with stride 1 and no padding is a product";
    return d.groups != 1 ? "groups are not one product" : NULL;
}

static gr_value matrix(const gr_value *like, int64_t rows, int64_t cols)
{
    return (gr_value){ .dtype = like->dtype, .shape = { 2, { rows, cols } } };
}

static void set_node(product *p, const gr_node *n)
{
    const bool is_data = n->op == &gr_op_conv_data;
    gr_conv_dims d;
    int64_t pixels;

    gr_conv_get_dims(n, &d);
    pixels = d.n * d.in[0] * d.in[1];
    p->swapped = n->op == &gr_op_conv_weight;
    if (p->swapped) {
        p->a = matrix(n->src[1], pixels, d.co);
        p->b = matrix(n->src[0], pixels, d.ci);
        p->y = matrix(&n->out[0], d.co, d.ci);
    } else {
        p->a = matrix(n->src[0], pixels, is_data ? d.co : d.ci);
        p->b = matrix(n->src[1], d.co, d.ci);
        p->y = matrix(&n->out[0], pixels, is_data ? d.ci : d.co);
    }
    p->attr.trans_a = p->swapped;
    p->attr.trans_b = !p->swapped && !is_data;
    p->attr.dtype = n->out[0].dtype;
    p->src[0] = &p->a;
    p->src[1] = &p->b;
    p->node = (gr_node){ .op = &gr_op_matmul, .n_src = 2, .n_out = 1, .site = n->site };
    p->node.src = p->src;
    p->node.out = &p->y;
    p->node.attr = &p->attr;
}

static const gr_kernel *pick(const gr_node *n)
{
    const gr_kernel *k = gr_op_matmul.kernels;

    while (strcmp(k->name, "onednn") == 0 || (k->reject && k->reject(n)))
        k++; /* the reference, the last one, takes all */
    return k;
}

gr_status gr_conv_product_prepare(gr_prepare *prep)
{
    product *p = gr_calloc(1, sizeof(*p));
    gr_prepare inner;
    gr_status st = GR_OK;

    if (!p)
        return GR_ERR_NOMEM;
    set_node(p, prep->node);
    p->kernel = pick(&p->node);
    inner = gr_prepare_for(prep, &p->node);
    if (p->kernel->prepare)
        st = p->kernel->prepare(&inner);
    if (st != GR_OK) {
        gr_free(p);
        return st;
    }
    p->data = inner.data;
    prep->data = p;
    return GR_OK;
}

size_t gr_conv_product_workspace(const gr_node *n, const void *data)
{
    const product *p = data;

    (void)n;
    return p->kernel->workspace ? p->kernel->workspace(&p->node, p->data) : 0;
}

gr_status gr_conv_product_run(const gr_launch *l)
{
    const product *p = l->data;
    void *src[2] = { l->src[p->swapped ? 1 : 0], l->src[p->swapped ? 0 : 1] };
    gr_launch inner = *l;

    inner.node = &p->node;
    inner.src = src;
    inner.data = p->data;
    return p->kernel->run(&inner);
}

void gr_conv_product_release(void *data)
{
    product *p = data;

    if (p && p->kernel->release)
        p->kernel->release(p->data);
    gr_free(p);
}

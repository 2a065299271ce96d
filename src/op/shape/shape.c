/*
 * Shapes: the same elements seen or stored differently.
 *
 *   reshape     y has a's elements in a's order            da = reshape of dy
 *   transpose   y[i0, i1, ..] = a at i, where index i[d] runs over dimension order[d]
 *               da = transpose of dy in the inverse order
 *
 * Reshape is a view: it shares memory and runs nothing. Transpose copies.
 */
#include "op/shape/shape.h"

#include "gradus/ops.h"

/* ---- reshape ---- */

static gr_status reshape_infer(gr_node *n)
{
    const gr_reshape_attr *at = n->attr;
    const gr_value *a = n->src[0];
    char to[GR_SHAPE_TEXT];

    GR_TRY(gr_shape_check(&at->shape, a->dtype));
    if (gr_shape_count(&at->shape) != gr_shape_count(&a->shape))
        return gr_fail(GR_ERR_ARG, "cannot become %s: %lld elements are not %lld",
                       gr_shape_text(&at->shape, to, sizeof(to)),
                       (long long)gr_shape_count(&a->shape), (long long)gr_shape_count(&at->shape));
    n->out[0].shape = at->shape;
    n->out[0].dtype = a->dtype;
    n->out[0].alias = n->src[0];
    return GR_OK;
}

static gr_status reshape_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    d_src[0] = gr_reshape_at(n->site, g, d_out[0], n->src[0]->shape);
    return gr_graph_status(g);
}

/* Puts a number in the place of -1, if one fits; else leaves it, and infer refuses. */
static void resolve(gr_shape *s, const gr_shape *from)
{
    int64_t known = 1, n = gr_shape_count(from);
    int open = -1;

    for (int i = 0; i < s->n_dims; i++) {
        if (s->dim[i] == -1 && open < 0)
            open = i;
        else if (s->dim[i] < 0 || __builtin_mul_overflow(known, s->dim[i], &known))
            return;
    }
    if (open >= 0 && known > 0 && n % known == 0)
        s->dim[open] = n / known;
}

gr_value *gr_reshape_at(const char *site, gr_graph *g, gr_value *a, gr_shape shape)
{
    gr_reshape_attr attr = { .shape = shape };
    gr_shape from = gr_value_shape(a);
    bool has_open = false;

    if (shape.n_dims >= 0 && shape.n_dims <= GR_MAX_DIMS)
        resolve(&attr.shape, &from);
    for (int i = 0; i < shape.n_dims && i < GR_MAX_DIMS; i++)
        has_open |= attr.shape.dim[i] == -1;
    if (a && has_open) {
        char text_from[GR_SHAPE_TEXT], text_to[GR_SHAPE_TEXT];

        gr_graph_fail(g, site, "reshape from %s to %s: no length fits for -1",
                      gr_shape_text(&from, text_from, sizeof(text_from)),
                      gr_shape_text(&shape, text_to, sizeof(text_to)));
        return NULL;
    }
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_reshape,
                                              .site = site,
                                              .src = &a,
                                              .n_src = 1,
                                              .attr = &attr,
                                              .attr_bytes = sizeof(attr) });
}

const gr_op gr_op_reshape = {
    .name = "reshape",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_FOLLOW,
    .infer = reshape_infer,
    .grad = reshape_grad,
};

/* ---- transpose ---- */

static void order_text(const gr_transpose_attr *at, int n_dims, char text[GR_SHAPE_TEXT])
{
    gr_shape s = { .n_dims = n_dims };

    for (int i = 0; i < n_dims; i++)
        s.dim[i] = at->order[i];
    gr_shape_text(&s, text, GR_SHAPE_TEXT);
}

static gr_status transpose_infer(gr_node *n)
{
    const gr_transpose_attr *at = n->attr;
    const gr_shape *a = &n->src[0]->shape;
    char order[GR_SHAPE_TEXT];
    unsigned seen = 0;

    n->out[0].shape = *a;
    n->out[0].dtype = n->src[0]->dtype;
    for (int i = 0; i < a->n_dims; i++) {
        int from = at->order[i];

        if (from < 0 || from >= a->n_dims || (seen & (1u << from))) {
            order_text(at, a->n_dims, order);
            return gr_fail(GR_ERR_ARG, "order %s does not name each dimension once", order);
        }
        seen |= 1u << from;
        n->out[0].shape.dim[i] = a->dim[from];
    }
    return GR_OK;
}

static gr_status transpose_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    const gr_transpose_attr *at = n->attr;
    int inverse[GR_MAX_DIMS] = { 0 };

    for (int i = 0; i < n->src[0]->shape.n_dims; i++)
        inverse[at->order[i]] = i;
    d_src[0] = gr_transpose_at(n->site, g, d_out[0], inverse);
    return gr_graph_status(g);
}

static void transpose_print(const gr_node *n, gr_text *out)
{
    char order[GR_SHAPE_TEXT];

    order_text(n->attr, n->src[0]->shape.n_dims, order);
    gr_text_addf(out, " order %s", order);
}

gr_value *gr_transpose_at(const char *site, gr_graph *g, gr_value *a, const int *order)
{
    gr_transpose_attr attr = { { 0 } };

    if (!order) {
        gr_graph_fail(g, site, "transpose: the order is NULL");
        return NULL;
    }
    for (int i = 0; i < gr_value_shape(a).n_dims; i++)
        attr.order[i] = order[i];
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_transpose,
                                              .site = site,
                                              .src = &a,
                                              .n_src = 1,
                                              .attr = &attr,
                                              .attr_bytes = sizeof(attr) });
}

const gr_op gr_op_transpose = {
    .name = "transpose",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_FOLLOW,
    .infer = transpose_infer,
    .grad = transpose_grad,
    .print = transpose_print,
    .kernels = gr_transpose_cpu,
};

/* Rules and builders of gradients in 16 bits. */
#include "op/collective/wire.h"

static gr_status check_row(const gr_wire_attr *a)
{
    if (a->dtype != GR_BF16 && a->dtype != GR_F16)
        return gr_fail(GR_ERR_ARG, "gradients travel as bf16 or f16, not %s",
                       gr_dtype_name(a->dtype));
    return GR_OK;
}

static gr_status check_grads(const gr_node *n, int first)
{
    for (int s = first; s < n->n_src; s++)
        if (n->src[s]->dtype != GR_F32)
            return gr_fail(GR_ERR_ARG, "gradient %d is %s, not f32", s - first,
                           gr_dtype_name(n->src[s]->dtype));
    return GR_OK;
}

static gr_status pack_infer(gr_node *n)
{
    const gr_wire_attr *a = n->attr;

    GR_TRY(check_row(a));
    GR_TRY(check_grads(n, 0));
    n->out[0].shape = gr_shape_of(1, &a->n_elem);
    n->out[0].dtype = a->dtype;
    return GR_OK;
}

static gr_status unpack_infer(gr_node *n)
{
    const gr_wire_attr *a = n->attr;

    GR_TRY(check_row(a));
    GR_TRY(check_grads(n, 1));
    if (n->src[0]->dtype != a->dtype || gr_shape_count(&n->src[0]->shape) != a->n_elem)
        return gr_fail(GR_ERR_ARG, "the first source must be the row that was exchanged");
    for (int i = 0; i < n->n_out; i++) {
        n->out[i].shape = n->src[i + 1]->shape;
        n->out[i].dtype = GR_F32;
        n->out[i].space = n->src[i + 1]->space;
        n->out[i].alias = n->src[i + 1];
        n->out[i].is_grad = n->src[i + 1]->is_grad;
    }
    return GR_OK;
}

static void print_attr(const gr_node *n, gr_text *out)
{
    const gr_wire_attr *a = n->attr;

    gr_text_addf(out, " %lld %s", (long long)a->n_elem, gr_dtype_name(a->dtype));
}

/* Early, as the start that waits for it. */
const gr_op gr_op_wire_pack = {
    .name = "wire_pack",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .place = GR_PLACE_EARLY,
    .infer = pack_infer,
    .print = print_attr,
    .kernels = gr_wire_pack_cpu,
};

/* Late, as the finish that it follows: updates of one bucket run while others travel. */
const gr_op gr_op_wire_unpack = {
    .name = "wire_unpack",
    .n_src = GR_ANY_COUNT,
    .n_out = GR_ANY_COUNT,
    .amp = GR_AMP_KEEP,
    .place = GR_PLACE_LATE,
    .infer = unpack_infer,
    .print = print_attr,
    .kernels = gr_wire_unpack_cpu,
};

gr_value *gr_wire_pack_add(gr_graph *g, const gr_wire_attr *a, gr_value **grads, int n)
{
    gr_build b = { .op = &gr_op_wire_pack,
                   .site = "sync",
                   .src = grads,
                   .n_src = n,
                   .attr = a,
                   .attr_bytes = sizeof(*a) };

    return gr_graph_add_value(g, &b);
}

gr_status gr_wire_unpack_add(gr_graph *g, const gr_wire_attr *a, gr_value *row, gr_value **grads,
                             int n)
{
    gr_value **src = gr_arena_array(g->arena, (size_t)n + 1, sizeof(*src));
    gr_build b = { .op = &gr_op_wire_unpack,
                   .site = "sync",
                   .src = src,
                   .n_src = n + 1,
                   .attr = a,
                   .attr_bytes = sizeof(*a) };
    gr_node *node;

    if (!src)
        return GR_ERR_NOMEM;
    src[0] = row;
    for (int i = 0; i < n; i++)
        src[i + 1] = grads[i];
    node = gr_graph_add(g, &b);
    for (int i = 0; node && i < n; i++)
        grads[i] = &node->out[i];
    return gr_graph_status(g);
}

/* Start and finish of an all-reduce: shape rules, builder, dump. */
#include "op/collective/collective.h"

#include "base/alloc.h"
#include "op/collective/collective_cpu.h"

#include <string.h>

static gr_status start_infer(gr_node *n)
{
    const gr_collective_attr *a = (const gr_collective_attr *)n->attr;

    for (int i = 0; i < n->n_src; i++)
        if (n->src[i]->dtype != a->coll.dtype)
            return gr_fail(GR_ERR_ARG, "'%s' reduces %s, but gradient %d is %s", a->coll.label,
                           gr_dtype_name(a->coll.dtype), i, gr_dtype_name(n->src[i]->dtype));
    n->out[0].shape = GR_SCALAR;
    n->out[0].dtype = GR_U8;
    n->out[0].space = GR_SPACE_NONE;
    return GR_OK;
}

static gr_status finish_infer(gr_node *n)
{
    if (n->n_src < 1 || n->src[0]->space != GR_SPACE_NONE)
        return gr_fail(GR_ERR_ARG, "the first source must be the token of a start");
    for (int i = 0; i < n->n_out; i++) {
        gr_value *grad = n->src[i + 1];

        n->out[i].shape = grad->shape;
        n->out[i].dtype = grad->dtype;
        n->out[i].space = GR_SPACE_EXCHANGE;
        n->out[i].alias = grad;
        n->out[i].is_grad = grad->is_grad;
    }
    return GR_OK;
}

static void print_attr(const gr_node *n, gr_text *out)
{
    const gr_collective_attr *a = (const gr_collective_attr *)n->attr;

    gr_text_addf(out, " '%s' %zu %s at %zu", a->coll.label, a->coll.n_elem,
                 gr_dtype_name(a->coll.dtype), a->coll.offset);
}

const gr_op gr_op_allreduce_start = {
    .name = "allreduce_start",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .has_effect = true,
    .place = GR_PLACE_EARLY,
    .on_exchange = true,
    .infer = start_infer,
    .print = print_attr,
    .kernels = gr_allreduce_start_cpu,
};

/* Has an effect too: what is started must be finished, though nobody reads the result. */
const gr_op gr_op_allreduce_finish = {
    .name = "allreduce_finish",
    .n_src = GR_ANY_COUNT,
    .n_out = GR_ANY_COUNT,
    .amp = GR_AMP_KEEP,
    .has_effect = true,
    .place = GR_PLACE_LATE,
    .infer = finish_infer,
    .print = print_attr,
    .kernels = gr_allreduce_finish_cpu,
};

/* token and gradients, from the graph's arena */
static gr_value **with_token(gr_graph *g, gr_value *token, gr_value **grads, int n)
{
    gr_value **src = (gr_value **)gr_arena_array(g->arena, (size_t)n + 1, sizeof(*src));

    if (!src)
        return NULL;
    src[0] = token;
    memcpy(src + 1, grads, (size_t)n * sizeof(*grads));
    return src;
}

gr_status gr_allreduce_nodes(gr_graph *g, gr_pg *pg, const gr_coll *c, gr_value **grads, int n,
                             gr_value **reduced)
{
    gr_collective_attr attr = { .pg = pg, .coll = *c };
    gr_build b = {
        .site = "sync", .src = grads, .n_src = n, .attr = &attr, .attr_bytes = sizeof(attr)
    };
    gr_value *token;
    gr_node *finish;

    GR_BUG_IF(n < 1);
    attr.coll.label = gr_arena_strdup(g->arena, c->label);
    if (!attr.coll.label)
        return GR_ERR_NOMEM;
    b.op = &gr_op_allreduce_start;
    token = gr_graph_add_value(g, &b);
    if (!token)
        return gr_graph_status(g);
    b.op = &gr_op_allreduce_finish;
    b.src = with_token(g, token, grads, n);
    b.n_src = n + 1;
    if (!b.src)
        return GR_ERR_NOMEM;
    finish = gr_graph_add(g, &b);
    if (!finish)
        return gr_graph_status(g);
    for (int i = 0; i < n; i++)
        reduced[i] = &finish->out[i];
    return GR_OK;
}

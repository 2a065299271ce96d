/* Collectives by shares: shape rules, builders, dumps. */
#include "op/collective/shard.h"

#include "op/collective/collective_cpu.h"

/* ---- rules ---- */

static void row(gr_value *v, int64_t n)
{
    v->shape = gr_shape_of(1, &n);
    v->dtype = GR_F32;
    v->space = GR_SPACE_EXCHANGE;
}

static void token(gr_value *v)
{
    v->shape = GR_SCALAR;
    v->dtype = GR_U8;
    v->space = GR_SPACE_NONE;
}

/* What this rank has of it in the end: everybody's rows are this rank's own. */
static int64_t share_of(const gr_collective_attr *a)
{
    size_t n_shares = a->coll.rows ? 1 : (size_t)gr_pg_size(a->pg);

    return (int64_t)(a->coll.n_elem / n_shares);
}

static gr_status start_infer(gr_node *n)
{
    const gr_collective_attr *a = (const gr_collective_attr *)n->attr;

    for (int i = 0; i < n->n_src; i++)
        if (n->src[i]->dtype != a->coll.dtype)
            return gr_fail(GR_ERR_ARG, "'%s' takes %s, but source %d is %s", a->coll.label,
                           gr_dtype_name(a->coll.dtype), i, gr_dtype_name(n->src[i]->dtype));
    token(&n->out[0]);
    return GR_OK;
}

static gr_status want_token(const gr_node *n)
{
    if (n->n_src < 2 || n->src[0]->space != GR_SPACE_NONE)
        return gr_fail(GR_ERR_ARG, "the first source must be the token of a start");
    return GR_OK;
}

static gr_status scatter_finish_infer(gr_node *n)
{
    GR_TRY(want_token(n));
    row(&n->out[0], share_of((const gr_collective_attr *)n->attr));
    n->out[0].dtype = ((const gr_collective_attr *)n->attr)->coll.dtype;
    return GR_OK;
}

static gr_status gather_finish_infer(gr_node *n)
{
    GR_TRY(want_token(n));
    row(&n->out[0], (int64_t)((const gr_collective_attr *)n->attr)->coll.n_elem);
    return GR_OK;
}

static gr_status meet_start_infer(gr_node *n)
{
    token(&n->out[0]);
    return GR_OK;
}

static gr_status meet_finish_infer(gr_node *n)
{
    GR_TRY(want_token(n));
    token(&n->out[0]);
    return GR_OK;
}

static gr_status keep_infer(gr_node *n)
{
    gr_dtype t = n->src[0]->dtype;

    if ((t != GR_F32 && t != GR_BF16 && t != GR_F16) || n->src[0]->shape.n_dims != 1)
        return gr_fail(GR_ERR_ARG, "takes a row of f32, bf16 or f16");
    row(&n->out[0], n->src[0]->shape.dim[0]);
    return GR_OK;
}

/* Source `first` + i is parameter i. */
static gr_status check_items(const gr_node *n, int first)
{
    const gr_shard_attr *a = (const gr_shard_attr *)n->attr;

    if (n->n_src != first + a->n_items)
        return gr_fail(GR_ERR_ARG, "takes %d parameters, got %d", a->n_items, n->n_src - first);
    for (int i = 0; i < a->n_items; i++) {
        const gr_shard_item *m = &a->item[i];
        int64_t count = gr_shape_count(&n->src[first + i]->shape), at = m->at + m->part.first;

        if (n->src[first + i]->dtype != GR_F32)
            return gr_fail(GR_ERR_ARG, "parameter %d is not f32", i);
        if (m->part.first + m->part.n > count || m->at + count > a->n_elem)
            return gr_fail(GR_ERR_ARG, "parameter %d does not lie in the bucket", i);
        if (m->part.n > 0 && (at < a->first || at + m->part.n > a->first + a->n_own))
            return gr_fail(GR_ERR_ARG, "parameter %d: its part is not in the own share", i);
    }
    return GR_OK;
}

static gr_status give_infer(gr_node *n)
{
    GR_TRY(check_items(n, 0));
    row(&n->out[0], ((const gr_shard_attr *)n->attr)->n_own);
    return GR_OK;
}

static gr_status take_infer(gr_node *n)
{
    const gr_shard_attr *a = (const gr_shard_attr *)n->attr;

    GR_TRY(check_items(n, 1));
    if (gr_shape_count(&n->src[0]->shape) != a->n_elem)
        return gr_fail(GR_ERR_ARG, "the first source must be the bucket");
    for (int i = 0; i < a->n_items; i++) {
        gr_value *param = n->src[1 + i];

        n->out[i].shape = param->shape;
        n->out[i].dtype = param->dtype;
        n->out[i].space = param->space;
        n->out[i].alias = param;
        n->out[i].var = param->var;
    }
    return GR_OK;
}

/* ---- dumps and tables ---- */

static void print_coll(const gr_node *n, gr_text *out)
{
    const gr_collective_attr *a = (const gr_collective_attr *)n->attr;

    gr_text_addf(out, " '%s' %zu %s at %zu%s", a->coll.label, a->coll.n_elem,
                 gr_dtype_name(a->coll.dtype), a->coll.offset, a->coll.rows ? " rows" : "");
}

static void print_items(const gr_node *n, gr_text *out)
{
    const gr_shard_attr *a = (const gr_shard_attr *)n->attr;

    for (int i = 0; i < a->n_items; i++)
        gr_text_addf(out, " %lld+%lld", (long long)a->item[i].part.first,
                     (long long)a->item[i].part.n);
}

#define START(text, rule, table)                                                                   \
    {                                                                                              \
        .name = (text), .n_src = GR_ANY_COUNT, .n_out = 1, .amp = GR_AMP_KEEP, .has_effect = true, \
        .place = GR_PLACE_EARLY, .on_exchange = true, .infer = (rule), .print = print_coll,        \
        .kernels = (table),                                                                        \
    }
#define FINISH(text, rule)                                                                         \
    {                                                                                              \
        .name = (text), .n_src = GR_ANY_COUNT, .n_out = 1, .amp = GR_AMP_KEEP, .has_effect = true, \
        .place = GR_PLACE_LATE, .infer = (rule), .print = print_coll,                              \
        .kernels = gr_allreduce_finish_cpu,                                                        \
    }

const gr_op gr_op_reduce_scatter_start =
    START("reduce_scatter_start", start_infer, gr_allreduce_start_cpu);
const gr_op gr_op_reduce_scatter_finish = FINISH("reduce_scatter_finish", scatter_finish_infer);
const gr_op gr_op_allgather_start = START("allgather_start", start_infer, gr_allreduce_start_cpu);
const gr_op gr_op_allgather_finish = FINISH("allgather_finish", gather_finish_infer);
const gr_op gr_op_meet_start = START("meet_start", meet_start_infer, gr_meet_start_cpu);
const gr_op gr_op_meet_finish = FINISH("meet_finish", meet_finish_infer);

const gr_op gr_op_shard_keep = {
    .name = "shard_keep",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = keep_infer,
    .kernels = gr_shard_keep_cpu,
};

const gr_op gr_op_shard_give = {
    .name = "shard_give",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = give_infer,
    .print = print_items,
    .kernels = gr_shard_give_cpu,
};

const gr_op gr_op_shard_take = {
    .name = "shard_take",
    .n_src = GR_ANY_COUNT,
    .n_out = GR_ANY_COUNT,
    .amp = GR_AMP_KEEP,
    .infer = take_infer,
    .print = print_items,
    .kernels = gr_shard_take_cpu,
};

/* ---- builders ---- */

/* Start and finish of `c`; the finish reads what the start read. */
static gr_status both_halves(gr_graph *g, gr_pg *pg, const gr_coll *c, const gr_op *const op[2],
                             gr_value **src, int n, gr_value **out)
{
    gr_collective_attr attr = { .pg = pg, .coll = *c };
    gr_value **with_token = (gr_value **)gr_arena_array(g->arena, (size_t)n + 1, sizeof(*src));
    gr_build b = { .op = op[0],
                   .site = "shard",
                   .src = src,
                   .n_src = n,
                   .attr = &attr,
                   .attr_bytes = sizeof(attr) };

    attr.coll.label = gr_arena_strdup(g->arena, c->label);
    if (!attr.coll.label || !with_token)
        return GR_ERR_NOMEM;
    with_token[0] = gr_graph_add_value(g, &b);
    for (int i = 0; i < n; i++)
        with_token[1 + i] = src[i];
    b.op = op[1];
    b.src = with_token;
    b.n_src = n + 1;
    *out = gr_graph_add_value(g, &b);
    return gr_graph_status(g);
}

gr_status gr_reduce_scatter_nodes(gr_graph *g, gr_pg *pg, const gr_coll *c, gr_value **grads, int n,
                                  gr_value **share)
{
    static const gr_op *const op[2] = { &gr_op_reduce_scatter_start, &gr_op_reduce_scatter_finish };

    GR_BUG_IF(n < 1 || c->kind != GR_CALL_REDUCE_SCATTER);
    GR_TRY(both_halves(g, pg, c, op, grads, n, share));
    (*share)->offset = c->offset;
    if (!c->rows)
        (*share)->offset += (size_t)gr_pg_rank(pg) * gr_value_bytes(*share);
    return GR_OK;
}

gr_status gr_shard_keep_node(gr_graph *g, gr_value *share, size_t offset, gr_value **kept)
{
    gr_build b = { .op = &gr_op_shard_keep, .site = "shard", .src = &share, .n_src = 1 };

    *kept = gr_graph_add_value(g, &b);
    if (!*kept)
        return gr_graph_status(g);
    (*kept)->offset = offset;
    return GR_OK;
}

gr_status gr_shard_gather_nodes(gr_graph *g, gr_pg *pg, const gr_coll *c, const gr_shard_attr *a,
                                gr_value **params)
{
    static const gr_op *const op[2] = { &gr_op_allgather_start, &gr_op_allgather_finish };
    size_t n = (size_t)a->n_items;
    gr_value **src = (gr_value **)gr_arena_array(g->arena, n + 1, sizeof(*src)), *given;
    gr_build b = { .site = "shard", .attr = a, .attr_bytes = sizeof(*a) };
    gr_node *take;

    GR_BUG_IF(c->kind != GR_CALL_ALLGATHER || c->n_elem != (size_t)a->n_elem);
    if (!src)
        return GR_ERR_NOMEM;
    b.op = &gr_op_shard_give;
    b.src = params;
    b.n_src = a->n_items;
    given = gr_graph_add_value(g, &b);
    if (!given)
        return gr_graph_status(g);
    given->offset = c->offset + (size_t)a->first * sizeof(float);
    GR_TRY(both_halves(g, pg, c, op, &given, 1, &src[0]));
    src[0]->offset = c->offset;
    for (size_t i = 0; i < n; i++)
        src[1 + i] = params[i];
    b.op = &gr_op_shard_take;
    b.src = src;
    b.n_src = a->n_items + 1;
    b.n_out = a->n_items;
    take = gr_graph_add(g, &b);
    for (size_t i = 0; i < n && take; i++)
        params[i] = &take->out[i];
    return gr_graph_status(g);
}

gr_status gr_shard_meet_nodes(gr_graph *g, gr_pg *pg, const gr_coll *c, gr_value **values, int n)
{
    static const gr_op *const op[2] = { &gr_op_meet_start, &gr_op_meet_finish };
    gr_value *met;

    GR_BUG_IF(n < 1 || c->kind != GR_CALL_ALLGATHER);
    return both_halves(g, pg, c, op, values, n, &met);
}

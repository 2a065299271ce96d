/*
 * Joining updates: one node for many parameters instead of one for each.
 *
 *     sgd(w3, d3)  sgd(b3, e3)  sgd(w2, d2)  ..   ─►   many_updates(w3, d3, b3, e3)  ..
 *
 * Which ones go together:
 * (1) With a control value (clipping, a loss scale) nothing starts before all gradients
 *     are there: one node takes them all.
 * (2) Gradients that come back from other ranks: one node per exchange, so that it runs
 *     right behind the exchange's end, while later buckets are still on their way.
 * (3) Gradients that are rows of all ranks must be joined, be it a single one: many_updates alone
 *     knows how to sum them up. That is a pass of its own, which cannot be left out.
 * (4) Otherwise neighbours, up to so many bytes that a group's gradients are still in the
 *     cache when the hoist pass moves its update to right behind the last of them.
 *
 * Only neighbours of one operator are joined, in their order, so state is written in the
 * order of before. The bits do not change (op/update/many.h).
 */
#include "base/alloc.h"
#include "graph/op.h"
#include "op/collective/shard.h"
#include "op/collective/wire.h"
#include "op/update/many.h"
#include "pass/pass.h"

#define GROUP_BYTES ((size_t)1 << 19) /* of gradients: a quarter of a usual L2 cache */

/* Source 1 of every operator that gr_many_takes(): the gradient, or what ema averages. */
static const gr_value *grad_of(const gr_node *n)
{
    return n->src[1];
}

static const gr_node *exchange_of(const gr_node *n)
{
    const gr_node *from = grad_of(n)->node;

    if (from->op == &gr_op_allreduce_finish || from->op == &gr_op_reduce_scatter_finish ||
        from->op == &gr_op_wire_unpack || from->op == &gr_op_shard_keep)
        return from;
    return NULL;
}

/* The exchange that left the gradients as rows of all ranks; NULL: they are sums. */
static const gr_collective_attr *rows_of(const gr_node *n)
{
    const gr_node *from = exchange_of(n);
    const gr_collective_attr *a;

    if (!from || from->op != &gr_op_reduce_scatter_finish)
        return NULL;
    a = (const gr_collective_attr *)from->attr;
    return a->coll.rows ? a : NULL;
}

/* Whether `n` may join a group that starts with `first` and holds n_bytes of gradients. */
static bool belongs(const gr_graph *g, const gr_node *first, const gr_node *n, size_t n_bytes)
{
    if (n->op != first->op)
        return false;
    if (g->control)
        return true;
    if (exchange_of(n) != exchange_of(first))
        return false;
    return exchange_of(n) || n_bytes < GROUP_BYTES;
}

static void drop_nodes(gr_graph *g, gr_node *const *drop, int n_drop)
{
    int kept = 0, next = 0;

    for (int i = 0; i < g->n_nodes; i++) {
        if (next < n_drop && g->nodes[i] == drop[next])
            next++;
        else
            g->nodes[kept++] = g->nodes[i];
    }
    GR_BUG_IF(next != n_drop);
    g->n_nodes = kept;
}

/* Averages read a parameter after its update: they take it from the joined node now. */
static void redirect(gr_graph *g, const gr_node *from, gr_value *to)
{
    for (int i = 0; i < g->n_nodes; i++) {
        gr_node *n = g->nodes[i];

        for (int s = 0; s < n->n_src; s++)
            if (n->src[s]->node == from)
                gr_node_set_source(n, s, to + n->src[s]->index);
    }
}

static gr_status join_group(gr_graph *g, gr_node *const *group, int n)
{
    const gr_collective_attr *rows = n > 0 ? rows_of(group[0]) : NULL;
    gr_node *many = n < 2 && !rows ? NULL : gr_many_add(g, group, n, rows);
    int out = 0;

    if (!many)
        return gr_graph_status(g);
    for (int i = 0; i < n; out += group[i++]->n_out)
        redirect(g, group[i], many->out + out);
    return GR_OK;
}

/* Groups are stretches of `list`, which holds the updates in graph order. Those that were
 * joined are moved to its front; returns how many through *n_joined. */
static gr_status join_groups(gr_graph *g, gr_node **list, int n, int *n_joined)
{
    int first = 0;
    size_t n_bytes = 0;
    bool is_joined;

    *n_joined = 0;
    for (int i = 0; i <= n; i++) {
        if (i < n && (i == first || belongs(g, list[first], list[i], n_bytes))) {
            n_bytes += gr_value_bytes(grad_of(list[i]));
            continue;
        }
        is_joined = i - first > 1 || (first < n && rows_of(list[first]));
        GR_TRY(join_group(g, list + first, i - first));
        for (int k = first; k < i && is_joined; k++)
            list[(*n_joined)++] = list[k];
        first = i;
        n_bytes = i < n ? gr_value_bytes(grad_of(list[i])) : 0;
    }
    return GR_OK;
}

static gr_status join(gr_graph *g, bool only_rows)
{
    gr_node **list = gr_malloc(((size_t)g->n_nodes + 1) * sizeof(*list));
    int n = 0, n_joined = 0;
    gr_status st;

    if (!list)
        return GR_ERR_NOMEM;
    for (int i = 0; i < g->n_nodes; i++)
        if (gr_many_takes(g->nodes[i]->op) && (!only_rows || rows_of(g->nodes[i])))
            list[n++] = g->nodes[i];
    g->phase = GR_PHASE_UPDATE;
    st = join_groups(g, list, n, &n_joined);
    g->phase = GR_PHASE_FORWARD;
    if (st == GR_OK)
        drop_nodes(g, list, n_joined);
    gr_free(list);
    return st;
}

/* Of what leaves rows: one node takes all its pieces and sums them up, and nobody else reads it. */
static void check_reader(const gr_graph *g, const gr_node *finish)
{
    const gr_node *reader = NULL;

    for (int i = 0; i < g->n_nodes; i++)
        for (int s = 0; s < g->nodes[i]->n_src; s++)
            if (g->nodes[i]->src[s]->node == finish) {
                GR_BUG_IF(reader && reader != g->nodes[i]);
                reader = g->nodes[i];
            }
    GR_BUG_IF(!reader || reader->op != &gr_op_many_updates);
}

gr_status gr_pass_rows(gr_graph *g)
{
    GR_TRY(join(g, true));
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &gr_op_reduce_scatter_finish)
            check_reader(g, g->nodes[i]);
    return GR_OK;
}

gr_status gr_pass_join(gr_graph *g)
{
    return join(g, false);
}

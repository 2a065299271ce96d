/*
 * What ranks must tell each other about an update, as part of it:
 *
 *     loss ─► vote ─► allreduce_start … allreduce_finish ─► g->vote ─► (update: verdict)
 *               │
 *               └► code, a variable: the worst loss of the micro-steps so far
 *
 * The nodes come right behind the loss: so this exchange, of eight bytes, is started before any
 * bucket, and over long before them. In a micro-step that does not update only the code is kept.
 */
#include "base/alloc.h"

#include "op/vote/vote.h"
#include "pass/pass.h"

#define SITE "vote"

static gr_value *code_of(gr_graph *g)
{
    gr_var want = { .name = GR_VAR_CODE,
                    .kind = GR_VAR_HELD,
                    .dtype = GR_I32,
                    .shape = GR_SCALAR,
                    .init = gr_init_const(0) };
    gr_var *v;
    gr_status st = gr_vars_get(g->vars, &want, &v);

    gr_graph_stick(g, st);
    return st == GR_OK ? gr_graph_var(g, SITE, v) : NULL;
}

/* Lays the vote into the exchange space, and adds the exchange. */
static gr_status exchange(gr_graph *g, gr_meetings *m, gr_arena *arena, gr_pg *pg)
{
    bool used[GR_MAX_COLLS] = { false };
    gr_meeting want = { .key = g->loss->node->id,
                        .coll = { .label = "vote of the ranks",
                                  .n_elem = GR_VOTE_COUNT,
                                  .dtype = GR_I32,
                                  .op = GR_REDUCE_MAX } };
    const gr_coll *c = NULL;

    GR_TRY(gr_meetings_get(m, arena, &want, used, &c));
    g->vote->space = GR_SPACE_EXCHANGE;
    g->vote->offset = c->offset;
    return gr_allreduce_nodes(g, pg, c, &g->vote, 1, &g->vote);
}

/* Nodes from number `first` on, to right behind the loss. */
static gr_status move_up(gr_graph *g, int first)
{
    int n = g->n_nodes - first, at = 0;
    gr_node **moved = gr_malloc((size_t)n * sizeof(gr_node *));

    if (!moved)
        return GR_ERR_NOMEM;
    while (g->nodes[at++] != g->loss->node)
        ;
    for (int i = 0; i < n; i++)
        moved[i] = g->nodes[first + i];
    for (int i = first - 1; i >= at; i--)
        g->nodes[i + n] = g->nodes[i];
    for (int i = 0; i < n; i++)
        g->nodes[at + i] = moved[i];
    gr_free(moved);
    return GR_OK;
}

gr_status gr_pass_vote(gr_graph *g, gr_meetings *m, gr_arena *arena, gr_pg *pg, bool updates)
{
    gr_vote_attr a = { .rank = gr_pg_rank(pg), .n_ranks = gr_pg_size(pg) };
    int first = g->n_nodes;
    gr_value *src[2] = { code_of(g), g->loss };
    gr_build b = {
        .op = &gr_op_vote, .site = SITE, .src = src, .n_src = 2, .attr = &a, .attr_bytes = sizeof(a)
    };
    gr_node *n;

    g->phase = GR_PHASE_BACKWARD;
    n = gr_graph_add(g, &b);
    if (!n)
        return gr_graph_status(g);
    if (updates) {
        g->vote = &n->out[1];
        if (a.n_ranks > 1)
            GR_TRY(exchange(g, m, arena, pg));
    }
    g->phase = GR_PHASE_FORWARD;
    GR_TRY(gr_graph_status(g));
    return move_up(g, first);
}

/*
 * Synchronised batch norm: an exchange between each layer's own numbers and those of all
 * ranks, forward (statistics) and backward (two sums).
 *
 *     before   stats ─► sync_stats ─► ...
 *     after    stats ─► share_stats ─► start ─► finish ─► sync_stats ─► ...
 *
 * It happens in every micro-step: each is normalised by the batches that all ranks have in it,
 * as in PyTorch. A block that is computed anew reads the exchanged numbers again, which stay
 * in the exchange space until the next run: ranks meet once per layer and direction.
 */
#include "op/norm/sync.h"
#include "pass/pass.h"

#include <stdlib.h>

typedef struct sync_norm {
    gr_graph *g;
    gr_meetings *m;
    gr_arena *arena; /* of labels that outlive the graph */
    gr_pg *pg;
    bool used[GR_MAX_COLLS];
} sync_norm;

static gr_status meeting_of(sync_norm *s, const gr_node *n, const gr_value *share,
                            const gr_coll **out)
{
    const gr_sync_attr *a = n->attr;
    gr_meeting want = { .key = a->key, .backward = n->op == &gr_op_sync_sums };

    want.coll = (gr_coll){ .n_elem = (size_t)gr_shape_count(&share->shape),
                           .dtype = share->dtype,
                           .op = GR_REDUCE_SUM };
    want.coll.label =
        gr_arena_printf(s->g->arena, "batch norm %s%s", a->name, want.backward ? ", backward" : "");
    if (!want.coll.label)
        return GR_ERR_NOMEM;
    return gr_meetings_get(s->m, s->arena, &want, s->used, out);
}

static gr_status close_node(sync_norm *s, gr_node *n)
{
    const gr_coll *c = NULL;
    gr_value *share, *reduced = NULL;

    s->g->phase = n->phase;
    s->g->block = n->block;
    share = gr_sync_share(s->g, n, gr_pg_rank(s->pg), gr_pg_size(s->pg));
    if (!share)
        return gr_graph_status(s->g);
    GR_TRY(meeting_of(s, n, share, &c));
    share->space = GR_SPACE_EXCHANGE;
    share->offset = c->offset;
    GR_TRY(gr_allreduce_nodes(s->g, s->pg, c, &share, 1, &reduced));
    gr_sync_close(n, reduced);
    return GR_OK;
}

/* By their places in the trace, which do not depend on shapes; forward ones first. */
static int compare_nodes(const void *x, const void *y)
{
    const gr_node *a = *(gr_node *const *)x, *b = *(gr_node *const *)y;
    uint32_t p = ((const gr_sync_attr *)a->attr)->key, q = ((const gr_sync_attr *)b->attr)->key;

    if (a->op != b->op)
        return a->op == &gr_op_sync_stats ? -1 : 1;
    return p < q ? -1 : p > q;
}

gr_status gr_pass_sync_norm(gr_graph *g, gr_meetings *m, gr_arena *arena, gr_pg *pg)
{
    sync_norm s = { .g = g, .m = m, .arena = arena, .pg = pg };
    gr_node **open = gr_arena_array(g->arena, (size_t)g->n_nodes + 1, sizeof(gr_node *));
    gr_status st = open ? GR_OK : GR_ERR_NOMEM;
    int n = 0;

    for (int i = 0; i < g->n_nodes && st == GR_OK; i++)
        if (gr_sync_is_open(g->nodes[i]))
            open[n++] = g->nodes[i];
    if (n > 1)
        qsort(open, (size_t)n, sizeof(*open), compare_nodes);
    for (int i = 0; i < n && st == GR_OK; i++)
        st = close_node(&s, open[i]);
    g->phase = GR_PHASE_FORWARD;
    g->block = 0;
    return st;
}

/*
 * Exchange by shares: gradients are summed where they are used, and new parameters handed to
 * everybody (ZeRO).
 *
 *     bucket 0   reduce-scatter ─► own share ─► updates ─► all-gather ┄┄┄┄┄► others' parts
 *     bucket 1        reduce-scatter ─► own share ─► updates ─► all-gather ┄► others' parts
 *
 * An all-gather lies in the memory of its bucket's gradients, which are used up by then. It is
 * started right behind the updates of its bucket and finished at the end of the step, so that
 * it runs while later buckets are reduced and updated.
 *
 * Buckets that take turns in the same memory (shard.h) need orders that no value shows. They are
 * added last, when no pass replaces nodes any more:
 * (1) gradients of bucket k are made after the share of bucket k - 2 is kept;
 * (2) new parameters are laid into a bucket's place after the last share from there is kept,
 * (3) and after those of the bucket two before were taken out of it.
 *
 * Parameters that ranks have in common need no handing out, but care:
 *
 *     bucket 0   reduce-scatter ─► own share ─► updates ─┐
 *     bucket 1        reduce-scatter ─► own share ─► updates ─► all meet
 *
 * (With rows, shard.h, the finish gives all of the own gradients, and an update takes what it can
 * get.)
 *
 * (4) A rank starts the reduce-scatter of a bucket when it has read that bucket's parameters, and
 *     copies of them, for the last time. Sums are made when all ranks have started; so nobody
 *     reads what is updated from them.
 * (5) Nobody begins the next step before all have met.
 */
#include "pass/shard.h"

#include "base/alloc.h"
#include "op/collective/wire.h"

#include <string.h>

/* What is exchanged of a bucket: its gradients, or a row of 16 bits in their place. Returns the
 * number of values, 0: the graph has failed. */
static int on_the_wire(gr_graph *g, const gr_bucket *k, gr_value **grad)
{
    gr_wire_attr a = { .dtype = k->coll.dtype, .n_elem = (int64_t)k->coll.n_elem };
    gr_value *row;

    if (k->coll.dtype == GR_F32)
        return k->n;
    row = gr_wire_pack_add(g, &a, grad, k->n);
    if (!row)
        return 0;
    row->space = GR_SPACE_EXCHANGE;
    row->offset = k->coll.offset;
    grad[0] = row;
    return 1;
}

static gr_status scatter_bucket(gr_graph *g, const gr_shard *s, int number)
{
    const gr_buckets *b = s->buckets;
    const gr_bucket *k = &b->bucket[number];
    gr_value **grad = gr_malloc((size_t)k->n * sizeof(*grad)), *share = NULL;
    gr_status st;
    int n;

    if (!grad)
        return GR_ERR_NOMEM;
    for (int i = 0; i < k->n; i++)
        grad[i] = g->grads[b->var[k->first + i]->index];
    n = on_the_wire(g, k, grad);
    st = n > 0 ? gr_reduce_scatter_nodes(g, s->pg, &k->coll, grad, n, &share) : gr_graph_status(g);
    if (st == GR_OK && s->kept)
        st = gr_shard_keep_node(g, share, s->kept[number], &share);
    for (int i = 0; i < k->n && st == GR_OK; i++)
        g->grads[b->var[k->first + i]->index] = share;
    gr_free(grad);
    return st;
}

gr_status gr_pass_scatter(gr_graph *g, const gr_shard *s)
{
    GR_TRY(gr_pass_place(g, s->buckets));
    g->phase = GR_PHASE_SYNC;
    for (int i = 0; i < s->buckets->n_buckets; i++)
        GR_TRY(scatter_bucket(g, s, i));
    g->phase = GR_PHASE_FORWARD;
    return GR_OK;
}

/* ---- gathering ---- */

enum { GIVE, START, FINISH, TAKE, N_ADDED }; /* nodes of a bucket, in the order they are added */

/* New values of all parameters, by variable index. */
static gr_status find_updated(const gr_graph *g, gr_value ***out)
{
    gr_value **updated = gr_calloc((size_t)g->vars->n + 1, sizeof(*updated));

    if (!updated)
        return GR_ERR_NOMEM;
    for (int i = 0; i < g->n_nodes; i++)
        for (int o = 0; o < g->nodes[i]->n_out; o++) {
            gr_value *v = &g->nodes[i]->out[o];

            if (v->alias && v->var && v->var->kind == GR_VAR_PARAM)
                updated[v->var->index] = v;
        }
    *out = updated;
    return GR_OK;
}

static gr_status gather_bucket(gr_graph *g, const gr_shard *s, int i, gr_value *const *updated)
{
    const gr_bucket *k = &s->buckets->bucket[i];
    gr_value **params = gr_arena_array(g->arena, (size_t)k->n, sizeof(*params));

    if (!params)
        return GR_ERR_NOMEM;
    for (int j = 0; j < k->n; j++) {
        params[j] = updated[s->buckets->var[k->first + j]->index];
        GR_BUG_IF(!params[j]); /* every slot has an update */
    }
    return gr_shard_gather_nodes(g, s->pg, &s->gather[i], &s->of[i], params);
}

static bool is_ready(const gr_node *n, const bool *is_put)
{
    for (int s = 0; s < n->n_src; s++)
        if (!is_put[n->src[s]->node->id])
            return false;
    return true;
}

/* The added nodes stand behind the n_old others. Those that begin a gather move to right behind
 * what they wait for; the rest stays at the end. */
static gr_status order_added(gr_graph *g, int n_old, int n_buckets)
{
    size_t n = (size_t)g->n_nodes;
    gr_node **order = gr_malloc((n + 1) * sizeof(*order)), **added = g->nodes + n_old;
    bool *is_put = gr_calloc((size_t)g->next_id + 1, sizeof(*is_put));
    gr_status st = order && is_put ? GR_OK : GR_ERR_NOMEM;
    int next = 0, at = 0;

    for (int i = 0; i < n_old && st == GR_OK; i++) {
        order[at++] = g->nodes[i];
        is_put[g->nodes[i]->id] = true;
        for (; next < n_buckets && is_ready(added[next * N_ADDED + GIVE], is_put); next++) {
            order[at++] = added[next * N_ADDED + GIVE];
            order[at++] = added[next * N_ADDED + START];
        }
    }
    for (int i = 0; i < n_buckets && st == GR_OK; i++) {
        order[at++] = added[i * N_ADDED + FINISH];
        order[at++] = added[i * N_ADDED + TAKE];
    }
    if (st == GR_OK) {
        GR_BUG_IF(at != g->n_nodes);
        memcpy(g->nodes, order, n * sizeof(gr_node *));
    }
    gr_free(order);
    gr_free(is_put);
    return st;
}

/* ---- buckets that take turns ---- */

static gr_node *keeper(const gr_graph *g, const gr_shard *s, int bucket)
{
    return g->grads[s->update.first_var[bucket]]->node;
}

/* (1) */
static gr_status order_gradients(gr_graph *g, const gr_shard *s)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const gr_node *n = g->nodes[i];
        int k;

        if (n->op != &gr_op_reduce_scatter_start)
            continue;
        k = ((const gr_collective_attr *)n->attr)->coll.id;
        if (n->src[0]->node->op == &gr_op_wire_pack)
            n = n->src[0]->node;
        for (int j = 0; j < n->n_src && k >= 2; j++)
            GR_TRY(gr_node_after(g, n->src[j]->node, keeper(g, s, k - 2)));
    }
    return GR_OK;
}

/* (2), (3). The last share to be kept from a place is one of the last two buckets'. */
static gr_status order_gathers(gr_graph *g, const gr_shard *s, gr_node *const *added)
{
    int n = s->buckets->n_buckets;

    for (int i = 0; i < n; i++) {
        gr_node *give = added[i * N_ADDED + GIVE];
        int last = n - 1 - (n - 1 - i) % 2;

        GR_TRY(gr_node_after(g, give, keeper(g, s, last)));
        if (i >= 2)
            GR_TRY(gr_node_after(g, give, added[(i - 2) * N_ADDED + TAKE]));
    }
    return GR_OK;
}

gr_status gr_pass_gather(gr_graph *g, const gr_shard *s)
{
    int n_old = g->n_nodes;
    gr_value **updated = NULL;
    gr_status st = find_updated(g, &updated);

    g->phase = GR_PHASE_UPDATE;
    for (int i = 0; i < s->buckets->n_buckets && st == GR_OK; i++)
        st = gather_bucket(g, s, i, updated);
    g->phase = GR_PHASE_FORWARD;
    gr_free(updated);
    GR_TRY(st);
    if (s->buckets->is_reused) {
        GR_TRY(order_gathers(g, s, g->nodes + n_old));
        GR_TRY(order_gradients(g, s));
    }
    return order_added(g, n_old, s->buckets->n_buckets);
}

/* ---- parameters in common ---- */

/* Nodes that read parameters of one bucket, for the start of its exchange. */
typedef struct readers {
    gr_node *start;
    gr_node **list; /* NULL: only counted */
    int n;
    uint32_t last; /* 1 + id of the node noted last: it may read several of them */
} readers;

/* (4): every node but updates, with each bucket that it reads, in any form. */
static void note_readers(const gr_graph *g, const gr_shard *s, readers *of)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->nodes[i]->n_src && g->nodes[i]->phase != GR_PHASE_UPDATE; j++) {
            const gr_var *v = gr_value_root(g->nodes[i]->src[j])->var;
            const gr_var *param = v ? gr_var_param(v) : NULL;
            int k = param ? gr_shard_bucket(s, param) : -1;

            if (k < 0 || of[k].last == g->nodes[i]->id + 1)
                continue;
            if (of[k].list)
                of[k].list[of[k].n] = g->nodes[i];
            of[k].n++;
            of[k].last = g->nodes[i]->id + 1;
        }
}

/* Room for what was counted, behind what the start waits for already. */
static gr_status make_room(gr_graph *g, readers *r)
{
    r->list = gr_arena_array(g->arena, (size_t)(r->start->n_after + r->n) + 1, sizeof(gr_node *));
    if (!r->list)
        return GR_ERR_NOMEM;
    for (r->n = 0; r->n < r->start->n_after; r->n++)
        r->list[r->n] = r->start->after[r->n];
    r->last = 0;
    return GR_OK;
}

static gr_status start_after_readers(gr_graph *g, const gr_shard *s)
{
    int n = s->buckets->n_buckets;
    readers *of = gr_arena_array(g->arena, (size_t)n, sizeof(*of));

    if (!of)
        return GR_ERR_NOMEM;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &gr_op_reduce_scatter_start)
            of[((const gr_collective_attr *)g->nodes[i]->attr)->coll.id].start = g->nodes[i];
    note_readers(g, s, of);
    for (int k = 0; k < n; k++)
        GR_TRY(make_room(g, &of[k]));
    note_readers(g, s, of);
    for (int k = 0; k < n; k++) {
        of[k].start->after = of[k].list;
        of[k].start->n_after = of[k].n;
    }
    return GR_OK;
}

/* One new value of every node that updates something common, into `made`; returns how many. */
static int find_made(const gr_graph *g, gr_value **made)
{
    int n = 0;

    for (int i = 0; i < g->n_nodes; i++)
        for (int o = 0; o < g->nodes[i]->n_out; o++) {
            gr_value *v = &g->nodes[i]->out[o];

            if (!v->alias || !v->var || !v->var->common)
                continue;
            made[n++] = v;
            break;
        }
    return n;
}

gr_status gr_pass_meet(gr_graph *g, const gr_shard *s)
{
    gr_value **made = gr_arena_array(g->arena, (size_t)g->n_nodes, sizeof(*made));

    if (!made)
        return GR_ERR_NOMEM;
    GR_TRY(start_after_readers(g, s));
    g->phase = GR_PHASE_UPDATE;
    GR_TRY(gr_shard_meet_nodes(g, s->pg, &s->met, made, find_made(g, made)));
    g->phase = GR_PHASE_FORWARD;
    return GR_OK;
}

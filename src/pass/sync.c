/*
 * Gradients into their slots of the exchange space, summed over micro-steps and ranks.
 *
 * A gradient is computed where it will be exchanged: its value is placed in the slot, so
 * nothing is copied. Only a value that cannot be placed (a view, one that two parameters
 * share, one that a later node still reads) gets a copy.
 */
#include "base/alloc.h"
#include "gradus/ops.h"
#include "graph/op.h"
#include "op/collective/wire.h"
#include "op/map/program.h"
#include "op/update/update.h"
#include "pass/pass.h"

static bool is_read(const gr_graph *g, const gr_value *v)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int s = 0; s < g->nodes[i]->n_src; s++)
            if (gr_value_root(g->nodes[i]->src[s]) == v)
                return true;
    return false;
}

static bool can_place(const gr_graph *g, const gr_value *d)
{
    if (d->alias || d->space != GR_SPACE_ARENA || d->dtype != GR_F32 || is_read(g, d))
        return false;
    for (int i = 0; i < g->n_outputs; i++)
        if (gr_value_root(g->outputs[i].value) == d)
            return false;
    return true;
}

static gr_value *copy_of(gr_graph *g, gr_value *d)
{
    gr_program copy = { .shape = d->shape, .dtype = GR_F32, .n_src = 1 };

    g->phase = GR_PHASE_BACKWARD;
    return gr_map_add(g, d->node->site, &d, &copy);
}

static bool is_shared(const gr_graph *g, const gr_value *d)
{
    int n = 0;

    for (int i = 0; i < g->n_grads; i++)
        n += g->grads[i] == d;
    return n > 1;
}

/* A slot is read by its exchange only, which changes it from its start on: it is no place for what
 * another parameter's slot will be a copy of, since nothing would hold that copy before the start.
 * One whose memory another bucket uses before is written late: it is no place either for one of
 * several results of a node, whose others would wait. */
static bool must_copy(const gr_graph *g, const gr_buckets *b, const gr_value *d)
{
    return is_shared(g, d) || (b->is_reused && d->node->n_out > 1);
}

static gr_status place(gr_graph *g, const gr_buckets *b, int slot)
{
    gr_value **grad = &g->grads[b->var[slot]->index];

    if (!can_place(g, *grad) || must_copy(g, b, *grad))
        *grad = copy_of(g, *grad);
    GR_TRY(gr_graph_status(g));
    (*grad)->is_grad = true;
    (*grad)->space = GR_SPACE_EXCHANGE;
    (*grad)->offset = b->offset[slot];
    return GR_OK;
}

gr_status gr_pass_fill_slots(gr_graph *g, const gr_buckets *b)
{
    g->phase = GR_PHASE_BACKWARD;
    for (int s = 0; s < b->n_slots; s++) {
        gr_value **grad = &g->grads[b->var[s]->index];

        if (!*grad)
            *grad = gr_fill_at(b->var[s]->name, g, GR_F32, b->var[s]->shape, 0);
    }
    g->phase = GR_PHASE_FORWARD;
    return gr_graph_status(g);
}

gr_status gr_pass_accumulate(gr_graph *g, const gr_buckets *b)
{
    for (int s = 0; s < b->n_slots; s++) {
        gr_value **grad = &g->grads[b->var[s]->index];
        gr_build add = { .op = g->loss_count ? &gr_op_accumulate_scaled : &gr_op_accumulate,
                         .site = (*grad)->node->site,
                         .src = (gr_value *[]){ *grad, g->loss_count },
                         .n_src = g->loss_count ? 2 : 1 };
        gr_value *sum;

        g->phase = GR_PHASE_BACKWARD;
        sum = gr_graph_add_value(g, &add);
        GR_TRY(gr_graph_status(g));
        *grad = sum;
        sum->is_grad = true;
        sum->space = GR_SPACE_EXCHANGE;
        sum->offset = b->offset[s];
    }
    g->phase = GR_PHASE_FORWARD;
    return GR_OK;
}

/* As 16 bits: rounded into a row that is exchanged in their place, and back. */
static gr_status sync_low(gr_graph *g, const gr_bucket *k, gr_pg *pg, gr_value **grad)
{
    gr_wire_attr a = { .dtype = k->coll.dtype, .n_elem = (int64_t)k->coll.n_elem };
    gr_value *row = gr_wire_pack_add(g, &a, grad, k->n), *reduced = NULL;

    if (!row)
        return gr_graph_status(g);
    row->space = GR_SPACE_EXCHANGE;
    row->offset = k->coll.offset;
    GR_TRY(gr_allreduce_nodes(g, pg, &k->coll, &row, 1, &reduced));
    return gr_wire_unpack_add(g, &a, reduced, grad, k->n);
}

static gr_status sync_bucket(gr_graph *g, const gr_buckets *b, const gr_bucket *k, gr_pg *pg)
{
    size_t n = (size_t)k->n;
    gr_value **grad = gr_malloc(n * sizeof(*grad));
    gr_status st;

    if (!grad)
        return GR_ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        grad[i] = g->grads[b->var[(size_t)k->first + i]->index];
    g->phase = GR_PHASE_SYNC;
    if (k->coll.dtype == GR_F32)
        st = gr_allreduce_nodes(g, pg, &k->coll, grad, k->n, grad);
    else
        st = sync_low(g, k, pg, grad);
    for (size_t i = 0; i < n && st == GR_OK; i++)
        g->grads[b->var[(size_t)k->first + i]->index] = grad[i];
    gr_free(grad);
    return st;
}

gr_status gr_pass_place(gr_graph *g, const gr_buckets *b)
{
    for (int s = 0; s < b->n_slots; s++) {
        const gr_value *grad = g->grads[b->var[s]->index];

        /* One that lies in another parameter's slot is shared with it: copied, too. */
        if (grad->space != GR_SPACE_EXCHANGE || grad->offset != b->offset[s])
            GR_TRY(place(g, b, s));
    }
    return GR_OK;
}

gr_status gr_pass_sync(gr_graph *g, const gr_buckets *b, gr_pg *pg)
{
    GR_TRY(gr_pass_place(g, b));
    for (int i = 0; i < b->n_buckets; i++)
        GR_TRY(sync_bucket(g, b, &b->bucket[i], pg));
    g->phase = GR_PHASE_FORWARD;
    return GR_OK;
}

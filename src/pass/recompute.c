/*
 * Recompute: the values of a block that the backward pass reads are computed anew there,
 * from the block's inputs, instead of being kept since the forward pass.
 *
 *     forward    x ─► a ─► b ─► y          backward reads a and b
 *     after      x ─► a ─► b ─► y          x ─► a' ─► b'      backward reads a' and b'
 *
 * (1) A block is what the trace put between gr_block_begin() and gr_block_end(). Casts that
 *     amp added belong to the block that alone reads them.
 * (2) A value that leaves its block in the forward pass, or is an output, is kept: it is the
 *     next block's input. What a collective gave is kept, too: ranks must not meet twice.
 * (3) Clones have the attributes of their originals, random streams among them, and read the
 *     same values: the same bits. The pass comes after fusing, so that what is joined, and
 *     with it what is rounded, does not depend on it.
 * (4) Clones are appended; sorting pulls each to right before its first reader.
 *
 * Which blocks: by cost per byte saved, cheapest first. A block that would keep as much for
 * its clones (inputs that nothing else keeps) as it saves is left alone.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "graph/op.h"
#include "pass/pass.h"

typedef struct block_plan {
    int block;
    size_t saved, added; /* bytes */
    double cost;         /* about multiply-adds */
} block_plan;

typedef struct recompute {
    gr_graph *g;
    int n_nodes, n_values; /* before the first clone */
    int *place;            /* by node id, as g->nodes stands before */
    int *block;            /* by place: of forward nodes; 0: none */
    bool *leaves;          /* by value id: rule (2) */
    bool *is_read_back;    /* by value id of the root: a backward node reads it */
    bool *needed;          /* by place: the block at hand clones it */
    bool *counted;         /* by value id of the root, for the block at hand */
    gr_value **clone;      /* by value id */
    block_plan *plans;
    int n_plans;
} recompute;

static void recompute_fini(recompute *r)
{
    gr_free(r->place);
    gr_free(r->block);
    gr_free(r->leaves);
    gr_free(r->is_read_back);
    gr_free(r->needed);
    gr_free(r->counted);
    gr_free(r->clone);
    gr_free(r->plans);
}

static bool is_forward(const gr_node *n)
{
    return n->phase == GR_PHASE_FORWARD && n->op != &gr_op_input && n->op != &gr_op_variable;
}

static int block_of(const recompute *r, const gr_value *v)
{
    return r->block[r->place[v->node->id]];
}

static gr_status recompute_init(recompute *r, gr_graph *g)
{
    size_t n_nodes = (size_t)g->n_nodes + 1, n_values = (size_t)g->n_values + 1;

    r->g = g;
    r->n_nodes = g->n_nodes;
    r->n_values = g->n_values;
    r->place = gr_calloc((size_t)g->next_id + 1, sizeof(*r->place));
    r->block = gr_calloc(n_nodes, sizeof(*r->block));
    r->leaves = gr_calloc(n_values, sizeof(*r->leaves));
    r->is_read_back = gr_calloc(n_values, sizeof(*r->is_read_back));
    r->needed = gr_calloc(n_nodes, sizeof(*r->needed));
    r->counted = gr_calloc(n_values, sizeof(*r->counted));
    r->clone = gr_calloc(n_values, sizeof(*r->clone));
    r->plans = gr_calloc((size_t)g->n_blocks + 1, sizeof(*r->plans));
    if (!r->place || !r->block || !r->leaves || !r->is_read_back || !r->needed || !r->counted ||
        !r->clone || !r->plans)
        return GR_ERR_NOMEM;
    return GR_OK;
}

/* ---- what belongs where ---- */

/* The block of all forward readers of n's results; 0: none, or several. */
static int block_of_readers(const recompute *r, const gr_node *n)
{
    int block = 0;

    for (int i = 0; i < r->n_nodes; i++) {
        const gr_node *reader = r->g->nodes[i];

        for (int s = 0; is_forward(reader) && s < reader->n_src; s++) {
            if (reader->src[s]->node != n)
                continue;
            if (reader->block == 0 || (block > 0 && reader->block != block))
                return 0;
            block = reader->block;
        }
    }
    return block;
}

static void find_blocks(recompute *r)
{
    for (int i = 0; i < r->n_nodes; i++) {
        const gr_node *n = r->g->nodes[i];

        r->place[n->id] = i;
        if (is_forward(n))
            r->block[i] = n->block > 0 ? n->block : n->n_src == 1 ? block_of_readers(r, n) : 0;
    }
}

static void leave(recompute *r, const gr_value *v)
{
    for (; v; v = v->alias)
        r->leaves[v->id] = true;
}

static void find_uses(recompute *r)
{
    for (int i = 0; i < r->n_nodes; i++) {
        const gr_node *n = r->g->nodes[i];

        for (int o = 0; o < n->n_out && n->op->has_effect; o++)
            leave(r, &n->out[o]);
        for (int s = 0; s < n->n_src; s++) {
            if (is_forward(n) && r->block[i] != block_of(r, n->src[s]))
                leave(r, n->src[s]);
            if (n->phase == GR_PHASE_BACKWARD)
                r->is_read_back[gr_value_root(n->src[s])->id] = true;
        }
    }
    for (int i = 0; i < r->g->n_outputs; i++)
        leave(r, r->g->outputs[i].value);
}

/* ---- what a block would save ---- */

static bool can_clone(const recompute *r, const gr_value *v, int block)
{
    return block_of(r, v) == block && !r->leaves[v->id];
}

/* Multiply-adds, roughly: what each element of the result takes of a weight that is the
 * second source (matmul, convolution), else one per element read and written. */
static double cost_of(const gr_node *n)
{
    double out = n->n_out > 0 ? (double)gr_shape_count(&n->out[0].shape) : 0, cost = out;
    const gr_shape *y = n->n_out > 0 ? &n->out[0].shape : NULL;

    for (int s = 0; s < n->n_src; s++)
        cost += (double)gr_shape_count(&n->src[s]->shape);
    if (n->n_src >= 2 && n->src[1]->shape.n_dims >= 2 && y && y->n_dims > 0 &&
        y->dim[y->n_dims - 1] > 0)
        cost += out * (double)gr_shape_count(&n->src[1]->shape) / (double)y->dim[y->n_dims - 1];
    return cost;
}

static void count_once(recompute *r, const gr_value *v, size_t *n_bytes)
{
    const gr_value *root = gr_value_root(v);

    if (r->counted[root->id] || root->space != GR_SPACE_ARENA)
        return;
    r->counted[root->id] = true;
    *n_bytes += gr_value_bytes(root);
}

/* Marks the nodes to clone for `block`, last first: readers before what they read. */
static void mark_needed(recompute *r, int block)
{
    for (int i = 0; i < r->n_nodes; i++)
        r->needed[i] = false;
    for (int i = r->n_nodes - 1; i >= 0; i--) {
        const gr_node *n = r->g->nodes[i];

        if (n->phase != GR_PHASE_BACKWARD && !r->needed[i])
            continue;
        for (int s = 0; s < n->n_src; s++)
            if (can_clone(r, n->src[s], block))
                r->needed[r->place[n->src[s]->node->id]] = true;
    }
}

static void weigh_block(recompute *r, int block)
{
    block_plan *p = &r->plans[r->n_plans];

    *p = (block_plan){ .block = block };
    mark_needed(r, block);
    for (int i = 0; i < r->n_values; i++)
        r->counted[i] = false;
    for (int i = 0; i < r->n_nodes; i++) {
        const gr_node *n = r->g->nodes[i];

        for (int o = 0; o < n->n_out && r->needed[i]; o++)
            if (r->is_read_back[gr_value_root(&n->out[o])->id] &&
                !r->leaves[gr_value_root(&n->out[o])->id])
                count_once(r, &n->out[o], &p->saved);
        for (int s = 0; s < n->n_src && r->needed[i]; s++)
            if (!can_clone(r, n->src[s], block) && !r->is_read_back[gr_value_root(n->src[s])->id])
                count_once(r, n->src[s], &p->added);
        p->cost += r->needed[i] ? cost_of(n) : 0;
    }
    r->n_plans += p->saved > p->added;
}

static int compare_plans(const void *a, const void *b)
{
    const block_plan *x = a, *y = b;
    double cx = x->cost / (double)(x->saved - x->added);
    double cy = y->cost / (double)(y->saved - y->added);

    if (cx != cy)
        return cx < cy ? -1 : 1;
    return x->block < y->block ? -1 : 1;
}

/* ---- cloning ---- */

static gr_status clone_node(recompute *r, const gr_node *n)
{
    gr_value **src = gr_arena_array(r->g->arena, (size_t)n->n_src + 1, sizeof(*src));
    gr_node *made;

    if (!src)
        return GR_ERR_NOMEM;
    for (int s = 0; s < n->n_src; s++)
        src[s] = r->clone[n->src[s]->id] ? r->clone[n->src[s]->id] : n->src[s];
    made = gr_graph_clone(r->g, n, src);
    if (!made)
        return gr_graph_status(r->g);
    for (int o = 0; o < n->n_out; o++)
        if (!r->leaves[n->out[o].id])
            r->clone[n->out[o].id] = &made->out[o];
    return GR_OK;
}

static gr_status clone_block(recompute *r, const block_plan *p)
{
    mark_needed(r, p->block);
    for (int i = 0; i < r->n_nodes; i++)
        if (r->needed[i])
            GR_TRY(clone_node(r, r->g->nodes[i]));
    r->g->n_recomputed++;
    r->g->recomputed_bytes += p->saved;
    return GR_OK;
}

static void redirect_readers(recompute *r)
{
    for (int i = 0; i < r->n_nodes; i++) {
        gr_node *n = r->g->nodes[i];

        for (int s = 0; n->phase == GR_PHASE_BACKWARD && s < n->n_src; s++)
            if (r->clone[n->src[s]->id])
                gr_node_set_source(n, s, r->clone[n->src[s]->id]);
    }
}

gr_status gr_pass_recompute(gr_graph *g, int n_blocks)
{
    recompute r = { 0 };
    gr_status st = recompute_init(&r, g);

    if (st == GR_OK) {
        find_blocks(&r);
        find_uses(&r);
        for (int b = 1; b <= g->n_blocks; b++)
            weigh_block(&r, b);
        qsort(r.plans, (size_t)r.n_plans, sizeof(*r.plans), compare_plans);
    }
    g->phase = GR_PHASE_BACKWARD;
    for (int i = 0; i < r.n_plans && (n_blocks < 0 || i < n_blocks) && st == GR_OK; i++)
        st = clone_block(&r, &r.plans[i]);
    g->phase = GR_PHASE_FORWARD;
    if (st == GR_OK)
        redirect_readers(&r);
    recompute_fini(&r);
    GR_TRY(st);
    GR_TRY(gr_graph_sort(g)); /* pruning wants readers behind what they read */
    return gr_graph_prune(g);
}

/* Order and need: sorting nodes by their edges, moving them, dropping those nothing needs. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "graph/op.h"

/* Per node of a graph, found by its place in g->nodes. */
typedef struct marks {
    gr_graph *g;
    unsigned char *mark; /* by node place */
    gr_node **sorted;
    int n_sorted;
} marks;

enum { NEW = 0, OPEN = 1, DONE = 2 };

/* Nodes carry no place of their own: ids are sparse after passes, so a table maps them. */
static gr_status place_table(const gr_graph *g, int **out)
{
    int *place = gr_malloc(((size_t)g->next_id + 1) * sizeof(*place));

    if (!place)
        return GR_ERR_NOMEM;
    for (uint32_t i = 0; i <= g->next_id; i++)
        place[i] = -1;
    for (int i = 0; i < g->n_nodes; i++)
        place[g->nodes[i]->id] = i;
    *out = place;
    return GR_OK;
}

/* What must run before `n`: sources first, then ordering edges. NULL past the end. */
static gr_node *edge(const gr_node *n, int i)
{
    if (i < n->n_src)
        return n->src[i]->node;
    return i - n->n_src < n->n_after ? n->after[i - n->n_src] : NULL;
}

typedef struct frame {
    gr_node *node;
    int next_edge;
} frame;

/* Depth first with a stack of our own: graphs are deeper than C stacks like. */
static gr_status visit(marks *m, const int *place, frame *stack, gr_node *from)
{
    int depth = 0;

    if (m->mark[place[from->id]] == DONE)
        return GR_OK;
    stack[depth++] = (frame){ from, 0 };
    m->mark[place[from->id]] = OPEN;
    while (depth > 0) {
        frame *f = &stack[depth - 1];
        gr_node *need = edge(f->node, f->next_edge++);

        if (!need) {
            m->mark[place[f->node->id]] = DONE;
            m->sorted[m->n_sorted++] = f->node;
            depth--;
            continue;
        }
        if (place[need->id] < 0)
            return gr_fail(GR_ERR_ARG, "node %u (%s) needs node %u (%s), which is not there",
                           f->node->id, f->node->op->name, need->id, need->op->name);
        if (m->mark[place[need->id]] == OPEN)
            return gr_fail(GR_ERR_ARG, "nodes %u (%s) and %u (%s) wait for each other", f->node->id,
                           f->node->op->name, need->id, need->op->name);
        if (m->mark[place[need->id]] == NEW) {
            m->mark[place[need->id]] = OPEN;
            stack[depth++] = (frame){ need, 0 };
        }
    }
    return GR_OK;
}

/* Whether output `o` of `n` is the new value of a variable; *old is the old one. */
static bool writes_var(const gr_node *n, int o, const gr_value **old)
{
    *old = n->out[o].alias;
    return *old && (*old)->var && (*old)->node->op == &gr_op_variable &&
           n->out[o].var == (*old)->var;
}

static bool reads(const gr_node *n, const gr_value *v)
{
    for (int s = 0; s < n->n_src; s++)
        if (gr_value_views(n->src[s], v))
            return true;
    return false;
}

static gr_status order_writer(gr_graph *g, gr_node *writer)
{
    const gr_value *old;

    for (int o = 0; o < writer->n_out; o++) {
        if (!writes_var(writer, o, &old))
            continue;
        for (int i = 0; i < g->n_nodes; i++)
            if (g->nodes[i] != writer && reads(g->nodes[i], old))
                GR_TRY(gr_node_after(g, writer, g->nodes[i]));
    }
    return GR_OK;
}

/* Readers of a variable's old value before its writer: rule (4) as ordering edges. */
static gr_status order_writers(gr_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        GR_TRY(order_writer(g, g->nodes[i]));
    return GR_OK;
}

gr_status gr_graph_sort(gr_graph *g)
{
    size_t n = (size_t)g->n_nodes;
    marks m = { .g = g };
    frame *stack = NULL;
    int *place = NULL;
    gr_status st;

    GR_TRY(order_writers(g));
    GR_TRY(place_table(g, &place));
    m.mark = gr_calloc(n + 1, 1);
    m.sorted = gr_malloc((n + 1) * sizeof(*m.sorted));
    stack = gr_malloc((n + 1) * sizeof(*stack));
    st = m.mark && m.sorted && stack ? GR_OK : GR_ERR_NOMEM;
    for (size_t i = 0; i < n && st == GR_OK; i++)
        st = visit(&m, place, stack, g->nodes[i]);
    if (st == GR_OK)
        memcpy(g->nodes, m.sorted, n * sizeof(*m.sorted));
    gr_free(stack);
    gr_free(m.sorted);
    gr_free(m.mark);
    gr_free(place);
    return st;
}

static bool writes_state(const gr_node *n)
{
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o].alias && n->out[o].var)
            return true;
    return false;
}

static bool is_output(const gr_graph *g, const gr_node *n)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].value->node == n)
            return true;
    for (int i = 0; i < g->n_grads; i++)
        if (g->grads[i] && g->grads[i]->node == n)
            return true;
    return (g->loss && g->loss->node == n) || (g->control && g->control->node == n);
}

/* Ordering edges say when, not whether: they make nothing needed, and an edge to a
 * dropped node goes with it. */
static void keep_needed(gr_graph *g, const unsigned char *needed, const int *place)
{
    int kept = 0;

    for (int i = 0; i < g->n_nodes; i++) {
        gr_node *n = g->nodes[i];
        int n_after = 0;

        if (!needed[i])
            continue;
        for (int k = 0; k < n->n_after; k++)
            if (needed[place[n->after[k]->id]])
                n->after[n_after++] = n->after[k];
        n->n_after = n_after;
        g->nodes[kept++] = n;
    }
    g->n_nodes = kept;
}

gr_status gr_graph_prune(gr_graph *g)
{
    int *place = NULL;
    unsigned char *needed;

    GR_TRY(place_table(g, &place));
    needed = gr_calloc((size_t)g->n_nodes + 1, 1);
    if (!needed) {
        gr_free(place);
        return GR_ERR_NOMEM;
    }
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const gr_node *n = g->nodes[i];

        if (n->op->has_effect || n->op == &gr_op_input || writes_state(n) || is_output(g, n))
            needed[i] = 1;
        for (int s = 0; needed[i] && s < n->n_src; s++)
            needed[place[n->src[s]->node->id]] = 1;
    }
    keep_needed(g, needed, place);
    gr_free(needed);
    gr_free(place);
    return GR_OK;
}

/* ---- hoisting ---- */

typedef struct ranked {
    gr_node *node;
    int key;   /* where it wants to stand; moved nodes right behind what they wait for */
    int place; /* where it stood: keeps the order of equals */
} ranked;

static int compare_ranked(const void *a, const void *b)
{
    const ranked *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

/* A node that stays has an even key, its place; a moved one the odd key behind the last
 * of its needs. Needs come first in the order, so their keys are known. Variables run
 * nothing and go to the front; nothing else goes further up than `floor`. */
static void rank_node(ranked *r, const int *place, int i, gr_phase phase, int floor)
{
    gr_node *n = r[i].node;
    int last = floor;

    r[i].place = i;
    r[i].key = 2 * i;
    if (n->phase != phase)
        return;
    if (n->op == &gr_op_variable) {
        r[i].key = -1;
        return;
    }
    for (int e = 0; edge(n, e); e++) {
        int key = r[place[edge(n, e)->id]].key;

        last = key > last ? key : last;
    }
    r[i].key = last | 1;
}

/* State is not changed before the forward pass is through: bad data shows there, and a
 * run that it stops must have changed nothing. */
static int last_forward(const gr_graph *g)
{
    int i = g->n_nodes - 1;

    while (i >= 0 && g->nodes[i]->phase != GR_PHASE_FORWARD)
        i--;
    return i < 0 ? 0 : i;
}

gr_status gr_graph_hoist(gr_graph *g, gr_phase phase)
{
    ranked *r = gr_malloc(((size_t)g->n_nodes + 1) * sizeof(*r));
    int *place = NULL, floor = 2 * last_forward(g);
    gr_status st = r ? place_table(g, &place) : GR_ERR_NOMEM;

    for (int i = 0; i < g->n_nodes && st == GR_OK; i++) {
        r[i].node = g->nodes[i];
        rank_node(r, place, i, phase, floor);
    }
    if (st == GR_OK) {
        qsort(r, (size_t)g->n_nodes, sizeof(*r), compare_ranked);
        for (int i = 0; i < g->n_nodes; i++)
            g->nodes[i] = r[i].node;
    }
    gr_free(place);
    gr_free(r);
    return st;
}

/* The verifier: rules 1 to 4 of graph.h, checked between passes. */
#include <string.h>

#include "base/alloc.h"
#include "graph/fusion.h"
#include "graph/graph.h"
#include "graph/op.h"

typedef struct check {
    const gr_graph *g;
    const char *pass;
    int *place; /* node id -> place in the order, or -1 */
} check;

static gr_status bad(const check *c, const gr_node *n, const char *what)
{
    return gr_fail(GR_ERR_ARG, "after %s: node %u (%s, %s) %s", c->pass, n->id, n->op->name,
                   n->site ? n->site : "?", what);
}

static gr_status check_edges(const check *c, const gr_node *n)
{
    int here = c->place[n->id];

    for (int i = 0; i < n->n_src; i++) {
        const gr_node *from = n->src[i]->node;

        if (from->id >= c->g->next_id || c->place[from->id] < 0)
            return bad(c, n, "reads a value whose producer is not in the graph");
        if (c->place[from->id] >= here)
            return bad(c, n, "reads a value before it is there");
    }
    for (int i = 0; i < n->n_after; i++)
        if (c->place[n->after[i]->id] >= here)
            return bad(c, n, "stands before a node that it must follow");
    return GR_OK;
}

/* Whether the operator's own rule gives again what stands in the outputs. Runs on a
 * copy: passes have placed the real ones since. */
static gr_status infer_again(const check *c, const gr_node *n, gr_value *out)
{
    gr_node copy = *n;
    gr_status st;

    memcpy(out, n->out, (size_t)n->n_out * sizeof(*out));
    copy.out = out;
    st = gr_node_infer(&copy);
    if (st != GR_OK && st != GR_ERR_NOMEM)
        return gr_wrap(st, "after %s: node %u (%s)", c->pass, n->id, n->op->name);
    GR_TRY(st);
    for (int i = 0; i < n->n_out; i++)
        if (!gr_shape_equal(&out[i].shape, &n->out[i].shape) || out[i].dtype != n->out[i].dtype)
            return bad(c, n, "has a result of another shape or type than its rule gives");
        else if (out[i].alias != n->out[i].alias)
            return bad(c, n, "has a result that lies elsewhere than its rule says");
    return GR_OK;
}

static gr_status check_outputs(const check *c, const gr_node *n)
{
    gr_value *out = gr_malloc(((size_t)n->n_out + 1) * sizeof(*out));
    gr_status st;

    if (!out)
        return GR_ERR_NOMEM;
    st = infer_again(c, n, out);
    gr_free(out);
    GR_TRY(st);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i].alias && gr_value_bytes(&n->out[i]) > gr_value_bytes(n->out[i].alias))
            return bad(c, n, "is a view larger than what it views");
    return GR_OK;
}

static bool writes(const gr_node *n, const gr_value *variable)
{
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o].alias == variable && n->out[o].var == variable->var)
            return true;
    return false;
}

/* Rule (4): one writer, and every other reader of the old value before it. */
static gr_status check_variable(const check *c, const gr_value *variable)
{
    const gr_node *writer = NULL;

    for (int i = 0; i < c->g->n_nodes; i++) {
        const gr_node *n = c->g->nodes[i];

        if (writes(n, variable)) {
            if (writer)
                return bad(c, n, "writes a variable that was written before");
            writer = n;
            continue;
        }
        for (int s = 0; writer && s < n->n_src; s++)
            if (gr_value_views(n->src[s], variable))
                return bad(c, n, "reads the old value of a variable that was written before");
    }
    return GR_OK;
}

static gr_status check_all(const check *c)
{
    for (int i = 0; i < c->g->n_nodes; i++) {
        const gr_node *n = c->g->nodes[i];

        GR_TRY(check_edges(c, n));
        GR_TRY(check_outputs(c, n));
        if (n->op == &gr_op_variable)
            GR_TRY(check_variable(c, &n->out[0]));
    }
    return GR_OK;
}

gr_status gr_graph_verify(const gr_graph *g, const char *after_pass)
{
    check c = { .g = g, .pass = after_pass };
    gr_status st = GR_OK;

    GR_TRY(gr_graph_status(g));
    c.place = gr_malloc(((size_t)g->next_id + 1) * sizeof(int));
    if (!c.place)
        return GR_ERR_NOMEM;
    for (uint32_t i = 0; i <= g->next_id; i++)
        c.place[i] = -1;
    for (int i = 0; i < g->n_nodes && st == GR_OK; i++) {
        if (c.place[g->nodes[i]->id] >= 0)
            st = bad(&c, g->nodes[i], "stands in the graph twice");
        c.place[g->nodes[i]->id] = i;
    }
    if (st == GR_OK)
        st = check_all(&c);
    gr_free(c.place);
    return st;
}

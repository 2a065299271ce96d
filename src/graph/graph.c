/*
 * Building: nodes are added at the end, in an order that can run, and checked as they
 * come. The first failure sticks to the graph, so that a trace reads as plain code.
 */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/fusion.h"
#include "graph/op.h"

gr_status gr_graph_create(gr_graph **out, gr_vars *vars, bool training, const gr_named *feeds,
                          int n_feeds)
{
    gr_graph *g = gr_calloc(1, sizeof(*g));
    gr_status st;

    if (!g)
        return GR_ERR_NOMEM;
    g->vars = vars;
    g->training = training;
    g->feeds = feeds;
    g->n_feeds = n_feeds;
    GR_TRY_GOTO(st, gr_arena_create(&g->arena), fail);
    *out = g;
    return GR_OK;

fail:
    gr_graph_destroy(g);
    return st;
}

void gr_graph_destroy(gr_graph *g)
{
    if (!g)
        return;
    gr_free(g->nodes);
    gr_free(g->values);
    gr_free(g->outputs);
    gr_free(g->blocks);
    gr_arena_destroy(g->arena);
    gr_free(g);
}

/* Keeps the thread's message with the graph; a message that cannot be copied is lost,
 * the status is not. */
void gr_graph_stick(gr_graph *g, gr_status st)
{
    if (g->status != GR_OK || st == GR_OK)
        return;
    g->status = st;
    g->message = gr_arena_strdup(g->arena, gr_error_message());
}

gr_status gr_graph_status(const gr_graph *g)
{
    if (g->status == GR_OK)
        return GR_OK;
    return gr_fail(g->status, "%s", g->message ? g->message : "out of memory");
}

void gr_graph_fail(gr_graph *g, const char *site, const char *fmt, ...)
{
    char text[GR_ERROR_TEXT];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    gr_graph_stick(g, gr_fail(GR_ERR_ARG, "%s: %s", site, text));
}

bool gr_graph_given(gr_graph *g, const char *site, const char *what, const gr_value *v)
{
    if (!v && g->status == GR_OK)
        gr_graph_fail(g, site, "%s: its input is NULL", what);
    return v && g->status == GR_OK;
}

static gr_status add_value(gr_graph *g, gr_node *n, int index)
{
    gr_value *v = &n->out[index];

    v->node = n;
    v->index = index;
    v->id = g->n_values;
    v->space = GR_SPACE_ARENA;
    GR_TRY(gr_grow((void **)&g->values, &g->cap_values, g->n_values + 1, sizeof(*g->values)));
    g->values[g->n_values++] = v;
    return GR_OK;
}

static int count_outputs(const gr_build *b)
{
    if (b->fusion)
        return b->fusion->n_ends + b->fusion->n_own_out - 1;
    if (b->op->n_out != GR_ANY_COUNT)
        return b->op->n_out;
    return b->n_out > 0 ? b->n_out : b->n_src - 1;
}

static gr_status make_node(gr_graph *g, const gr_build *b, gr_node **out)
{
    gr_node *n = gr_arena_new(g->arena, gr_node);
    void *attr;

    if (!n)
        return GR_ERR_NOMEM;
    n->op = b->op;
    n->phase = g->phase;
    n->fusion = b->fusion;
    n->site = b->site;
    n->block = g->block;
    n->n_src = b->n_src;
    n->n_out = count_outputs(b);
    n->src = gr_arena_array(g->arena, (size_t)n->n_src + 1, sizeof(gr_value *));
    n->out = gr_arena_array(g->arena, (size_t)n->n_out + 1, sizeof(gr_value));
    attr = gr_arena_alloc(g->arena, b->attr_bytes + 1);
    if (!n->src || !n->out || !attr)
        return GR_ERR_NOMEM;
    for (int i = 0; i < n->n_src; i++)
        n->src[i] = b->src[i];
    if (b->attr_bytes > 0)
        memcpy(attr, b->attr, b->attr_bytes);
    n->attr = attr;
    for (int i = 0; i < n->n_out; i++)
        GR_TRY(add_value(g, n, i));
    *out = n;
    return GR_OK;
}

static gr_status check_counts(const gr_build *b)
{
    GR_BUG_IF(b->op->n_out == GR_ANY_COUNT && b->n_src < 1);
    if (b->fusion) /* its own rule counts them */
        return GR_OK;
    if (b->op->n_src != GR_ANY_COUNT && b->op->n_src != b->n_src)
        return gr_fail(GR_ERR_ARG, "takes %d inputs, got %d", b->op->n_src, b->n_src);
    return GR_OK;
}

static gr_status infer(gr_node *n)
{
    GR_TRY(gr_node_infer(n));
    for (int i = 0; i < n->n_out; i++)
        GR_TRY(gr_shape_check(&n->out[i].shape, n->out[i].dtype));
    return GR_OK;
}

static gr_status try_add(gr_graph *g, const gr_build *b, gr_node **out)
{
    char text[GR_ERROR_TEXT];
    gr_node *n = NULL;
    gr_status st;

    GR_TRY(make_node(g, b, &n));
    st = check_counts(b);
    if (st == GR_OK)
        st = infer(n);
    if (st != GR_OK && st != GR_ERR_NOMEM) {
        gr_node_describe(n, text, sizeof(text));
        return gr_wrap(st, "%s: %s", b->site, text);
    }
    GR_TRY(st);
    GR_TRY(gr_grow((void **)&g->nodes, &g->cap_nodes, g->n_nodes + 1, sizeof(*g->nodes)));
    n->id = g->next_id++;
    g->nodes[g->n_nodes++] = n;
    *out = n;
    return GR_OK;
}

gr_node *gr_graph_add(gr_graph *g, const gr_build *b)
{
    gr_node *n = NULL;
    gr_status st;

    if (g->status != GR_OK)
        return NULL;
    for (int i = 0; i < b->n_src; i++)
        if (!b->src[i]) {
            gr_graph_stick(
                g, gr_fail(GR_ERR_ARG, "%s: %s: input %d is NULL", b->site, b->op->name, i));
            return NULL;
        }
    st = try_add(g, b, &n);
    if (st != GR_OK) {
        gr_graph_stick(g, st);
        return NULL;
    }
    return n;
}

static gr_status try_clone(gr_graph *g, const gr_node *n, gr_value *const *src, gr_node **out)
{
    gr_build b = { .op = n->op, .site = n->site, .src = src, .n_src = n->n_src, .n_out = n->n_out };
    gr_node *made = NULL;

    b.fusion = n->fusion;
    GR_TRY(make_node(g, &b, &made));
    made->attr = n->attr;
    made->block = n->block;
    for (int i = 0; i < n->n_out; i++) {
        made->out[i].dtype = n->out[i].dtype; /* rules keep what a pass has fixed */
        made->out[i].is_grad = n->out[i].is_grad;
    }
    GR_TRY(infer(made));
    GR_TRY(gr_grow((void **)&g->nodes, &g->cap_nodes, g->n_nodes + 1, sizeof(*g->nodes)));
    made->id = g->next_id++;
    g->nodes[g->n_nodes++] = made;
    *out = made;
    return GR_OK;
}

gr_node *gr_graph_clone(gr_graph *g, const gr_node *n, gr_value *const *src)
{
    gr_node *made = NULL;

    if (g->status == GR_OK)
        gr_graph_stick(g, try_clone(g, n, src, &made));
    return made;
}

gr_value *gr_graph_add_value(gr_graph *g, const gr_build *b)
{
    gr_node *n = gr_graph_add(g, b);

    return n ? &n->out[0] : NULL;
}

gr_status gr_node_after(gr_graph *g, gr_node *node, gr_node *before)
{
    gr_node **list;

    for (int i = 0; i < node->n_after; i++)
        if (node->after[i] == before)
            return GR_OK;
    list = gr_arena_array(g->arena, (size_t)node->n_after + 1, sizeof(*list));
    if (!list)
        return GR_ERR_NOMEM;
    for (int i = 0; i < node->n_after; i++)
        list[i] = node->after[i];
    list[node->n_after++] = before;
    node->after = list;
    return GR_OK;
}

const gr_value *gr_value_root(const gr_value *v)
{
    while (v->alias)
        v = v->alias;
    return v;
}

bool gr_graph_wants(const gr_graph *g, const gr_value *v)
{
    return !g->wanted || (v->id < g->n_wanted && g->wanted[v->id]);
}

bool gr_value_views(const gr_value *v, const gr_value *of)
{
    /* An output with both is what a node wrote over the variable: the new value. */
    while (v != of && v->alias && !v->var)
        v = v->alias;
    return v == of;
}

size_t gr_value_bytes(const gr_value *v)
{
    return (size_t)gr_shape_count(&v->shape) * gr_dtype_bytes(v->dtype);
}

gr_shape gr_value_shape(const gr_value *v)
{
    return v ? v->shape : GR_SCALAR;
}

gr_dtype gr_value_dtype(const gr_value *v)
{
    return v ? v->dtype : GR_F32;
}

bool gr_is_training(const gr_graph *g)
{
    return g->training && g->frozen_depth == 0;
}

void gr_node_set_source(gr_node *n, int s, gr_value *v)
{
    const gr_value *old = n->src[s];

    n->src[s] = v;
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o].alias == old)
            n->out[o].alias = v;
}

void gr_graph_replace(gr_graph *g, const gr_value *from, gr_value *to, int n_nodes)
{
    for (int i = 0; i < n_nodes; i++)
        for (int s = 0; s < g->nodes[i]->n_src; s++)
            if (g->nodes[i]->src[s] == from)
                gr_node_set_source(g->nodes[i], s, to);
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].value == from)
            g->outputs[i].value = to;
    if (g->loss == from)
        g->loss = to;
}

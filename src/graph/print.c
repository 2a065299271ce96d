/*
 * A graph as text, one node a line, and as Graphviz. Dumps are compared with stored ones
 * in tests: they hold no address, no path and nothing that depends on the machine.
 *
 *     %2 = matmul(%0, %1) trans_b : f32 [128, 512]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fusion.h"
#include "graph/graph.h"
#include "graph/op.h"

void gr_node_describe(const gr_node *n, char *text, size_t n_bytes)
{
    char shape[GR_SHAPE_TEXT];
    size_t at = (size_t)snprintf(text, n_bytes, "%s", n->op->name);

    for (int i = 0; i < n->n_src && at < n_bytes; i++)
        at += (size_t)snprintf(text + at, n_bytes - at, "%s %s %s", i == 0 ? "" : ",",
                               gr_dtype_name(n->src[i]->dtype),
                               gr_shape_text(&n->src[i]->shape, shape, sizeof(shape)));
}

static const char *space_name(const gr_value *v)
{
    static const char *const name[] = { " none", "", " state", " exchange", "" };

    return name[gr_value_root(v)->space];
}

static void print_value(const gr_value *v, gr_text *out)
{
    char shape[GR_SHAPE_TEXT];

    gr_text_addf(out, "%s %s%s", gr_dtype_name(v->dtype),
                 gr_shape_text(&v->shape, shape, sizeof(shape)), space_name(v));
    if (v->alias)
        gr_text_addf(out, " =%%%d", v->alias->id);
    if (gr_value_root(v)->space == GR_SPACE_EXCHANGE)
        gr_text_addf(out, "+%zu", gr_value_root(v)->offset);
}

static void print_node(const gr_node *n, gr_text *out)
{
    for (int i = 0; i < n->n_out; i++)
        gr_text_addf(out, "%s%%%d", i == 0 ? "" : ", ", n->out[i].id);
    gr_text_addf(out, " = %s(", n->op->name);
    for (int i = 0; i < n->n_src; i++)
        gr_text_addf(out, "%s%%%d", i == 0 ? "" : ", ", n->src[i]->id);
    gr_text_add(out, ")");
    gr_node_print_attr(n, out);
    gr_text_add(out, " :");
    for (int i = 0; i < n->n_out; i++) {
        gr_text_add(out, i == 0 ? " " : ", ");
        print_value(&n->out[i], out);
    }
    gr_text_add(out, "\n");
}

void gr_graph_print(const gr_graph *g, gr_text *out)
{
    static const char *const phase[] = { "forward", "backward", "sync", "update" };
    int last = -1;

    for (int i = 0; i < g->n_nodes; i++) {
        if ((int)g->nodes[i]->phase != last)
            gr_text_addf(out, "-- %s\n", phase[g->nodes[i]->phase]);
        last = (int)g->nodes[i]->phase;
        print_node(g->nodes[i], out);
    }
    for (int i = 0; i < g->n_outputs; i++)
        gr_text_addf(out, "output '%s' = %%%d\n", g->outputs[i].name, g->outputs[i].value->id);
}

static void print_dot_node(const gr_node *n, gr_text *out)
{
    static const char *const colour[] = { "white", "lightblue", "khaki", "lightgreen" };
    char shape[GR_SHAPE_TEXT];

    gr_text_addf(out, "  n%u [label=\"%s", n->id, n->op->name);
    if (n->n_out > 0 && n->out[0].name)
        gr_text_addf(out, "\\n%s", n->out[0].name);
    if (n->n_out > 0)
        gr_text_addf(out, "\\n%s %s", gr_dtype_name(n->out[0].dtype),
                     gr_shape_text(&n->out[0].shape, shape, sizeof(shape)));
    gr_text_addf(out, "\", fillcolor=%s];\n", colour[n->phase]);
    for (int i = 0; i < n->n_src; i++)
        gr_text_addf(out, "  n%u -> n%u;\n", n->src[i]->node->id, n->id);
    for (int i = 0; i < n->n_after; i++)
        gr_text_addf(out, "  n%u -> n%u [style=dotted];\n", n->after[i]->id, n->id);
}

void gr_graph_print_dot(const gr_graph *g, gr_text *out)
{
    gr_text_add(out, "digraph step {\n  node [shape=box, style=filled];\n");
    for (int i = 0; i < g->n_nodes; i++)
        print_dot_node(g->nodes[i], out);
    gr_text_add(out, "}\n");
}

static gr_status to_malloc(gr_text *t, char **out)
{
    gr_status st = gr_text_status(t);

    /* strdup, not our allocator: the caller's free() must take it. */
    *out = st == GR_OK ? strdup(gr_text_str(t)) : NULL;
    gr_text_fini(t);
    if (st == GR_OK && !*out)
        st = gr_fail(GR_ERR_NOMEM, "no memory for the text of a graph");
    return st;
}

gr_status gr_graph_text(const gr_graph *g, char **out)
{
    gr_text t = GR_TEXT_INIT;

    gr_graph_print(g, &t);
    return to_malloc(&t, out);
}

gr_status gr_graph_dot(const gr_graph *g, char **out)
{
    gr_text t = GR_TEXT_INIT;

    gr_graph_print_dot(g, &t);
    return to_malloc(&t, out);
}

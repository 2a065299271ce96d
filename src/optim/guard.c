/*
 * Buffers in a step that may be skipped. Running statistics take what the forward pass saw; in a
 * step whose gradients are not finite that is often NaN or infinite itself, and would stay for
 * good. So assignments read the control value, as updates do:
 *
 *     one micro-step:  assign(buffer, value, control)
 *     several:         all but the last   hold(held, buffer), assign(buffer, value)
 *                      the last           assign(buffer, value, control, held)
 *
 * The decision is known in the last micro-step only: the first keeps what the buffer had.
 */
#include "gradus/ops.h"
#include "graph/op.h"
#include "op/assign/assign.h"
#include "optim/optim.h"

#define SITE "optimiser"

static gr_value *held_of(gr_graph *g, const gr_var *buffer)
{
    gr_var want = { .name = gr_arena_printf(g->arena, GR_VAR_BEFORE "%s", buffer->name),
                    .kind = GR_VAR_HELD,
                    .dtype = buffer->dtype,
                    .shape = buffer->shape,
                    .init = gr_init_const(0) };
    gr_var *v;
    gr_status st = want.name ? gr_vars_get(g->vars, &want, &v) : GR_ERR_NOMEM;

    gr_graph_stick(g, st);
    return st == GR_OK ? gr_graph_var(g, SITE, v) : NULL;
}

/* Before a later micro-step, and so before the assignment: that one writes what this reads. */
static gr_status hold(gr_graph *g, const gr_node *assign)
{
    gr_value *src[2] = { held_of(g, assign->src[0]->var), assign->src[0] };
    gr_build b = { .op = &gr_op_hold, .site = SITE, .src = src, .n_src = 2 };

    if (src[0])
        gr_graph_add(g, &b);
    return gr_graph_status(g);
}

static gr_status guard(gr_graph *g, gr_node *assign, bool accumulates)
{
    gr_value **src = gr_arena_array(g->arena, 4, sizeof(*src));

    if (!src)
        return GR_ERR_NOMEM;
    src[0] = assign->src[0];
    src[1] = assign->src[1];
    src[2] = g->control;
    src[3] = accumulates ? held_of(g, assign->src[0]->var) : NULL;
    GR_TRY(gr_graph_status(g));
    assign->src = src;
    assign->n_src = accumulates ? 4 : 3;
    assign->phase = GR_PHASE_UPDATE;
    assign->block = 0; /* nothing of a block comes behind the backward pass */
    return GR_OK;
}

/* To the end, in their order: they come behind the update now, and a sort that met them where
 * they were traced would pull all of it forward. */
static gr_status move_to_end(gr_graph *g)
{
    gr_node **moved = gr_arena_array(g->arena, (size_t)g->n_nodes, sizeof(*moved));
    int kept = 0, n = 0;

    if (!moved)
        return GR_ERR_NOMEM;
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i]->op == &gr_op_assign)
            moved[n++] = g->nodes[i];
        else
            g->nodes[kept++] = g->nodes[i];
    }
    for (int i = 0; i < n; i++)
        g->nodes[kept + i] = moved[i];
    return GR_OK;
}

gr_status gr_pass_guard(gr_graph *g, bool accumulates)
{
    int n_nodes = g->n_nodes;
    gr_status st = GR_OK;

    g->phase = GR_PHASE_UPDATE;
    for (int i = 0; i < n_nodes && st == GR_OK; i++)
        if (g->nodes[i]->op == &gr_op_assign)
            st = g->control ? guard(g, g->nodes[i], accumulates) : hold(g, g->nodes[i]);
    g->phase = GR_PHASE_FORWARD;
    return st == GR_OK && g->control ? move_to_end(g) : st;
}

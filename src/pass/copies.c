/*
 * Copies of parameters in 16 bits that stay from step to step.
 *
 *     before   w ─► cast ─► conv, conv_data            every step casts all weights anew
 *              w, dw ─► sgd ─► w
 *     after    w in bf16 ─► conv, conv_data            the update writes both, while it
 *              w, dw, w in bf16 ─► sgd ─► w, w in bf16     has the number at hand
 *
 * (1) A copy is a variable, made by the first training graph, in which a product reads the
 *     parameter in 16 bits. Later graphs that read another one cast it: the state is sealed.
 * (2) Every update of a parameter that has a copy writes it (optim/update.c). What else writes
 *     parameters, at the start and from a snapshot, fills them anew (gr_vars_fill_copies).
 * (3) Where ranks have parameters in common they have the copies in common: each writes its
 *     share, and all read one, which their last level of cache then holds once.
 * (4) Evaluations cast: they may read averages in the place of parameters.
 *
 * The numbers are those of the cast: no bit of a step changes.
 */
#include "op/map/program.h"
#include "pass/pass.h"

#define PREFIX "low." /* and the parameter's name */

/* The parameter that the node does nothing with but cast it to 16 bits; NULL: it does not. */
static gr_var *cast_param(const gr_node *n)
{
    const gr_value *v;

    if (n->op != &gr_op_map || n->n_src != 1 || ((const gr_program *)n->attr)->n_instr > 0)
        return NULL;
    v = n->src[0];
    if (!v->var || v->alias || v->var->kind != GR_VAR_PARAM || v->dtype != GR_F32)
        return NULL;
    if (gr_dtype_bytes(n->out[0].dtype) != 2 || !gr_dtype_is_float(n->out[0].dtype) ||
        !gr_shape_equal(&n->out[0].shape, &v->shape))
        return NULL;
    return v->var;
}

/* NULL in *out: there is none, and no more can be made. */
static gr_status copy_of(gr_graph *g, gr_var *param, gr_dtype low, gr_var **out)
{
    gr_var want = { .kind = GR_VAR_COPY,
                    .dtype = low,
                    .shape = param->shape,
                    .copy_of = param,
                    .common = param->common };

    if (!param->copy && !g->vars->sealed) {
        want.name = gr_arena_printf(g->arena, PREFIX "%s", param->name);
        if (!want.name)
            return GR_ERR_NOMEM;
        GR_TRY(gr_vars_get(g->vars, &want, &param->copy));
    }
    *out = param->copy;
    return GR_OK;
}

static void redirect(const gr_graph *g, const gr_value *from, gr_value *to)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int s = 0; s < g->nodes[i]->n_src; s++)
            if (g->nodes[i]->src[s] == from)
                g->nodes[i]->src[s] = to;
}

gr_status gr_pass_copies(gr_graph *g)
{
    int n_nodes = g->n_nodes;

    for (int i = 0; i < n_nodes; i++) {
        const gr_node *n = g->nodes[i];
        gr_var *param = cast_param(n), *copy = NULL;
        gr_value *v;

        if (param)
            GR_TRY(copy_of(g, param, n->out[0].dtype, &copy));
        if (!copy)
            continue;
        g->phase = GR_PHASE_FORWARD;
        v = gr_graph_var(g, n->site, copy);
        if (!v)
            return gr_graph_status(g);
        redirect(g, &n->out[0], v);
    }
    return GR_OK;
}

/*
 * Copies of parameters in 16 bits that stay from step to step.
 *
 *     before   w ─► cast ─► conv, conv_data            every step casts all weights anew
 *              w, dw ─► sgd ─► w
 *     after    w in bf16 ─► conv, conv_data            the update writes both, while it
 *              w, dw, w in bf16 ─► sgd ─► w, w in bf16     has the number at hand
 *
 * (1) Taken are casts that products read and nothing else, in the backward pass as well as in the
 *     forward one: these lived through most of the step, so the copy takes no more memory.
 * (2) A copy is a variable, made by the first training graph. Later graphs that cast another
 *     parameter go on casting: the state is sealed.
 * (3) Every update of a parameter that has a copy writes it (optim/update.c), also in graphs that
 *     do not read it. What else writes parameters, at the start and from a snapshot, fills them
 * anew (gr_vars_fill_copies). (4) Where ranks have parameters in common they have the copies in
 * common: one is written and read by all, and their last level of cache holds it once. (5)
 * Evaluations cast: they may read averages in the place of parameters.
 *
 * The numbers are those of the cast: no bit of a step changes.
 */
#include "op/map/program.h"
#include "pass/pass.h"

#define PREFIX "16-bit " /* and the parameter's name: no module is called so */

/* The parameter that the node does nothing with but cast it to `low`; NULL: it does not. */
static gr_var *cast_param(const gr_node *n, gr_dtype low)
{
    const gr_value *v;

    if (n->op != &gr_op_map || n->n_src != 1 || ((const gr_program *)n->attr)->n_instr > 0)
        return NULL;
    v = n->src[0];
    if (!v->var || v->alias || v->var->kind != GR_VAR_PARAM || v->dtype != GR_F32)
        return NULL;
    return n->out[0].dtype == low && gr_shape_equal(&n->out[0].shape, &v->shape) ? v->var : NULL;
}

static bool reads(const gr_node *n, const gr_value *v)
{
    for (int s = 0; s < n->n_src; s++)
        if (n->src[s] == v)
            return true;
    return false;
}

/* Rule (1). */
static bool is_for_products(const gr_graph *g, const gr_value *cast)
{
    bool backward = false;

    for (int i = 0; i < g->n_nodes; i++) {
        if (!reads(g->nodes[i], cast))
            continue;
        if (g->nodes[i]->op->amp != GR_AMP_LOW)
            return false;
        backward = backward || g->nodes[i]->phase == GR_PHASE_BACKWARD;
    }
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].value == cast)
            return false;
    return backward;
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

gr_status gr_pass_copies(gr_graph *g, gr_dtype low)
{
    int n_nodes = g->n_nodes;

    g->phase = GR_PHASE_FORWARD;
    for (int i = 0; i < n_nodes; i++) {
        const gr_node *n = g->nodes[i];
        gr_var *param = cast_param(n, low), *copy = NULL;
        gr_value *v;

        if (param && is_for_products(g, &n->out[0]))
            GR_TRY(copy_of(g, param, low, &copy));
        if (!copy)
            continue;
        v = gr_graph_var(g, n->site, copy);
        if (!v)
            return gr_graph_status(g);
        gr_graph_replace(g, &n->out[0], v, n_nodes);
    }
    return GR_OK;
}

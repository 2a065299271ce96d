/* Evaluation with averaged parameters: the trace's own are replaced by their averages. */
#include "graph/op.h"
#include "optim/optim.h"

static gr_status average_of(gr_graph *g, const gr_var *param, gr_value **out)
{
    char *name = gr_arena_printf(g->arena, GR_VAR_EMA "%s", param->name);
    gr_var *v = name ? gr_vars_find(g->vars, name) : NULL;

    if (!name)
        return GR_ERR_NOMEM;
    *out = v ? gr_graph_var(g, "average", v) : NULL;
    return gr_graph_status(g);
}

/* Frozen and unused parameters have no average: they stay. */
gr_status gr_pass_average(gr_graph *g)
{
    int n = g->n_nodes;

    for (int i = 0; i < n; i++) {
        gr_value *v = g->nodes[i]->n_out > 0 ? &g->nodes[i]->out[0] : NULL, *average;

        if (g->nodes[i]->op != &gr_op_variable || v->var->kind != GR_VAR_PARAM)
            continue;
        GR_TRY(average_of(g, v->var, &average));
        if (average)
            gr_graph_replace(g, v, average, n);
    }
    return GR_OK;
}

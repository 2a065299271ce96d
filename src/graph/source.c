/* Where values come from and go to: inputs, state variables, outputs, the loss. */
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "graph/op.h"

typedef struct source_attr {
    const gr_named *feed; /* of an input, valid while tracing */
    gr_var *var;          /* of a variable */
} source_attr;

static gr_status input_infer(gr_node *n)
{
    const source_attr *a = n->attr;

    /* Again in a verifier, long after the feeds are gone: the shape stands already. */
    if (n->out[0].space == GR_SPACE_INPUT)
        return GR_OK;
    n->out[0].shape = a->feed->shape;
    n->out[0].dtype = a->feed->dtype;
    n->out[0].space = GR_SPACE_INPUT;
    return GR_OK;
}

static void input_print(const gr_node *n, gr_text *out)
{
    gr_text_addf(out, " '%s'", n->out[0].name ? n->out[0].name : "");
}

const gr_op gr_op_input = {
    .name = "input",
    .n_src = 0,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = input_infer,
    .print = input_print,
};

static gr_status variable_infer(gr_node *n)
{
    const source_attr *a = n->attr;

    n->out[0].shape = a->var->shape;
    n->out[0].dtype = a->var->dtype;
    n->out[0].space = GR_SPACE_STATE;
    n->out[0].var = a->var;
    n->out[0].name = a->var->name;
    return GR_OK;
}

const gr_op gr_op_variable = {
    .name = "variable",
    .n_src = 0,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = variable_infer,
    .print = input_print,
};

static gr_value *add_source(gr_graph *g, const gr_op *op, const char *site, source_attr a)
{
    gr_build b = { .op = op, .site = site, .attr = &a, .attr_bytes = sizeof(a) };

    return gr_graph_add_value(g, &b);
}

static const gr_named *find_feed(const gr_graph *g, const char *name)
{
    for (int i = 0; i < g->n_feeds; i++)
        if (strcmp(g->feeds[i].name, name) == 0)
            return &g->feeds[i];
    return NULL;
}

static gr_value *find_input(const gr_graph *g, const char *name)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &gr_op_input && g->nodes[i]->out[0].name &&
            strcmp(g->nodes[i]->out[0].name, name) == 0)
            return &g->nodes[i]->out[0];
    return NULL;
}

gr_value *gr_input_at(const char *site, gr_graph *g, const char *name)
{
    source_attr a = { 0 };
    gr_value *v;

    if (!name) {
        gr_graph_fail(g, site, "an input needs a name");
        return NULL;
    }
    a.feed = find_feed(g, name);
    v = find_input(g, name);
    if (v)
        return v;
    if (!a.feed) {
        gr_graph_fail(g, site, "input '%s' is not among the %d feeds", name, g->n_feeds);
        return NULL;
    }
    v = add_source(g, &gr_op_input, site, a);
    if (!v)
        return NULL;
    v->name = gr_arena_strdup(g->arena, name);
    if (!v->name)
        gr_graph_stick(g, GR_ERR_NOMEM);
    return v->name ? v : NULL;
}

gr_value *gr_graph_var(gr_graph *g, const char *site, gr_var *var)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &gr_op_variable && g->nodes[i]->out[0].var == var)
            return &g->nodes[i]->out[0];
    return add_source(g, &gr_op_variable, site, (source_attr){ .var = var });
}

/* The layout of the state and the optimiser's part of it are made of what trains. */
static gr_status freeze(const gr_vars *vars, gr_var *v)
{
    if (vars->sealed && !v->frozen)
        return gr_fail(GR_ERR_ARG, "'%s' was trainable in the first plan and cannot be frozen now",
                       v->name);
    v->frozen = true;
    return GR_OK;
}

static gr_value *find_var(const char *site, gr_graph *g, const gr_var *want)
{
    gr_var *var;
    gr_status st;

    if (!want->name || !*want->name) {
        gr_graph_fail(g, site, "a %s needs a name",
                      want->kind == GR_VAR_PARAM ? "parameter" : "buffer");
        return NULL;
    }
    st = gr_vars_get(g->vars, want, &var);
    if (st == GR_OK && g->frozen_depth > 0 && var->kind == GR_VAR_PARAM)
        st = freeze(g->vars, var);
    if (st == GR_OK)
        return gr_graph_var(g, site, var);
    gr_graph_stick(g, st == GR_ERR_NOMEM ? st : gr_wrap(st, "%s", site));
    return NULL;
}

gr_value *gr_param_at(const char *site, gr_graph *g, const char *name, gr_shape shape, gr_init init)
{
    gr_var want = {
        .name = name, .kind = GR_VAR_PARAM, .dtype = GR_F32, .shape = shape, .init = init
    };

    return find_var(site, g, &want);
}

gr_value *gr_buffer_at(const char *site, gr_graph *g, const char *name, gr_dtype t, gr_shape shape,
                       gr_init init)
{
    gr_var want = { .name = name, .kind = GR_VAR_BUFFER, .dtype = t, .shape = shape, .init = init };

    if (t != GR_F32 && t != GR_I64) {
        gr_graph_fail(g, site, "buffer '%s' must be f32 or i64, not %s", name, gr_dtype_name(t));
        return NULL;
    }
    if (t == GR_I64 && init.kind != GR_INIT_CONST) {
        gr_graph_fail(g, site, "buffer '%s' is i64: it cannot start at random", name);
        return NULL;
    }
    return find_var(site, g, &want);
}

void gr_freeze_at(const char *site, gr_graph *g, gr_value *param)
{
    if (!gr_graph_given(g, site, "freeze", param))
        return;
    if (!param->var || param->var->kind != GR_VAR_PARAM)
        gr_graph_fail(g, site, "only a parameter can be frozen");
    else if (freeze(g->vars, param->var) != GR_OK)
        gr_graph_stick(g, gr_wrap(GR_ERR_ARG, "%s", site));
}

void gr_frozen_begin_at(const char *site, gr_graph *g)
{
    if (g->status != GR_OK || g->frozen_depth++ > 0)
        return;
    g->frozen_site = site;
    g->n_frozen++;
}

void gr_frozen_end_at(const char *site, gr_graph *g)
{
    if (g->status != GR_OK)
        return;
    if (g->frozen_depth == 0)
        gr_graph_fail(g, site, "a frozen part ends here that was not begun");
    else if (--g->frozen_depth == 0)
        g->frozen_site = NULL;
}

void gr_block_begin_at(const char *site, gr_graph *g, const char *name)
{
    const char *copy;

    if (g->status != GR_OK || g->block_depth++ > 0)
        return;
    if (!name || !*name) {
        gr_graph_fail(g, site, "a block needs a name");
        return;
    }
    copy = gr_arena_strdup(g->arena, name);
    if (!copy || gr_grow((void **)&g->blocks, &g->cap_blocks, g->n_blocks + 1,
                         sizeof(*g->blocks)) != GR_OK) {
        gr_graph_stick(g, GR_ERR_NOMEM);
        return;
    }
    g->blocks[g->n_blocks++] = copy;
    g->block = g->n_blocks;
}

void gr_block_end_at(const char *site, gr_graph *g)
{
    if (g->status != GR_OK)
        return;
    if (g->block_depth == 0)
        gr_graph_fail(g, site, "a block ends here that was not begun");
    else if (--g->block_depth == 0)
        g->block = 0;
}

static bool add_output(gr_graph *g, const char *site, const char *name, gr_value *v)
{
    const char *copy = gr_arena_strdup(g->arena, name);

    for (int i = 0; i < g->n_outputs; i++)
        if (strcmp(g->outputs[i].name, name) == 0) {
            gr_graph_fail(g, site, "output '%s' is there already", name);
            return false;
        }
    if (!copy || gr_grow((void **)&g->outputs, &g->cap_outputs, g->n_outputs + 1,
                         sizeof(*g->outputs)) != GR_OK) {
        gr_graph_stick(g, GR_ERR_NOMEM);
        return false;
    }
    g->outputs[g->n_outputs++] = (gr_output){ copy, v };
    return true;
}

void gr_output_at(const char *site, gr_graph *g, const char *name, gr_value *v)
{
    if (!name || !*name)
        gr_graph_fail(g, site, "an output needs a name");
    else if (!v && g->status == GR_OK)
        gr_graph_fail(g, site, "output '%s' is NULL", name);
    if (v && g->status == GR_OK)
        add_output(g, site, name, v);
}

void gr_loss_at(const char *site, gr_graph *g, gr_value *v)
{
    char text[GR_SHAPE_TEXT];

    if (g->status != GR_OK)
        return;
    if (!v) {
        gr_graph_fail(g, site, "the loss is NULL");
        return;
    }
    if (gr_shape_count(&v->shape) != 1 || !gr_dtype_is_float(v->dtype)) {
        gr_graph_fail(g, site, "the loss must be one floating number, not %s %s",
                      gr_dtype_name(v->dtype), gr_shape_text(&v->shape, text, sizeof(text)));
        return;
    }
    if (add_output(g, site, "loss", v))
        g->loss = v;
}

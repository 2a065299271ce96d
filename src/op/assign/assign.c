/*
 * The rules of assign and hold. An assignment runs last (GR_PLACE_LATE, and nothing reads its
 * result), so that a run that stops at bad data has changed nothing. No gradient: it comes after
 * everything.
 */
#include "op/assign/assign.h"
#include "op/update/update.h"

static bool fits(gr_dtype buffer, gr_dtype value)
{
    return buffer == value || (buffer == GR_F32 && (value == GR_BF16 || value == GR_F16));
}

static gr_status want_like(const gr_node *n, int s, gr_dtype t, const gr_shape *shape)
{
    const gr_value *v = n->src[s];

    if (v->dtype == t && gr_shape_equal(&v->shape, shape))
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "input %d has another shape or type than it must have", s);
}

/* Sources 2 and 3: the control value, and what is held. */
static gr_status want_guards(const gr_node *n)
{
    gr_shape control = GR_SHAPE(GR_CONTROL_COUNT);

    if (n->n_src < 2 || n->n_src > 4)
        return gr_fail(GR_ERR_ARG, "takes 2 to 4 inputs, got %d", n->n_src);
    if (n->n_src > 2)
        GR_TRY(want_like(n, 2, GR_F32, &control));
    if (n->n_src > 3)
        GR_TRY(want_like(n, 3, n->src[0]->dtype, &n->src[0]->shape));
    return GR_OK;
}

/* The result lies where source 0 does. */
static void in_place(gr_node *n)
{
    n->out[0].shape = n->src[0]->shape;
    n->out[0].dtype = n->src[0]->dtype;
    n->out[0].space = n->src[0]->space;
    n->out[0].alias = n->src[0];
    n->out[0].var = n->src[0]->var;
}

static gr_status assign_infer(gr_node *n)
{
    const gr_value *buffer, *value;

    GR_TRY(want_guards(n));
    buffer = n->src[0];
    value = n->src[1];
    if (!buffer->var || buffer->var->kind != GR_VAR_BUFFER || buffer->alias)
        return gr_fail(GR_ERR_ARG, "only a buffer can be assigned to");
    if (!gr_shape_equal(&buffer->shape, &value->shape))
        return gr_fail(GR_ERR_ARG, "buffer '%s' has another shape than the value",
                       buffer->var->name);
    if (!fits(buffer->dtype, value->dtype))
        return gr_fail(GR_ERR_ARG, "buffer '%s' is %s, the value is %s: cast first",
                       buffer->var->name, gr_dtype_name(buffer->dtype),
                       gr_dtype_name(value->dtype));
    in_place(n);
    return GR_OK;
}

static gr_status hold_infer(gr_node *n)
{
    if (!n->src[0]->var || n->src[0]->alias)
        return gr_fail(GR_ERR_ARG, "only a variable can hold a buffer");
    GR_TRY(want_like(n, 1, n->src[0]->dtype, &n->src[0]->shape));
    in_place(n);
    return GR_OK;
}

static const char *earlier_site(const gr_graph *g, const gr_value *buffer)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &gr_op_assign && g->nodes[i]->src[0] == buffer)
            return g->nodes[i]->site;
    return NULL;
}

void gr_assign_at(const char *site, gr_graph *g, gr_value *buffer, gr_value *value)
{
    gr_build b = {
        .op = &gr_op_assign, .site = site, .src = (gr_value *[]){ buffer, value }, .n_src = 2
    };
    const char *earlier = buffer ? earlier_site(g, buffer) : NULL;

    if (!gr_is_training(g))
        return;
    if (earlier)
        gr_graph_fail(g, site, "buffer '%s' was assigned before, at %s", buffer->var->name,
                      earlier);
    else
        gr_graph_add(g, &b);
}

const gr_op gr_op_assign = {
    .name = "assign",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .place = GR_PLACE_LATE,
    .infer = assign_infer,
    .kernels = gr_assign_cpu,
};

const gr_op gr_op_hold = {
    .name = "hold",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = hold_infer,
    .kernels = gr_hold_cpu,
};

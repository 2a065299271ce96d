#include "graph/rules.h"

static gr_status join_infer(gr_node *n)
{
    char a[GR_SHAPE_TEXT], b[GR_SHAPE_TEXT];

    if (!gr_shape_equal(&n->src[0]->shape, &n->src[1]->shape))
        return gr_fail(GR_ERR_ARG, "shapes %s and %s differ",
                       gr_shape_text(&n->src[0]->shape, a, sizeof(a)),
                       gr_shape_text(&n->src[1]->shape, b, sizeof(b)));
    n->out[0].shape = n->src[0]->shape;
    n->out[0].dtype = n->src[0]->dtype;
    return GR_OK;
}

const gr_op rule_join = { .name = "join", .n_src = 2, .n_out = 1, .infer = join_infer };

static gr_status write_infer(gr_node *n)
{
    n->out[0].shape = n->src[0]->shape;
    n->out[0].dtype = n->src[0]->dtype;
    n->out[0].space = GR_SPACE_STATE;
    n->out[0].alias = n->src[0];
    n->out[0].var = n->src[0]->var;
    return GR_OK;
}

const gr_op rule_write = { .name = "write", .n_src = 2, .n_out = 1, .infer = write_infer };

static gr_value *add(gr_graph *g, const gr_op *op, gr_value *a, gr_value *b)
{
    gr_build call = { .op = op, .site = "test.c:1", .src = (gr_value *[]){ a, b }, .n_src = 2 };

    return gr_graph_add_value(g, &call);
}

gr_value *rule_add_join(gr_graph *g, gr_value *a, gr_value *b)
{
    return add(g, &rule_join, a, b);
}

gr_value *rule_add_write(gr_graph *g, gr_value *var, gr_value *v)
{
    return add(g, &rule_write, var, v);
}

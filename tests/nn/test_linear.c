/* Linear as a graph: parameters by name, order, shape and bounds; shapes out; failures. */
#include "gradus/nn.h"

#include "check.h"
#include "src/graph/graph.h"

static void check_shape(const gr_shape *have, gr_shape want)
{
    char a[GR_SHAPE_TEXT], b[GR_SHAPE_TEXT];

    GR_CHECK_STR(gr_shape_text(have, a, sizeof(a)), gr_shape_text(&want, b, sizeof(b)));
}

static gr_status shape_out(gr_shape in, int64_t n_out, gr_shape *out)
{
    const gr_named feed = { .name = "x", .dtype = GR_F32, .shape = in };
    gr_vars *vars;
    gr_graph *g;
    gr_status st;

    GR_CHECK_OK(gr_vars_create(&vars));
    GR_CHECK_OK(gr_graph_create(&g, vars, true, &feed, 1));
    *out = gr_value_shape(gr_linear(g, "fc", gr_input(g, "x"), n_out));
    st = gr_graph_status(g);
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
    return st;
}

static void test_shapes(void)
{
    gr_shape out;

    GR_CHECK_OK(shape_out(GR_SHAPE(5, 4), 3, &out));
    check_shape(&out, GR_SHAPE(5, 3));
    GR_CHECK_OK(shape_out(GR_SHAPE(2, 5, 4), 3, &out));
    check_shape(&out, GR_SHAPE(2, 5, 3));
    GR_CHECK_OK(shape_out(GR_SHAPE(4), 3, &out));
    check_shape(&out, GR_SHAPE(3));
    GR_CHECK_OK(shape_out(GR_SHAPE(0, 4), 1, &out));
    check_shape(&out, GR_SHAPE(0, 1));
    GR_CHECK_FAILS(shape_out(GR_SCALAR, 3, &out), GR_ERR_ARG, "linear 'fc': input []");
    GR_CHECK_FAILS(shape_out(GR_SHAPE(5, 0), 3, &out), GR_ERR_ARG, "input [5, 0]");
    GR_CHECK_FAILS(shape_out(GR_SHAPE(5, 4), 0, &out), GR_ERR_ARG, "of 0 outputs");
    GR_CHECK_FAILS(shape_out(GR_SHAPE(5, 4), -1, &out), GR_ERR_ARG, "test_linear.c:");
}

static void test_params(void)
{
    const gr_named feed = { .name = "x", .dtype = GR_F32, .shape = GR_SHAPE(5, 4) };
    gr_vars *vars;
    gr_graph *g;

    GR_CHECK_OK(gr_vars_create(&vars));
    GR_CHECK_OK(gr_graph_create(&g, vars, true, &feed, 1));
    gr_linear(g, "head.fc", gr_input(g, "x"), 3);
    GR_CHECK_OK(gr_graph_status(g));
    /* The table's order is the order in which PyTorch draws. */
    GR_CHECK_EQ(vars->n, 2);
    GR_CHECK_STR(vars->list[0]->name, "head.fc.weight");
    GR_CHECK_STR(vars->list[1]->name, "head.fc.bias");
    check_shape(&vars->list[0]->shape, GR_SHAPE(3, 4));
    check_shape(&vars->list[1]->shape, GR_SHAPE(3));
    for (int i = 0; i < 2; i++) {
        GR_CHECK_EQ(vars->list[i]->kind, GR_VAR_PARAM);
        GR_CHECK_EQ(vars->list[i]->init.kind, GR_INIT_UNIFORM);
        GR_CHECK_NEAR(vars->list[i]->init.a, -0.5, 0);
        GR_CHECK_NEAR(vars->list[i]->init.b, 0.5, 0);
    }
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
}

int main(void)
{
    test_shapes();
    test_params();
    return 0;
}

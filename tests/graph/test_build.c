/* Building: sticky failures with site and shapes, variables by name, dumps, pruning. */
#include "alloc_fail.h"
#include "check.h"
#include "graph/rules.h"

static const gr_named feeds[] = {
    { "x", GR_F32, { 2, { 4, 3 } }, NULL },
    { "y", GR_F32, { 2, { 4, 5 } }, NULL },
};

typedef struct world {
    gr_vars *vars;
    gr_graph *g;
} world;

static gr_status open_world(world *w)
{
    *w = (world){ 0 };
    GR_TRY(gr_vars_create(&w->vars));
    return gr_graph_create(&w->g, w->vars, true, feeds, 2);
}

static void close_world(world *w)
{
    gr_graph_destroy(w->g);
    gr_vars_destroy(w->vars);
}

static void test_mismatch_is_named(void)
{
    world w;
    gr_value *x, *y;

    GR_CHECK_OK(open_world(&w));
    x = gr_input(w.g, "x");
    y = gr_input(w.g, "y");
    GR_CHECK(rule_add_join(w.g, x, y) == NULL);
    GR_CHECK(rule_add_join(w.g, x, x) == NULL); /* the failure sticks */
    GR_CHECK_FAILS(gr_graph_status(w.g), GR_ERR_ARG,
                   "test.c:1: join f32 [4, 3], f32 [4, 5]: shapes [4, 3] and [4, 5] differ");
    close_world(&w);
}

static void test_missing_input(void)
{
    world w;

    GR_CHECK_OK(open_world(&w));
    GR_CHECK(gr_input(w.g, "z") == NULL);
    GR_CHECK_FAILS(gr_graph_status(w.g), GR_ERR_ARG, "tests/graph/test_build.c:");
    GR_CHECK_FAILS(gr_graph_status(w.g), GR_ERR_ARG, "input 'z' is not among the 2 feeds");
    close_world(&w);
}

static void test_variables(void)
{
    world w;
    gr_value *a, *b;

    GR_CHECK_OK(open_world(&w));
    a = gr_param(w.g, "fc.weight", GR_SHAPE(4, 3), gr_init_const(1));
    b = gr_param(w.g, "fc.weight", GR_SHAPE(4, 3), gr_init_const(1));
    GR_CHECK(a && a == b);
    GR_CHECK(gr_param(w.g, "fc.weight", GR_SHAPE(3, 4), gr_init_const(1)) == NULL);
    GR_CHECK_FAILS(gr_graph_status(w.g), GR_ERR_ARG,
                   "variable 'fc.weight' is f32 [4, 3], now asked for as f32 [3, 4]");
    close_world(&w);
}

static void test_sealed_table_takes_no_more(void)
{
    world w;

    GR_CHECK_OK(open_world(&w));
    gr_param(w.g, "a", GR_SHAPE(3), gr_init_const(1));
    gr_param(w.g, "b", GR_SHAPE(5), gr_init_const(2));
    GR_CHECK_OK(gr_vars_seal(w.vars));
    GR_CHECK_EQ(w.vars->list[1]->offset, 64);
    GR_CHECK_EQ(w.vars->n_bytes, 128);
    GR_CHECK(gr_param(w.g, "c", GR_SHAPE(3), gr_init_const(1)) == NULL);
    GR_CHECK_FAILS(gr_graph_status(w.g), GR_ERR_ARG, "variable 'c' is new");
    close_world(&w);
}

static void test_text(void)
{
    world w;
    gr_value *x, *p, *sum;
    char *text;

    GR_CHECK_OK(open_world(&w));
    x = gr_input(w.g, "x");
    p = gr_param(w.g, "w", GR_SHAPE(4, 3), gr_init_const(0));
    sum = rule_add_join(w.g, x, p);
    gr_output(w.g, "sum", sum);
    w.g->phase = GR_PHASE_UPDATE;
    rule_add_write(w.g, p, sum);
    GR_CHECK_OK(gr_graph_text(w.g, &text));
    GR_CHECK_STR(text, "-- forward\n"
                       "%0 = input() 'x' : f32 [4, 3]\n"
                       "%1 = variable() 'w' : f32 [4, 3] state\n"
                       "%2 = join(%0, %1) : f32 [4, 3]\n"
                       "-- update\n"
                       "%3 = write(%1, %2) : f32 [4, 3] state =%1\n"
                       "output 'sum' = %2\n");
    free(text);
    GR_CHECK_OK(gr_graph_dot(w.g, &text));
    GR_CHECK(strstr(text, "digraph step {") == text && strstr(text, "n1 -> n2;"));
    free(text);
    close_world(&w);
}

static void test_prune_keeps_what_matters(void)
{
    world w;
    gr_value *x, *p, *sum;

    GR_CHECK_OK(open_world(&w));
    x = gr_input(w.g, "x");
    p = gr_param(w.g, "w", GR_SHAPE(4, 3), gr_init_const(0));
    sum = rule_add_join(w.g, x, p);
    rule_add_join(w.g, sum, sum); /* nobody reads this */
    rule_add_write(w.g, p, sum);
    GR_CHECK_EQ(w.g->n_nodes, 5);
    GR_CHECK_OK(gr_graph_prune(w.g));
    GR_CHECK_EQ(w.g->n_nodes, 4);
    GR_CHECK_OK(gr_graph_verify(w.g, "prune"));
    close_world(&w);
}

static void test_outputs(void)
{
    world w;
    gr_value *x;

    GR_CHECK_OK(open_world(&w));
    x = gr_input(w.g, "x");
    gr_loss(w.g, x);
    GR_CHECK_FAILS(gr_graph_status(w.g), GR_ERR_ARG,
                   "the loss must be one floating number, not f32 [4, 3]");
    close_world(&w);
    GR_CHECK_OK(open_world(&w));
    x = gr_input(w.g, "x");
    gr_output(w.g, "a", x);
    gr_output(w.g, "a", x);
    GR_CHECK_FAILS(gr_graph_status(w.g), GR_ERR_ARG, "output 'a' is there already");
    close_world(&w);
}

/* Everything a builder allocates may fail; the failure must come out as NOMEM. */
static gr_status build_all(void *arg)
{
    world w;
    gr_value *x, *p, *sum;
    gr_status st = open_world(&w);

    (void)arg;
    if (st == GR_OK) {
        x = gr_input(w.g, "x");
        p = gr_param(w.g, "w", GR_SHAPE(4, 3), gr_init_const(0));
        sum = x && p ? rule_add_join(w.g, x, p) : NULL;
        gr_output(w.g, "sum", sum);
        if (sum)
            rule_add_write(w.g, p, sum);
        st = gr_graph_status(w.g);
    }
    if (st == GR_OK)
        st = gr_graph_sort(w.g);
    if (st == GR_OK)
        st = gr_graph_verify(w.g, "build");
    if (st == GR_OK)
        st = gr_graph_prune(w.g);
    close_world(&w);
    return st;
}

int main(void)
{
    test_mismatch_is_named();
    test_missing_input();
    test_variables();
    test_sealed_table_takes_no_more();
    test_text();
    test_prune_keeps_what_matters();
    test_outputs();
    GR_CHECK(gr_alloc_fail_each(build_all, NULL) > 5);
    return 0;
}

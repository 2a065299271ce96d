/* The verifier and the sort: each rule of graph.h broken on purpose, by hand. */
#include "check.h"
#include "graph/rules.h"

static const gr_named feeds[] = { { "x", GR_F32, { 1, { 4 } }, NULL } };

typedef struct world {
    gr_vars *vars;
    gr_graph *g;
    gr_value *x, *p, *sum, *next;
} world;

/* x, w, sum = join(x, w), next = write(w, sum) */
static world make(void)
{
    world w = { 0 };

    GR_CHECK_OK(gr_vars_create(&w.vars));
    GR_CHECK_OK(gr_graph_create(&w.g, w.vars, true, feeds, 1));
    w.x = gr_input(w.g, "x");
    w.p = gr_param(w.g, "w", GR_SHAPE(4), gr_init_const(0));
    w.sum = rule_add_join(w.g, w.x, w.p);
    w.next = rule_add_write(w.g, w.p, w.sum);
    GR_CHECK_OK(gr_graph_verify(w.g, "build"));
    return w;
}

static void end(world *w)
{
    gr_graph_destroy(w->g);
    gr_vars_destroy(w->vars);
}

static void swap(gr_graph *g, int a, int b)
{
    gr_node *n = g->nodes[a];

    g->nodes[a] = g->nodes[b];
    g->nodes[b] = n;
}

static void test_order(void)
{
    world w = make();

    swap(w.g, 0, 2);
    GR_CHECK_FAILS(gr_graph_verify(w.g, "swap"), GR_ERR_ARG,
                   "after swap: node 2 (join, test.c:1) reads a value before it is there");
    GR_CHECK_OK(gr_graph_sort(w.g));
    GR_CHECK_OK(gr_graph_verify(w.g, "sort"));
    end(&w);
}

static void test_missing_producer(void)
{
    world w = make();

    for (int i = 0; i + 1 < w.g->n_nodes; i++)
        w.g->nodes[i] = w.g->nodes[i + 1];
    w.g->n_nodes--;
    GR_CHECK_FAILS(gr_graph_verify(w.g, "drop"), GR_ERR_ARG, "producer is not in the graph");
    GR_CHECK_FAILS(gr_graph_sort(w.g), GR_ERR_ARG, "which is not there");
    end(&w);
}

static void test_late_reader_of_a_written_variable(void)
{
    world w = make();

    rule_add_join(w.g, w.p, w.x);
    GR_CHECK_FAILS(gr_graph_verify(w.g, "build"), GR_ERR_ARG,
                   "reads the old value of a variable that was written before");
    GR_CHECK_OK(gr_graph_sort(w.g)); /* puts the reader first */
    GR_CHECK_OK(gr_graph_verify(w.g, "sort"));
    GR_CHECK(w.g->nodes[w.g->n_nodes - 1]->op == &rule_write);
    end(&w);
}

static void test_two_writers(void)
{
    world w = make();

    rule_add_write(w.g, w.p, w.sum);
    GR_CHECK_FAILS(gr_graph_verify(w.g, "build"), GR_ERR_ARG, "was written before");
    end(&w);
}

static void test_wrong_result(void)
{
    world w = make();

    w.sum->shape.dim[0] = 5;
    GR_CHECK_FAILS(gr_graph_verify(w.g, "pass"), GR_ERR_ARG, "another shape or type");
    end(&w);
}

static void test_circle(void)
{
    world w = make();

    GR_CHECK_OK(gr_node_after(w.g, w.sum->node, w.next->node));
    GR_CHECK_FAILS(gr_graph_sort(w.g), GR_ERR_ARG, "wait for each other");
    end(&w);
}

static void test_twice(void)
{
    world w = make();

    w.g->nodes[3] = w.g->nodes[2];
    GR_CHECK_FAILS(gr_graph_verify(w.g, "pass"), GR_ERR_ARG, "stands in the graph twice");
    end(&w);
}

int main(void)
{
    test_order();
    test_missing_producer();
    test_late_reader_of_a_written_variable();
    test_two_writers();
    test_wrong_result();
    test_circle();
    test_twice();
    return 0;
}

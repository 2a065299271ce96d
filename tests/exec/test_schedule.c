/* The schedule: what moves, what stays, and that the result can always run. */
#include "exec/schedule.h"

#include "alloc_fail.h"
#include "exec/fake.h"

/* The sites in running order, separated by blanks. */
static void check_order(const fake_world *w, const char *want)
{
    gr_text text = GR_TEXT_INIT;
    gr_arena *arena;
    gr_node **order;

    GR_CHECK_OK(gr_arena_create(&arena));
    GR_CHECK_OK(gr_schedule_make(arena, w->g, NULL, &order));
    for (int i = 0; i < w->g->n_nodes; i++)
        gr_text_addf(&text, "%s%s", i ? " " : "", order[i]->site);
    GR_CHECK_STR(gr_text_str(&text), want);
    gr_text_fini(&text);
    gr_arena_destroy(arena);
}

/* Collectives traced at the end: starts move up to their gradients, finishes down. */
static void test_overlap(void)
{
    fake_world w;
    gr_value *a, *b, *s0, *s1, *f0, *f1;

    fake_world_init(&w);
    a = fake_source(w.g, "A", 8);
    b = fake_source(w.g, "B", 8);
    fake_source(w.g, "C", 8);
    s0 = fake_node(w.g, &fake_start, "s0", 0, a);
    f0 = fake_node(w.g, &fake_finish, "f0", 0, s0, a);
    s1 = fake_node(w.g, &fake_start, "s1", 0, b);
    f1 = fake_node(w.g, &fake_finish, "f1", 0, s1, b);
    fake_node(w.g, &fake_work, "u0", 8, f0);
    fake_node(w.g, &fake_work, "u1", 8, f1);
    check_order(&w, "A s0 B s1 C f0 u0 f1 u1");
    fake_world_fini(&w);
}

/* A second start that could go first waits for the first: all ranks start alike. */
static void test_starts_keep_order(void)
{
    fake_world w;
    gr_value *a, *b, *s0, *s1, *f0, *f1;

    fake_world_init(&w);
    a = fake_source(w.g, "A", 8);
    b = fake_source(w.g, "B", 8);
    s0 = fake_node(w.g, &fake_start, "s0", 0, b);
    s1 = fake_node(w.g, &fake_start, "s1", 0, a);
    f0 = fake_node(w.g, &fake_finish, "f0", 0, s0, b);
    f1 = fake_node(w.g, &fake_finish, "f1", 0, s1, a);
    fake_node(w.g, &fake_work, "u1", 8, f1); /* needs the second finish: both go before */
    fake_node(w.g, &fake_work, "u0", 8, f0);
    check_order(&w, "A B s0 s1 f0 f1 u1 u0");
    fake_world_fini(&w);
}

static void test_edges_hold(void)
{
    fake_world w;
    gr_value *a, *b, *s, *f;

    fake_world_init(&w);
    a = fake_source(w.g, "A", 8);
    b = fake_source(w.g, "B", 8);
    s = fake_node(w.g, &fake_start, "s", 0, a);
    f = fake_node(w.g, &fake_finish, "f", 0, s, a);
    fake_source(w.g, "C", 8);
    fake_source(w.g, "D", 8);
    GR_CHECK_OK(gr_node_after(w.g, s->node, b->node));
    GR_CHECK_OK(gr_node_after(w.g, w.g->nodes[5], f->node));
    check_order(&w, "A B s C f D");
    fake_world_fini(&w);
}

/* A finish nobody reads still comes, last; a start that needs a finish takes it along. */
static void test_ends_and_chains(void)
{
    fake_world w;
    gr_value *a, *s0, *f0, *s1, *f1;

    fake_world_init(&w);
    a = fake_source(w.g, "A", 8);
    s0 = fake_node(w.g, &fake_start, "s0", 0, a);
    f0 = fake_node(w.g, &fake_finish, "f0", 0, s0, a);
    fake_source(w.g, "B", 8);
    s1 = fake_node(w.g, &fake_start, "s1", 0, f0);
    f1 = fake_node(w.g, &fake_finish, "f1", 0, s1, f0);
    (void)f1;
    fake_source(w.g, "C", 8);
    check_order(&w, "A s0 B f0 s1 C f1");
    fake_world_fini(&w);
}

/* Rule 4 of graph.h: a late reader of a variable goes before the variable's writer, and
 * an early node that changes memory stays behind those who read it before. */
static void test_mutation_is_ordered(void)
{
    fake_world w;
    gr_var want = { .name = "v", .kind = GR_VAR_BUFFER, .dtype = GR_U8, .shape = GR_SHAPE(8) };
    gr_var *var;
    gr_value *v, *a, *s, *f, *view;

    fake_world_init(&w);
    GR_CHECK_OK(gr_vars_get(w.vars, &want, &var));
    v = gr_graph_var(w.g, "v", var);
    a = fake_source(w.g, "A", 8);
    view = fake_node(w.g, &fake_view, "view", 0, a);
    fake_node(w.g, &fake_work, "reader", 8, view);
    s = fake_node(w.g, &fake_start, "s", 0, a);
    f = fake_node(w.g, &fake_finish, "f", 0, s, a);
    fake_source(w.g, "B", 8);
    fake_node(w.g, &fake_write, "update", 0, v, f);
    fake_source(w.g, "C", 8);
    check_order(&w, "v A view reader s B f update C");
    fake_world_fini(&w);
}

static void test_variable_writer_waits_for_late_reader(void)
{
    fake_world w;
    gr_var want = { .name = "v", .kind = GR_VAR_BUFFER, .dtype = GR_U8, .shape = GR_SHAPE(8) };
    gr_var *var;
    gr_value *v, *a, *s;

    fake_world_init(&w);
    GR_CHECK_OK(gr_vars_get(w.vars, &want, &var));
    v = gr_graph_var(w.g, "v", var);
    a = fake_source(w.g, "A", 8);
    s = fake_node(w.g, &fake_start, "s", 0, a);
    fake_node(w.g, &fake_finish, "f", 0, s, v);
    fake_source(w.g, "B", 8);
    fake_node(w.g, &fake_write, "update", 0, v);
    check_order(&w, "v A s B f update");
    fake_world_fini(&w);
}

/* ---- random graphs, against the definition ---- */

static int place_in(gr_node *const *list, int n, const gr_node *node)
{
    int i = 0;

    while (i < n && list[i] != node)
        i++;
    GR_CHECK(i < n);
    return i;
}

static void check_legal(const gr_graph *g, const int *to)
{
    for (int b = 0; b < g->n_nodes; b++)
        for (int a = 0; a < b; a++) {
            bool same_kind = g->nodes[a]->op->place == g->nodes[b]->op->place;

            if (same_kind || fake_must_precede(g, a, b))
                GR_CHECK(to[a] < to[b]);
        }
}

/* Early nodes follow what they waited for at once, late ones stand right before a need. */
static void check_tight(const gr_graph *g, gr_node *const *order)
{
    int n = g->n_nodes;

    for (int i = 0; i < n; i++) {
        int here = place_in(g->nodes, n, order[i]);

        if (order[i]->op->place == GR_PLACE_EARLY && i > 0 &&
            order[i - 1]->op->place != GR_PLACE_EARLY) {
            int before = place_in(g->nodes, n, order[i - 1]);

            GR_CHECK(before < here && fake_must_precede(g, before, here));
        }
        if (order[i]->op->place == GR_PLACE_LATE && i + 1 < n &&
            order[i + 1]->op->place != GR_PLACE_LATE) {
            int next = place_in(g->nodes, n, order[i + 1]);

            GR_CHECK(here < next && fake_must_precede(g, here, next));
        }
    }
}

static int test_random(uint32_t seed)
{
    fake_world w;
    gr_arena *arena;
    gr_node **order;
    int *to;
    int n_moved = 0;

    fake_world_random(&w, seed, 60);
    GR_CHECK_OK(gr_arena_create(&arena));
    GR_CHECK_OK(gr_schedule_make(arena, w.g, NULL, &order));
    to = (int *)calloc((size_t)w.g->n_nodes, sizeof(int));
    GR_CHECK(to);
    for (int i = 0; i < w.g->n_nodes; i++) {
        to[i] = place_in(order, w.g->n_nodes, w.g->nodes[i]);
        n_moved += to[i] != i;
    }
    check_legal(w.g, to);
    check_tight(w.g, order);
    free(to);
    gr_arena_destroy(arena);
    fake_world_fini(&w);
    return n_moved;
}

static gr_status schedule_body(void *arg)
{
    gr_arena *arena;
    gr_node **order;
    gr_status st;

    GR_TRY(gr_arena_create(&arena));
    st = gr_schedule_make(arena, ((const fake_world *)arg)->g, NULL, &order);
    gr_arena_destroy(arena);
    return st;
}

static void test_out_of_memory(void)
{
    fake_world w;

    fake_world_random(&w, 1, 60);
    GR_CHECK(gr_alloc_fail_each(schedule_body, &w) > 2);
    fake_world_fini(&w);
}

int main(void)
{
    fake_world empty;
    int n_moved = 0;

    fake_world_init(&empty);
    check_order(&empty, "");
    fake_world_fini(&empty);
    test_overlap();
    test_starts_keep_order();
    test_edges_hold();
    test_ends_and_chains();
    test_mutation_is_ordered();
    test_variable_writer_waits_for_late_reader();
    for (uint32_t seed = 0; seed < 200; seed++)
        n_moved += test_random(seed);
    GR_CHECK(n_moved > 1000); /* else the random graphs test nothing */
    test_out_of_memory();
    return 0;
}

/* The memory plan: what lives at the same time never overlaps, and little is wasted. */
#include "exec/layout.h"

#include "alloc_fail.h"
#include "exec/fake.h"
#include "exec/schedule.h"

#define MAX_PLACES 400
#define ALIGN      ((size_t)64)

typedef struct planned {
    fake_world *w;
    gr_arena *arena;
    gr_node **order;
    size_t work_bytes[MAX_PLACES];
    gr_layout l;
} planned;

static gr_status try_plan(planned *p, fake_world *w)
{
    gr_layout_input in = { .g = w->g, .align = ALIGN };

    *p = (planned){ .w = w };
    GR_CHECK(w->g->n_nodes < MAX_PLACES);
    GR_TRY(gr_arena_create(&p->arena));
    GR_TRY(gr_schedule_make(p->arena, w->g, NULL, &p->order));
    for (int i = 0; i < w->g->n_nodes; i++)
        if (p->order[i]->op == &fake_work || p->order[i]->op == &fake_aside)
            p->work_bytes[i] = ((const fake_attr *)p->order[i]->attr)->work_bytes;
    in.order = p->order;
    in.work_bytes = p->work_bytes;
    return gr_layout_make(p->arena, &in, &p->l);
}

static void plan(planned *p, fake_world *w)
{
    GR_CHECK_OK(try_plan(p, w));
}

static void plan_fini(planned *p)
{
    gr_arena_destroy(p->arena);
    fake_world_fini(p->w);
}

static const gr_extent *extent(const planned *p, const gr_value *v)
{
    int i = p->l.of_value[gr_value_root(v)->id];

    GR_CHECK(i >= 0);
    return &p->l.extents[i];
}

static bool overlap(const gr_extent *a, const gr_extent *b)
{
    return a->offset < b->offset + b->n_bytes && b->offset < a->offset + a->n_bytes;
}

/* ---- lives ---- */

static void test_chain_uses_two_places(void)
{
    fake_world w;
    planned p;
    gr_value *v;

    fake_world_init(&w);
    v = fake_source(w.g, "first", 1000);
    for (int i = 0; i < 20; i++)
        v = fake_node(w.g, &fake_work, "next", 1000, v);
    gr_output(w.g, "out", v);
    plan(&p, &w);
    GR_CHECK_EQ(p.l.n_bytes, 2 * 1024);
    GR_CHECK_EQ(p.l.least_bytes, 2 * 1024);
    GR_CHECK_EQ(p.l.sum_bytes, 21 * 1024);
    plan_fini(&p);
}

/* A view, and a view of a view, keep what they show alive. */
static void test_alias_extends_life(void)
{
    fake_world w;
    planned p;
    gr_value *a, *view, *other;

    fake_world_init(&w);
    a = fake_source(w.g, "a", 100);
    view = fake_node(w.g, &fake_view, "view", 0, a);
    view = fake_node(w.g, &fake_view, "view", 0, view);
    other = fake_source(w.g, "other", 100);
    fake_node(w.g, &fake_work, "reader", 10, view);
    plan(&p, &w);
    GR_CHECK_EQ(extent(&p, a)->last, 4);
    GR_CHECK(extent(&p, a) == extent(&p, view));
    GR_CHECK(!overlap(extent(&p, a), extent(&p, other)));
    plan_fini(&p);
}

static void test_outputs_live_to_the_end(void)
{
    fake_world w;
    planned p;
    gr_value *out, *loss, *control, *view;

    fake_world_init(&w);
    out = fake_source(w.g, "out", 100);
    view = fake_node(w.g, &fake_view, "view", 0, out);
    loss = fake_source(w.g, "loss", 100);
    control = fake_source(w.g, "control", 100);
    fake_source(w.g, "unread", 100);
    fake_source(w.g, "unread", 100);
    gr_output(w.g, "out", view);
    w.g->loss = loss;
    w.g->control = control;
    plan(&p, &w);
    GR_CHECK_EQ(extent(&p, out)->last, w.g->n_nodes);
    GR_CHECK_EQ(extent(&p, loss)->last, w.g->n_nodes);
    GR_CHECK_EQ(extent(&p, control)->last, w.g->n_nodes);
    GR_CHECK_EQ(p.l.n_bytes, 4 * 128); /* the unread ones share one place */
    plan_fini(&p);
}

/* What a start took lives until its token is read, though nobody else reads it. */
static void test_token_holds_sources(void)
{
    fake_world w;
    planned p;
    gr_value *a, *token, *x;

    fake_world_init(&w);
    a = fake_source(w.g, "a", 100);
    token = fake_node(w.g, &fake_start, "start", 0, a);
    x = fake_source(w.g, "x", 100);
    fake_node(w.g, &fake_work, "wait", 100, token, x);
    plan(&p, &w);
    GR_CHECK_EQ(extent(&p, a)->last, 3);
    GR_CHECK(p.l.of_value[token->id] < 0);
    plan_fini(&p);
}

static void test_workspace(void)
{
    fake_world w;
    planned p;
    gr_value *a, *b;

    fake_world_init(&w);
    a = fake_add(w.g, &fake_work, "a", (fake_attr){ 100, 1000 }, NULL, 0);
    b = fake_add(w.g, &fake_work, "b", (fake_attr){ 100, 900 }, &a, 1);
    gr_output(w.g, "b", b);
    plan(&p, &w);
    GR_CHECK(p.l.of_work[0] >= 0 && p.l.of_work[1] >= 0);
    GR_CHECK_EQ(p.l.extents[p.l.of_work[0]].last, 0);
    GR_CHECK(!overlap(&p.l.extents[p.l.of_work[1]], extent(&p, a)));
    GR_CHECK(!overlap(&p.l.extents[p.l.of_work[1]], extent(&p, b)));
    GR_CHECK_EQ(p.l.n_bytes, p.l.least_bytes);
    plan_fini(&p);
}

static void test_empty(void)
{
    fake_world w;
    planned p;
    gr_value *a;

    fake_world_init(&w);
    plan(&p, &w);
    GR_CHECK_EQ(p.l.n_bytes, 0);
    plan_fini(&p);

    fake_world_init(&w);
    a = fake_source(w.g, "a", 0);
    plan(&p, &w);
    GR_CHECK(extent(&p, a)->offset < p.l.n_bytes); /* an address inside the arena */
    plan_fini(&p);
}

static void test_other_spaces_take_nothing(void)
{
    fake_world w;
    planned p;
    gr_value *a;

    fake_world_init(&w);
    gr_input(w.g, "in0");
    a = fake_source(w.g, "a", 100);
    a->space = GR_SPACE_EXCHANGE;
    plan(&p, &w);
    GR_CHECK_EQ(p.l.n_bytes, 0);
    plan_fini(&p);
}

static void test_overflow(void)
{
    fake_world w;
    planned p;

    fake_world_init(&w);
    for (int i = 0; i < 5; i++)
        fake_source(w.g, "huge.c:7", (int64_t)1 << 62);
    GR_CHECK_FAILS(try_plan(&p, &w), GR_ERR_ARG, "huge.c:7");
    plan_fini(&p);

    fake_world_init(&w);
    fake_add(w.g, &fake_work, "wide.c:9", (fake_attr){ 1, SIZE_MAX }, NULL, 0);
    GR_CHECK_FAILS(try_plan(&p, &w), GR_ERR_ARG, "wide.c:9");
    plan_fini(&p);
}

/* ---- random graphs, against the definition ---- */

static bool touches(const gr_node *n, const gr_value *root)
{
    for (int i = 0; i < n->n_src; i++) {
        const gr_value *v = n->src[i];

        if (gr_value_root(v) == root)
            return true;
        if (v->space == GR_SPACE_NONE && touches(v->node, root))
            return true;
    }
    for (int i = 0; i < n->n_out; i++)
        if (gr_value_root(&n->out[i]) == root)
            return true;
    return false;
}

static bool is_alive(const planned *p, const gr_value *root, int place)
{
    const gr_graph *g = p->w->g;
    bool is_born = false;

    for (int i = 0; i <= place && !is_born; i++)
        is_born = p->order[i] == root->node;
    if (!is_born)
        return false;
    for (int i = 0; i < g->n_outputs; i++)
        if (gr_value_root(g->outputs[i].value) == root)
            return true;
    for (int i = place; i < g->n_nodes; i++)
        if (touches(p->order[i], root))
            return true;
    return false;
}

/* Of everything that is alive at one place, no two overlap. */
static void check_place(const planned *p, int place)
{
    const gr_extent *alive[MAX_PLACES];
    int n = 0;

    for (int i = 0; i < p->w->g->n_values; i++) {
        const gr_value *v = p->w->g->values[i];

        if (v->alias || v->space != GR_SPACE_ARENA || !is_alive(p, v, place))
            continue;
        alive[n++] = extent(p, v);
        GR_CHECK(extent(p, v)->n_bytes >= gr_value_bytes(v));
    }
    if (p->work_bytes[place] > 0) {
        alive[n++] = &p->l.extents[p->l.of_work[place]];
        GR_CHECK(alive[n - 1]->n_bytes >= p->work_bytes[place]);
    }
    for (int i = 0; i < n; i++) {
        GR_CHECK(alive[i]->offset % ALIGN == 0);
        GR_CHECK(alive[i]->offset + alive[i]->n_bytes <= p->l.n_bytes);
        for (int k = 0; k < i; k++)
            GR_CHECK(!overlap(alive[i], alive[k]));
    }
}

static void test_random_graphs(void)
{
    size_t n_bytes = 0, least = 0, sum = 0;

    for (uint32_t seed = 0; seed < 60; seed++) {
        fake_world w;
        planned p;

        fake_world_random(&w, seed, 80);
        plan(&p, &w);
        for (int i = 0; i < w.g->n_nodes; i++)
            check_place(&p, i);
        GR_CHECK(p.l.least_bytes <= p.l.n_bytes && p.l.n_bytes <= p.l.sum_bytes);
        n_bytes += p.l.n_bytes;
        least += p.l.least_bytes;
        sum += p.l.sum_bytes;
        plan_fini(&p);
    }
    /* Best fit stays close to the bound here; far from it means that it broke. */
    GR_CHECK_NEAR((double)n_bytes / (double)least, 1.0, 0.05);
    GR_CHECK(sum > least + least / 4);
}

/* Sizes and lives of a network with a backward pass: n layers, each keeps one value for
 * its gradient, and gradients live for one step only. */
static void test_training_shape(void)
{
    enum { N = 50 };
    gr_extent e[2 * N];
    gr_layout l = { .extents = e };

    for (int i = 0; i < N; i++) {
        size_t n_bytes = ALIGN * (size_t)(1 + i * 7 % 13);

        e[l.n_extents++] = (gr_extent){ .n_bytes = n_bytes, .first = i, .last = 2 * N - i };
        e[l.n_extents++] =
            (gr_extent){ .n_bytes = n_bytes, .first = 2 * N - i, .last = 2 * N - i + 1 };
    }
    GR_CHECK_OK(gr_layout_place(&l));
    for (int i = 0; i < l.n_extents; i++)
        for (int k = 0; k < i; k++)
            if (e[i].first <= e[k].last && e[k].first <= e[i].last)
                GR_CHECK(!overlap(&e[i], &e[k]));
    GR_CHECK(l.n_bytes <= l.least_bytes + l.least_bytes / 20);
}

static gr_status layout_body(void *arg)
{
    planned p;
    gr_status st = try_plan(&p, (fake_world *)arg);

    gr_arena_destroy(p.arena);
    return st;
}

static void test_out_of_memory(void)
{
    fake_world w;

    fake_world_random(&w, 3, 60);
    GR_CHECK(gr_alloc_fail_each(layout_body, &w) > 4);
    fake_world_fini(&w);
}

int main(void)
{
    test_chain_uses_two_places();
    test_alias_extends_life();
    test_outputs_live_to_the_end();
    test_token_holds_sources();
    test_workspace();
    test_empty();
    test_other_spaces_take_nothing();
    test_overflow();
    test_random_graphs();
    test_training_shape();
    test_out_of_memory();
    return 0;
}

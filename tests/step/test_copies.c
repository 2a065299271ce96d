/*
 * Parameters that are kept in 16 bits as well (pass/copies.c): the bits of a step that casts them
 * anew, whatever writes parameters in between: updates of all kinds, snapshots, another rank.
 */
#include "base/half.h"
#include "check.h"
#include "step/private.h"
#include "step/world.h"

#include <string.h>

static gr_step_config config(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace_mlp;
    c.device = "cpu";
    c.amp = GR_AMP_BF16;
    c.first_bucket_bytes = 64;
    c.bucket_bytes = 512;
    return c;
}

static job make_job(gr_step_config c, int n_steps)
{
    return (job){ .c = c, .global_batch = 24, .n_steps = n_steps };
}

/* Six steps, and two, a snapshot and four; each with copies and without. */
static void test_same_bits(const gr_step_config *c, int n_ranks)
{
    job whole = make_job(*c, 6), cast = make_job(*c, 6), head = make_job(*c, 2);
    job tail = make_job(*c, 4);

    cast.c.without = "copies";
    run_ranks(&whole, n_ranks);
    run_ranks(&cast, n_ranks);
    check_same_state(whole.end, cast.end);
    run_ranks(&head, n_ranks);
    tail.first = 2;
    tail.start = head.end;
    run_ranks(&tail, n_ranks);
    check_same_state(whole.end, tail.end);
    GR_CHECK(memcmp(whole.loss + 2, tail.loss, 4 * sizeof(float)) == 0);
    gr_snapshot_destroy(whole.end);
    gr_snapshot_destroy(cast.end);
    gr_snapshot_destroy(head.end);
    gr_snapshot_destroy(tail.end);
}

static void test_kinds(int n_ranks)
{
    gr_step_config c = config();

    test_same_bits(&c, n_ranks);
    c.optim.momentum = 0.9;
    c.clip_norm = 0.5;
    test_same_bits(&c, n_ranks);
    c = config();
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    c.ema_decay = 0.9;
    c.accumulate = 2;
    test_same_bits(&c, n_ranks);
    c.amp = GR_AMP_F16;
    c.freeze = "fc1.weight";
    test_same_bits(&c, n_ranks);
}

static int count_copies(const gr_step *s)
{
    int n = 0;

    for (int i = 0; i < s->vars->n; i++)
        n += s->vars->list[i]->kind == GR_VAR_COPY;
    return n;
}

/* Every copy is its parameter, rounded. */
static void check_copies(const gr_step *s, bool common)
{
    for (int i = 0; i < s->vars->n; i++) {
        const gr_var *v = s->vars->list[i];
        const char *state = s->bases.state;
        const float *param;
        const uint16_t *copy;

        if (v->kind != GR_VAR_COPY)
            continue;
        GR_CHECK_EQ(v->common, common);
        param = (const float *)(state + v->copy_of->offset);
        copy = (const uint16_t *)(state + v->offset);
        for (int64_t k = 0; k < gr_shape_count(&v->shape); k++)
            GR_CHECK_EQ(copy[k], gr_f32_to_bf16(param[k]));
    }
}

/* What products read in 16 bits, backwards too, has a copy: two weights of three (nobody asks for
 * the gradient of the input), no bias. Snapshots do not know of it. */
static void copies_rank(gr_pg *pg, void *arg)
{
    gr_step_config c = config();
    bool common = *(const bool *)arg;
    batch *b = malloc(sizeof(*b));
    gr_check_report report;
    gr_snapshot *snap;
    gr_step *s;

    c.pg = pg;
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    GR_CHECK_EQ(count_copies(s), 3);
    check_copies(s, common);
    GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.125));
    GR_CHECK_OK(gr_step_eval(s, b->feeds, 2));
    check_copies(s, common);
    /* Other shapes, and a step that is looked at, have plans of their own. */
    batch_fill(b, false, 1, 0, 4);
    GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.125));
    GR_CHECK_OK(gr_step_run_checked(s, b->feeds, 2, 0.125, &report));
    check_copies(s, common);
    GR_CHECK_OK(gr_step_save(s, &snap));
    GR_CHECK(!gr_snapshot_find(snap, "16-bit fc2.weight") && gr_snapshot_find(snap, "fc2.weight"));
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
    free(b);
}

static void test_copies(int n_ranks, bool common)
{
    if (n_ranks > 1)
        each_rank(n_ranks, copies_rank, &common);
    else
        copies_rank(NULL, &common);
}

/* Casts of the trace's own: to both types, of which views are products' operands, and one that is
 * an output; a module called "low", and a parameter that is read as it is, too. */
static gr_status trace_casts(gr_graph *g, void *user)
{
    gr_value *w = gr_param(g, "w", GR_SHAPE(12, 16), gr_init_uniform(-0.3, 0.3));
    gr_value *low = gr_param(g, "low.w", GR_SHAPE(16, 16), gr_init_uniform(-0.3, 0.3));
    gr_value *v = gr_param(g, "v", GR_SHAPE(16 * 5), gr_init_uniform(-0.3, 0.3));
    gr_value *half = gr_cast(g, gr_cast(g, w, GR_F16), GR_F32), *view;
    gr_value *h = gr_tanh(g, gr_matmul(g, gr_input(g, "x"), w));

    (void)user;
    h = gr_add(g, gr_matmul(g, h, low), gr_matmul(g, gr_input(g, "x"), half));
    view = gr_reshape(g, gr_cast(g, v, GR_BF16), GR_SHAPE(16, 5));
    gr_output(g, "low v", gr_cast(g, v, GR_BF16));
    gr_output(g, "view", view);
    h = gr_add(g, gr_matmul(g, h, view), gr_mean(g, gr_square(g, low), GR_AXES_ALL, false));
    gr_loss(g, gr_cross_entropy(g, h, gr_input(g, "y")));
    return gr_graph_status(g);
}

static void test_user_casts(void)
{
    gr_step_config c = config();

    c.trace = trace_casts;
    test_same_bits(&c, 1);
    test_same_bits(&c, 2);
    c.amp = GR_AMP_F16;
    test_same_bits(&c, 2);
}

/* Memory that recompute was asked to save is not taken by copies. */
static void test_recompute(void)
{
    gr_step_config c = config();
    batch *b = malloc(sizeof(*b));
    gr_step *s;

    c.recompute = GR_RECOMPUTE_ALL;
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    GR_CHECK_EQ(count_copies(s), 0);
    gr_step_destroy(s);
    free(b);
}

/* Rank 0 has other numbers than its peers, which get them. */
static void broadcast_rank(gr_pg *pg, void *arg)
{
    gr_step_config c = config();
    batch *b = malloc(sizeof(*b));
    gr_step *s;

    (void)arg;
    c.pg = pg;
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    if (gr_pg_rank(pg) == 0) {
        gr_snapshot *snap;

        GR_CHECK_OK(gr_step_save(s, &snap));
        for (int i = 0; i < gr_snapshot_count(snap); i++)
            if (gr_snapshot_at(snap, i)->dtype == GR_F32)
                *(float *)gr_snapshot_at(snap, i)->mem = 0.3f;
        GR_CHECK_OK(gr_step_restore(s, snap));
        gr_snapshot_destroy(snap);
    }
    GR_CHECK_OK(gr_step_broadcast(s, 0));
    check_copies(s, false);
    GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.125));
    check_copies(s, false);
    gr_step_destroy(s);
    free(b);
}

int main(void)
{
    GR_CHECK_EQ(unsetenv("GR_COMMON_FROM"), 0);
    test_copies(1, false);
    test_copies(2, false);
    each_rank(2, broadcast_rank, NULL);
    test_kinds(1);
    test_kinds(2);
    test_recompute();
    test_user_casts();
    GR_CHECK_EQ(setenv("GR_COMMON_FROM", "0", 1), 0);
    test_user_casts();
    test_copies(3, true);
    test_kinds(2);
    test_kinds(3);
    return 0;
}

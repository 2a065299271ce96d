/*
 * The checked run: the same bits as training when all is well; else the first bad value by
 * name, place and source line, and a state that was not touched.
 */

#include "alloc_fail.h"
#include "check.h"
#include "step/world.h"

static gr_step_config config(gr_trace_fn *trace)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace;
    c.device = "cpu";
    c.seed = 4;
    return c;
}

static gr_snapshot *train(int accumulate, bool checked)
{
    gr_step_config c = config(trace_mlp);
    batch *b = malloc(sizeof(*b));
    gr_check_report r;
    gr_snapshot *snap;
    gr_step *s;

    c.accumulate = accumulate;
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    GR_CHECK_OK(gr_step_create(&s, &c));
    for (int i = 0; i < 6; i++) {
        batch_fill(b, false, i, 0, 8);
        if (checked)
            GR_CHECK_OK(gr_step_run_checked(s, b->feeds, 2, 0.01, &r));
        else
            GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.01));
        GR_CHECK(!checked || r.kind == GR_CHECK_CLEAN);
    }
    GR_CHECK_OK(gr_step_save(s, &snap));
    gr_step_destroy(s);
    free(b);
    return snap;
}

static void test_clean(void)
{
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        gr_snapshot *plain = train(accumulate, false), *checked = train(accumulate, true);

        check_same_state(plain, checked);
        gr_snapshot_destroy(plain);
        gr_snapshot_destroy(checked);
    }
}

/* log of a value that is 0 where x is; minus infinity as a mask, which is fine. */
static gr_status trace_log(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_value *w = gr_param(g, "w", GR_SHAPE(3), gr_init_const(2));
    gr_value *y = gr_mul(g, x, w);
    gr_value *hidden =
        gr_where(g, gr_map2_at(GR_HERE, g, "gt", x, gr_fill(g, GR_F32, GR_SHAPE(1), 2)),
                 gr_fill(g, GR_F32, GR_SHAPE(1), -INFINITY), x);

    *(int *)user = __LINE__ + 1;
    y = gr_log_e(g, y);
    y = gr_add(g, y, gr_exp(g, hidden));
    gr_loss(g, gr_mul_k(g, gr_mean(g, y, GR_AXES_ALL, false), 100));
    return gr_graph_status(g);
}

static gr_snapshot *save(gr_step *s)
{
    gr_snapshot *snap;

    GR_CHECK_OK(gr_step_save(s, &snap));
    return snap;
}

/* The state is what it was in `before`, which is freed. */
static void check_untouched(gr_step *s, gr_snapshot *before)
{
    gr_snapshot *after = save(s);

    check_same_state(before, after);
    gr_snapshot_destroy(before);
    gr_snapshot_destroy(after);
}

static void test_found(void)
{
    int line = 0;
    float x[6] = { 1, 2, 3, 4, 0, 1 };
    gr_named feed = { "x", GR_F32, GR_SHAPE(2, 3), x };
    gr_step_config c = config(trace_log);
    char site[64];
    gr_check_report r;
    gr_snapshot *before;
    gr_step *s;

    c.user = &line;
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_plan(s, true, &feed, 1));
    before = save(s);
    GR_CHECK_OK(gr_step_run_checked(s, &feed, 1, 0.1, &r));
    GR_CHECK_EQ(r.kind, GR_CHECK_NODE);
    snprintf(site, sizeof(site), "test_checked.c:%d", line);
    GR_CHECK(strstr(r.site, site) != NULL);
    GR_CHECK_STR(r.name, "map");
    GR_CHECK_EQ(r.element, 4);
    GR_CHECK_EQ(r.n_inf, 1);
    GR_CHECK_EQ(r.n_nan, 0);
    GR_CHECK(r.value < 0 && !r.is_overflow);
    GR_CHECK(strstr(r.text, "log(r0)") && strstr(r.text, "first at [1, 1] is -inf"));
    GR_CHECK(strstr(r.text, "0 to 8, 1 zeros"));
    check_untouched(s, before);

    x[4] = 1; /* what is hidden by minus infinity stays no finding */
    GR_CHECK_OK(gr_step_run_checked(s, &feed, 1, 0.001, &r));
    GR_CHECK_EQ(r.kind, GR_CHECK_CLEAN);

    before = save(s);
    GR_CHECK_OK(gr_step_run_checked(s, &feed, 1, 3e38, &r));
    GR_CHECK_EQ(r.kind, GR_CHECK_UPDATE);
    GR_CHECK_STR(r.name, "w");
    GR_CHECK(strstr(r.text, " of 3 elements; the first at ")); /* of the result alone: */
    GR_CHECK(!strstr(strstr(r.text, "source 0: 'w'"), "inf of"));
    check_untouched(s, before);

    x[2] = NAN;
    before = save(s);
    GR_CHECK_OK(gr_step_run_checked(s, &feed, 1, 0.1, &r));
    GR_CHECK_EQ(r.kind, GR_CHECK_INPUT);
    GR_CHECK_STR(r.name, "x");
    GR_CHECK_EQ(r.element, 2);
    check_untouched(s, before);

    x[2] = 1;
    before = save(s);
    ((float *)gr_snapshot_find(before, "w")->mem)[1] = NAN;
    GR_CHECK_OK(gr_step_restore(s, before));
    GR_CHECK_OK(gr_step_run_checked(s, &feed, 1, 0.1, &r));
    GR_CHECK_EQ(r.kind, GR_CHECK_STATE);
    GR_CHECK_STR(r.name, "w");
    GR_CHECK(strstr(r.text, "variable 'w' f32 [3]"));
    gr_snapshot_destroy(before);
    GR_CHECK_FAILS(gr_step_run_checked(s, &feed, 1, NAN, &r), GR_ERR_ARG, "learning rate");
    gr_step_destroy(s);
}

static gr_status trace_f16(gr_graph *g, void *user)
{
    gr_value *w = gr_param(g, "w", GR_SHAPE(4, 4), gr_init_const(30000));

    (void)user;
    gr_loss(g, gr_mean(g, gr_matmul(g, gr_input(g, "x"), w), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void test_overflow(void)
{
    float x[8] = { 1, 1, 1, 1, 0, 0, 0, 1 };
    gr_named feed = { "x", GR_F32, GR_SHAPE(2, 4), x };
    gr_step_config c = config(trace_f16);
    gr_check_report r;
    gr_step *s;

    c.amp = GR_AMP_F16;
    c.init_scale = 1;
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_run_checked(s, &feed, 1, 0.1, &r));
    GR_CHECK_EQ(r.kind, GR_CHECK_NODE);
    GR_CHECK_STR(r.name, "matmul");
    GR_CHECK(r.is_overflow);
    GR_CHECK_EQ(r.n_inf, 4);
    GR_CHECK(strstr(r.text, "f16 ends at 65504"));
    gr_step_destroy(s);
}

/* Two ranks, bad data on one: none of them changes its state, and nobody hangs. */
static void run_bad_rank(gr_pg *pg, void *arg)
{
    gr_check_kind *kind = arg; /* by rank */
    gr_step_config c = config(trace_mlp);
    batch *b = malloc(sizeof(*b));
    gr_snapshot *before;
    gr_check_report r;
    gr_step *s;

    c.pg = pg;
    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, gr_pg_rank(pg) * 8, 8);
    if (gr_pg_rank(pg) == 1)
        b->x[3] = NAN;
    GR_CHECK_OK(gr_step_plan(s, true, b->feeds, 2));
    before = save(s);
    GR_CHECK_OK(gr_step_run_checked(s, b->feeds, 2, 0.1, &r));
    kind[gr_pg_rank(pg)] = r.kind;
    check_untouched(s, before);
    gr_step_destroy(s);
    free(b);
}

/* Without an exchange nothing bad reaches the others: they are told. What comes next is as if the
 * bad micro-step had not been. */
static void run_bad_micro_step(gr_pg *pg, void *arg)
{
    gr_check_kind *kind = arg; /* by rank */
    gr_step_config c = config(trace_mlp);
    batch *b = malloc(sizeof(*b));
    gr_snapshot *after[2];
    gr_check_report r;
    gr_step *s;

    c.pg = pg;
    c.accumulate = 2;
    for (int bad = 0; bad < 2; bad++) {
        GR_CHECK_OK(gr_step_create(&s, &c));
        batch_fill(b, false, 0, gr_pg_rank(pg) * 8, 8);
        if (bad) {
            float kept = b->x[3];

            b->x[3] = gr_pg_rank(pg) == 1 ? NAN : kept;
            GR_CHECK_OK(gr_step_run_checked(s, b->feeds, 2, 0.1, &r));
            kind[gr_pg_rank(pg)] = r.kind;
            GR_CHECK(r.kind != GR_CHECK_PEER || strstr(r.text, "another rank found"));
            b->x[3] = kept;
        }
        for (int i = 0; i < 2; i++) {
            GR_CHECK_OK(gr_step_run_checked(s, b->feeds, 2, 0.1, &r));
            GR_CHECK_EQ(r.kind, GR_CHECK_CLEAN);
        }
        after[bad] = save(s);
        gr_step_destroy(s);
    }
    check_same_state(after[0], after[1]);
    gr_snapshot_destroy(after[0]);
    gr_snapshot_destroy(after[1]);
    free(b);
}

static void test_peer(void)
{
    gr_check_kind kind[2];

    each_rank(2, run_bad_micro_step, kind);
    GR_CHECK(kind[0] == GR_CHECK_PEER);
    GR_CHECK(kind[1] == GR_CHECK_INPUT);
}

/* NaN has a sign, which x86 sets and printf shows. */
static void test_nan_in_words(void)
{
    gr_step_config c = config(trace_mlp);
    batch *b = malloc(sizeof(*b));
    gr_check_report r;
    gr_step *s;

    GR_CHECK_OK(gr_step_create(&s, &c));
    batch_fill(b, false, 0, 0, 8);
    b->x[3] = copysignf(NAN, -1);
    GR_CHECK_OK(gr_step_run_checked(s, b->feeds, 2, 0.1, &r));
    GR_CHECK(strstr(r.text, "is nan") && !strstr(r.text, "-nan"));
    gr_step_destroy(s);
    free(b);
}

static void test_ranks(void)
{
    gr_check_kind kind[2];

    each_rank(2, run_bad_rank, kind);
    GR_CHECK(kind[0] == GR_CHECK_NODE); /* NaN came back with the gradients */
    GR_CHECK(kind[1] == GR_CHECK_INPUT);
}

static gr_status check_once(void *arg)
{
    gr_step_config c = config(trace_mlp);
    gr_check_report r;
    gr_step *s;
    gr_status st;

    GR_TRY(gr_step_create(&s, &c));
    st = gr_step_run_checked(s, ((batch *)arg)->feeds, 2, 0.1, &r);
    gr_step_destroy(s);
    return st;
}

int main(void)
{
    batch *b = malloc(sizeof(*b));

    test_clean();
    test_found();
    test_overflow();
    test_ranks();
    test_peer();
    test_nan_in_words();
    batch_fill(b, false, 0, 0, 8);
    GR_CHECK(gr_alloc_fail_each(check_once, b) > 20);
    free(b);
    return 0;
}

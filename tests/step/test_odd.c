/*
 * Unusual but legal graphs and calls, each of which once went wrong: outputs that are inputs
 * or parameters, shared gradients, tied weights under amp, bad data, plans that do not fit.
 */
#include <pthread.h>
#include <string.h>

#include "check.h"
#include "gradus/gradus.h"

static gr_step *open_step(gr_trace_fn *trace, gr_step_config c)
{
    gr_step *s;

    c.trace = trace;
    c.device = "cpu";
    GR_CHECK_OK(gr_step_create(&s, &c));
    return s;
}

static const gr_step_config defaults = GR_STEP_CONFIG_INIT;

static float read1(gr_step *s, const char *name)
{
    float x = -99;

    GR_CHECK_OK(gr_step_read(s, name, (gr_vec){ &x, 1, GR_F32 }));
    return x;
}

static gr_status trace_outputs(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_value *w = gr_param(g, "w", GR_SHAPE(1), gr_init_const(3));

    (void)user;
    gr_output(g, "x", x);
    gr_output(g, "w", w);
    gr_loss(g, gr_reshape(g, gr_mul(g, w, gr_fill(g, GR_F32, GR_SHAPE(1), 1)), GR_SCALAR));
    return gr_graph_status(g);
}

static void test_outputs_keep_their_value(void)
{
    gr_step *s = open_step(trace_outputs, defaults);
    float x = 1;
    gr_named feed = { "x", GR_F32, GR_SHAPE(1), &x };

    GR_CHECK_OK(gr_step_train(s, &feed, 1, 1));
    x = 77; /* the caller's to reuse */
    GR_CHECK(read1(s, "x") == 1);
    GR_CHECK(read1(s, "w") == 3); /* before the update: what the loss was made of */
    GR_CHECK(read1(s, "loss") == 3);
    GR_CHECK_OK(gr_step_eval(s, &feed, 1));
    GR_CHECK(read1(s, "w") == 2);
    gr_step_destroy(s);
}

/* ---- bad data changes nothing ---- */

static gr_status trace_rows(gr_graph *g, void *user)
{
    gr_value *table = gr_param(g, "table", GR_SHAPE(4, 2), gr_init_const(1));

    (void)user;
    gr_loss(g, gr_sum(g, gr_gather(g, table, gr_input(g, "i")), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void test_bad_data_changes_nothing(int accumulate)
{
    gr_step_config c = defaults;
    int32_t good[2] = { 1, 2 }, bad[2] = { 1, 9 };
    gr_named feed = { "i", GR_I32, GR_SHAPE(2), good };
    gr_snapshot *a, *b;
    gr_step *s, *t;

    c.accumulate = accumulate;
    c.optim = (gr_optim)GR_OPTIM_ADAMW_INIT;
    s = open_step(trace_rows, c);
    t = open_step(trace_rows, c);
    for (int i = 0; i < 2 * accumulate; i++) {
        feed.mem = good;
        GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.1));
        GR_CHECK_OK(gr_step_train(t, &feed, 1, 0.1));
        feed.mem = bad;
        GR_CHECK_FAILS(gr_step_train(t, &feed, 1, 0.1), GR_ERR_ARG, "index 9 at row 1");
    }
    GR_CHECK_OK(gr_step_save(s, &a));
    GR_CHECK_OK(gr_step_save(t, &b));
    for (int i = 0; i < gr_snapshot_count(a); i++) {
        const gr_named *x = gr_snapshot_at(a, i), *y = gr_snapshot_find(b, x->name);

        GR_CHECK_EQ(
            memcmp(x->mem, y->mem, (size_t)gr_shape_count(&x->shape) * gr_dtype_bytes(x->dtype)),
            0);
    }
    gr_snapshot_destroy(a);
    gr_snapshot_destroy(b);
    gr_step_destroy(s);
    gr_step_destroy(t);
}

/* ---- gradients: tied, viewed and shared ---- */

/* 257 rows of ones: a count that bf16 cannot hold. user: 0 plain, 1 tied, 2 through a view. */
static gr_status trace_tied(gr_graph *g, void *user)
{
    int how = *(int *)user;
    gr_value *x = gr_input(g, "x");
    gr_value *w = gr_param(g, "w", how == 2 ? GR_SHAPE(1) : GR_SHAPE(1, 1), gr_init_const(0));
    gr_value *y = gr_matmul(g, x, how == 2 ? gr_reshape(g, w, GR_SHAPE(1, 1)) : w);

    if (how == 1)
        y = gr_add(g, y, gr_matmul(g, x, w));
    gr_loss(g, gr_sum(g, y, GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void test_gradients_stay_wide(int how, double want)
{
    static float x[257];
    gr_named feed = { "x", GR_F32, GR_SHAPE(257, 1), x };
    gr_step_config c = defaults;
    gr_snapshot *snap;
    gr_step *s;

    for (int i = 0; i < 257; i++)
        x[i] = 1;
    c.amp = GR_AMP_BF16;
    c.user = &how;
    s = open_step(trace_tied, c);
    GR_CHECK_OK(gr_step_train(s, &feed, 1, 1));
    GR_CHECK_OK(gr_step_save(s, &snap));
    GR_CHECK_NEAR(-*(const float *)gr_snapshot_find(snap, "w")->mem, want, 0);
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
}

static gr_status trace_shared(gr_graph *g, void *user)
{
    gr_value *a = gr_param(g, "a", GR_SHAPE(4), gr_init_const(0));
    gr_value *b = gr_param(g, "b", GR_SHAPE(4), gr_init_const(0));

    (void)user;
    gr_loss(g, gr_sum(g, gr_mul(g, gr_add(g, a, b), gr_input(g, "x")), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void *shared_rank(void *arg)
{
    gr_pg *pg = arg;
    float x[4] = { 1, 2, 3, 4 };
    gr_named feed = { "x", GR_F32, GR_SHAPE(4), x };
    gr_step_config c = defaults;
    gr_snapshot *snap;
    gr_step *s;

    c.pg = pg;
    c.bucket_bytes = c.first_bucket_bytes = 1;
    s = open_step(trace_shared, c);
    GR_CHECK_OK(gr_step_train(s, &feed, 1, 1));
    GR_CHECK_OK(gr_step_save(s, &snap));
    for (int i = 0; i < 4; i++) {
        GR_CHECK_NEAR(((const float *)gr_snapshot_find(snap, "a")->mem)[i], -x[i], 0);
        GR_CHECK_NEAR(((const float *)gr_snapshot_find(snap, "b")->mem)[i], -x[i], 0);
    }
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
    gr_pg_destroy(pg);
    return NULL;
}

static void test_shared_gradient_in_two_buckets(void)
{
    gr_pg_config pc = GR_PG_CONFIG_INIT;
    gr_pg *pg[2];
    pthread_t t[2];

    GR_CHECK_OK(gr_pg_create_threads(pg, 2, &pc));
    for (int i = 0; i < 2; i++)
        GR_CHECK_EQ(pthread_create(&t[i], NULL, shared_rank, pg[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
}

/* ---- f64 under amp ---- */

static gr_status trace_f64(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_value *y = gr_matmul(g, x, gr_param(g, "w", GR_SHAPE(1, 1), gr_init_const(1)));
    gr_value *d = gr_sub(g, y, gr_input(g, "target"));

    (void)user;
    gr_output(g, "d", d);
    gr_loss(g, gr_mean(g, gr_cast(g, d, GR_F32), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void test_amp_leaves_f64_alone(void)
{
    float x = 7;
    double target = 1000.125, d = 0;
    gr_named feeds[2] = { { "x", GR_F32, GR_SHAPE(1, 1), &x },
                          { "target", GR_F64, GR_SHAPE(1, 1), &target } };
    gr_step_config c = defaults;
    gr_step *s;

    c.amp = GR_AMP_BF16;
    s = open_step(trace_f64, c);
    GR_CHECK_OK(gr_step_train(s, feeds, 2, 0.1));
    GR_CHECK_OK(gr_step_read(s, "d", (gr_vec){ &d, 1, GR_F64 }));
    GR_CHECK_NEAR(d, 7 - 1000.125, 0);
    gr_step_destroy(s);
}

/* ---- what mixed precision leaves f32, of low values ---- */

static gr_status trace_cross(gr_graph *g, void *user)
{
    gr_value *w = gr_param(g, "w", GR_SHAPE(1, 3), gr_init_const(1));
    gr_value *a = gr_matmul(g, gr_input(g, "x"), w);
    gr_value *axis = gr_broadcast(g, gr_input(g, "axis"), GR_SHAPE(2, 3));

    (void)user;
    gr_output(g, "cross", gr_cross(g, a, axis));
    gr_loss(g, gr_sum(g, gr_cross(g, a, axis), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void test_amp_casts_for_cross(void)
{
    static const float want[6] = { 2, -2, 0, 3, -3, 0 };
    float x[2] = { 1, 1.5f }, axis[3] = { 1, 1, 3 }, y[6];
    gr_named feeds[2] = { { "x", GR_F32, GR_SHAPE(2, 1), x },
                          { "axis", GR_F32, GR_SHAPE(3), axis } };
    gr_step_config c = defaults;
    gr_snapshot *snap;
    gr_step *s;

    c.amp = GR_AMP_BF16;
    s = open_step(trace_cross, c);
    GR_CHECK_OK(gr_step_train(s, feeds, 2, 1));
    GR_CHECK_OK(gr_step_read(s, "cross", (gr_vec){ y, 6, GR_F32 }));
    for (int i = 0; i < 6; i++)
        GR_CHECK_NEAR(y[i], want[i], 0);
    GR_CHECK_OK(gr_step_save(s, &snap));
    memcpy(y, gr_snapshot_find(snap, "w")->mem, 3 * sizeof(*y));
    GR_CHECK_NEAR(y[0], 1 - 2.5 * (1 - 3), 0); /* 2.5: the sum of x */
    GR_CHECK_NEAR(y[1], 1 - 2.5 * (3 - 1), 0);
    GR_CHECK_NEAR(y[2], 1 - 2.5 * (1 - 1), 0);
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
}

/* ---- powers at their edges ---- */

static gr_status trace_powers(gr_graph *g, void *user)
{
    gr_value *x = gr_param(g, "x", GR_SHAPE(1), gr_init_const(0));
    gr_value *k = gr_param(g, "k", GR_SHAPE(1), gr_init_const(2));
    gr_value *z = gr_param(g, "z", GR_SHAPE(1), gr_init_const(40));
    gr_value *sum = gr_add(g, gr_pow(g, x, 0), gr_map2_at(GR_HERE, g, "pow", x, k));

    (void)user;
    sum = gr_add(g, sum, gr_focal_each(g, z, gr_fill(g, GR_F32, GR_SHAPE(1), 1), -1, 0));
    gr_loss(g, gr_sum(g, gr_add(g, sum, gr_mul_k(g, x, 3)), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void test_powers_at_zero(void)
{
    static const struct {
        const char *name;
        float want;
    } after[] = { { "x", -3 }, { "k", 2 }, { "z", 40 } };
    float x = 0;
    gr_named feed = { "unused", GR_F32, GR_SHAPE(1), &x };
    gr_step *s = open_step(trace_powers, defaults);
    gr_snapshot *snap;

    GR_CHECK_OK(gr_step_train(s, &feed, 1, 1));
    GR_CHECK_OK(gr_step_save(s, &snap));
    for (int i = 0; i < 3; i++) {
        memcpy(&x, gr_snapshot_find(snap, after[i].name)->mem, sizeof(x));
        GR_CHECK_NEAR(x, after[i].want, 0);
    }
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
}

/* ---- rows that are hidden whole ---- */

static gr_status trace_hidden(gr_graph *g, void *user)
{
    gr_value *x = gr_param(g, "x", GR_SHAPE(2, 3), gr_init_const(0));
    gr_value *h = gr_masked_fill(g, x, gr_input(g, "hidden"), -INFINITY);
    gr_value *sum = gr_sum(g, gr_exp(g, gr_logsumexp(g, h, 1, false)), GR_AXES_ALL, false);

    (void)user;
    sum = gr_add(g, sum, gr_sum(g, gr_softmax(g, h, 1), GR_AXES_ALL, false));
    gr_loss(g, sum);
    return gr_graph_status(g);
}

static void test_hidden_rows_have_no_gradient(void)
{
    static const float want[6] = { 0, 0, 0, -1, -1, 0 };
    uint8_t hidden[6] = { 1, 1, 1, 0, 0, 1 };
    gr_named feed = { "hidden", GR_BOOL, GR_SHAPE(2, 3), hidden };
    gr_step *s = open_step(trace_hidden, defaults);
    gr_snapshot *snap;
    float x[6];

    GR_CHECK_OK(gr_step_train(s, &feed, 1, 1));
    GR_CHECK_NEAR(read1(s, "loss"), 3, 1e-6);
    GR_CHECK_OK(gr_step_save(s, &snap));
    memcpy(x, gr_snapshot_find(snap, "x")->mem, sizeof(x));
    for (int i = 0; i < 6; i++)
        GR_CHECK_NEAR(x[i], want[i], 1e-6);
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
}

/* ---- calls in odd order ---- */

static gr_status trace_linear(gr_graph *g, void *user)
{
    (void)user;
    gr_loss(g,
            gr_mean(g, gr_square(g, gr_linear(g, "fc", gr_input(g, "x"), 3)), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void test_first_plan_may_fail(void)
{
    float x[10] = { 0 };
    gr_named feed = { "x", GR_F32, GR_SHAPE(2, 5), x };
    gr_step *s = open_step(trace_linear, defaults);

    feed.shape.dim[1] = 0; /* no features: refused by the layer */
    GR_CHECK_FAILS(gr_step_plan(s, true, &feed, 1), GR_ERR_ARG, "linear 'fc'");
    feed.shape.n_dims = 40;
    GR_CHECK_FAILS(gr_step_train(s, &feed, 1, 0.1), GR_ERR_ARG, "dimensions");
    feed.shape = GR_SHAPE(2, 4);
    GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.1));
    feed.shape = GR_SHAPE(2, 5);
    GR_CHECK_FAILS(gr_step_train(s, &feed, 1, 0.1), GR_ERR_ARG, "now asked for as");
    feed.shape = GR_SHAPE(2, 4);
    GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.1));
    gr_step_destroy(s);
}

static void test_plan_that_does_not_fit(void)
{
    float x[8] = { 1 };
    gr_named feed = { "x", GR_F32, GR_SHAPE(2, 4), x };
    gr_step *s = open_step(trace_linear, defaults);

    GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.1));
    feed.shape = GR_SHAPE((int64_t)1 << 48, 4);
    GR_CHECK_FAILS(gr_step_plan(s, true, &feed, 1), GR_ERR_NOMEM, "");
    feed.shape = GR_SHAPE(2, 4);
    GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.1)); /* the old plan still has its memory */
    gr_step_destroy(s);
}

static void test_norm_outlives_evaluation(void)
{
    float x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    gr_named feed = { "x", GR_F32, GR_SHAPE(2, 4), x };
    gr_step_config c = defaults;
    gr_step_stats a, b;
    gr_step *s;

    c.clip_norm = 1;
    s = open_step(trace_linear, c);
    GR_CHECK_OK(gr_step_plan(s, true, &feed, 1));
    GR_CHECK_OK(gr_step_get_stats(s, &a));
    GR_CHECK(isnan(a.grad_norm));
    GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.1));
    GR_CHECK_OK(gr_step_get_stats(s, &a));
    GR_CHECK(a.grad_norm > 0);
    GR_CHECK_OK(gr_step_eval(s, &feed, 1));
    GR_CHECK_OK(gr_step_get_stats(s, &b));
    GR_CHECK(a.grad_norm == b.grad_norm);
    gr_step_destroy(s);
}

static gr_status trace_code_alone(gr_graph *g, void *user)
{
    (void)user;
    GR_CHECK(gr_input(g, "x") != NULL);
    return GR_ERR_IO;
}

/* A message that an earlier call left is not that of a trace which says nothing. */
static void test_trace_with_a_code_alone(void)
{
    float x = 1;
    gr_named feed = { "x", GR_F32, GR_SHAPE(1), &x };
    gr_step *s = open_step(trace_code_alone, defaults);

    GR_CHECK(gr_step_read(s, "an older message", (gr_vec){ &x, 1, GR_F32 }) != GR_OK);
    GR_CHECK(gr_step_train(s, &feed, 1, 0.1) == GR_ERR_IO);
    GR_CHECK(strstr(gr_error_message(), "the trace function returned") != NULL);
    GR_CHECK(strstr(gr_error_message(), "older") == NULL);
    gr_step_destroy(s);
}

int main(void)
{
    test_trace_with_a_code_alone();
    test_outputs_keep_their_value();
    test_bad_data_changes_nothing(1);
    test_bad_data_changes_nothing(2);
    test_gradients_stay_wide(0, 257);
    test_gradients_stay_wide(1, 514);
    test_gradients_stay_wide(2, 257);
    test_shared_gradient_in_two_buckets();
    test_amp_leaves_f64_alone();
    test_amp_casts_for_cross();
    test_powers_at_zero();
    test_hidden_rows_have_no_gradient();
    test_first_plan_may_fail();
    test_plan_that_does_not_fit();
    test_norm_outlives_evaluation();
    return 0;
}

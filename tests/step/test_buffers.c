/*
 * Buffers and assignments in a step: readers see the old value, the write is last and only
 * in training, in every micro-step; it survives pruning, checkpoints and bad data.
 */
#include "check.h"
#include "gradus/gradus.h"

static const gr_step_config defaults = GR_STEP_CONFIG_INIT;

static gr_step *open_step(gr_trace_fn *trace, gr_step_config c)
{
    gr_step *s;

    c.trace = trace;
    c.device = "cpu";
    GR_CHECK_OK(gr_step_create(&s, &c));
    return s;
}

static float read1(gr_step *s, const char *name)
{
    float x = -99;

    GR_CHECK_OK(gr_step_read(s, name, (gr_vec){ &x, 1, GR_F32 }));
    return x;
}

/* mean <- mean + (x - mean) / 4, count <- count + 1. The loss reads both before and behind
 * the place where they are assigned; its gradient reads the buffer in the backward pass. */
static gr_status trace_mean(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_value *w = gr_param(g, "w", GR_SHAPE(1), gr_init_const(1));
    gr_value *mean = gr_buffer(g, "mean", GR_F32, GR_SHAPE(1), gr_init_const(8));
    gr_value *count = gr_buffer(g, "count", GR_I64, GR_SCALAR, gr_init_const(5));
    gr_value *before = gr_mul(g, w, mean), *after;

    (void)user;
    gr_assign(g, mean, gr_add(g, mean, gr_mul_k(g, gr_sub(g, x, mean), 0.25)));
    gr_assign(g, count, gr_add_k(g, count, 1));
    after = gr_mul(g, w, gr_reshape(g, mean, GR_SHAPE(1)));
    gr_output(g, "mean", mean);
    gr_output(g, "count", count);
    gr_loss(g, gr_reshape(g, gr_add(g, before, after), GR_SCALAR));
    return gr_graph_status(g);
}

static int64_t read_count(gr_step *s)
{
    int64_t n = -99;

    GR_CHECK_OK(gr_step_read(s, "count", (gr_vec){ &n, 1, GR_I64 }));
    return n;
}

static void test_readers_see_the_old_value(gr_amp amp)
{
    gr_step_config c = defaults;
    float x = 0;
    gr_named feed = { "x", GR_F32, GR_SHAPE(1), &x };
    gr_step *s;

    c.amp = amp;
    s = open_step(trace_mean, c);
    GR_CHECK_OK(gr_step_train(s, &feed, 1, 0));
    GR_CHECK(read1(s, "mean") == 8 && read1(s, "loss") == 16 && read_count(s) == 5);
    GR_CHECK_OK(gr_step_train(s, &feed, 1, 0));
    GR_CHECK(read1(s, "mean") == 6 && read1(s, "loss") == 12 && read_count(s) == 6);
    for (int i = 0; i < 2; i++) { /* evaluation reads and does not write */
        GR_CHECK_OK(gr_step_eval(s, &feed, 1));
        GR_CHECK(read1(s, "mean") == 4.5f && read_count(s) == 7);
    }
    gr_step_destroy(s);
}

static void test_every_micro_step_assigns(void)
{
    gr_step_config c = defaults;
    float x = 0;
    gr_named feed = { "x", GR_F32, GR_SHAPE(1), &x };
    gr_step *s;

    c.accumulate = 3;
    s = open_step(trace_mean, c);
    for (int i = 0; i < 6; i++) {
        GR_CHECK_OK(gr_step_train(s, &feed, 1, 0));
        GR_CHECK_EQ(read_count(s), 5 + i);
    }
    gr_step_destroy(s);
}

static void steps(gr_step *s, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        float x = (float)(i * i % 7) / 3;
        gr_named feed = { "x", GR_F32, GR_SHAPE(1), &x };

        GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.01));
    }
}

static void check_equal(const gr_snapshot *a, const gr_snapshot *b)
{
    GR_CHECK_EQ(gr_snapshot_count(a), gr_snapshot_count(b));
    for (int i = 0; i < gr_snapshot_count(a); i++) {
        const gr_named *x = gr_snapshot_at(a, i), *y = gr_snapshot_find(b, x->name);

        GR_CHECK(y != NULL);
        GR_CHECK_EQ(
            memcmp(x->mem, y->mem, (size_t)gr_shape_count(&x->shape) * gr_dtype_bytes(x->dtype)),
            0);
    }
}

static void test_resume(void)
{
    float x = 0;
    gr_named feed = { "x", GR_F32, GR_SHAPE(1), &x };
    gr_step *whole = open_step(trace_mean, defaults), *half = open_step(trace_mean, defaults);
    gr_step *rest = open_step(trace_mean, defaults);
    gr_snapshot *a, *b, *c;

    steps(whole, 0, 10);
    steps(half, 0, 5);
    GR_CHECK_OK(gr_step_save(half, &b));
    GR_CHECK(gr_snapshot_find(b, "mean") && gr_snapshot_find(b, "count"));
    GR_CHECK_EQ(*(const int64_t *)gr_snapshot_find(b, "count")->mem, 10);
    GR_CHECK_OK(gr_step_plan(rest, true, &feed, 1));
    GR_CHECK_OK(gr_step_restore(rest, b));
    steps(rest, 5, 5);
    GR_CHECK_OK(gr_step_save(whole, &a));
    GR_CHECK_OK(gr_step_save(rest, &c));
    check_equal(a, c);
    gr_snapshot_destroy(a);
    gr_snapshot_destroy(b);
    gr_snapshot_destroy(c);
    gr_step_destroy(whole);
    gr_step_destroy(half);
    gr_step_destroy(rest);
}

/* The assignment stands before the row that does not exist, and yet is not done. */
static gr_status trace_fault(gr_graph *g, void *user)
{
    gr_value *n = gr_buffer(g, "n", GR_F32, GR_SHAPE(1), gr_init_const(0));
    gr_value *table = gr_param(g, "table", GR_SHAPE(4, 2), gr_init_const(1));

    (void)user;
    gr_assign(g, n, gr_add_k(g, n, 1));
    gr_loss(g, gr_sum(g, gr_gather(g, table, gr_input(g, "i")), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void test_bad_data_assigns_nothing(void)
{
    gr_step *s = open_step(trace_fault, defaults);
    int32_t rows[2] = { 1, 9 };
    gr_named feed = { "i", GR_I32, GR_SHAPE(2), rows };
    gr_snapshot *snap;

    GR_CHECK_FAILS(gr_step_train(s, &feed, 1, 0.1), GR_ERR_ARG, "index 9");
    rows[1] = 2;
    GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.1));
    GR_CHECK_OK(gr_step_save(s, &snap));
    GR_CHECK(*(const float *)gr_snapshot_find(snap, "n")->mem == 1);
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
}

/* ---- refusals ---- */

static gr_status trace_wrong(gr_graph *g, void *user)
{
    int what = *(int *)user;
    gr_value *w = gr_param(g, "w", GR_SCALAR, gr_init_const(1));
    gr_value *b = gr_buffer(g, "b", GR_F32, GR_SCALAR, gr_init_const(0));

    gr_assign(g, b, gr_mul_k(g, b, 2));
    if (what == 0)
        gr_assign(g, b, gr_mul_k(g, b, 3));
    else if (what == 1)
        gr_assign(g, w, b);
    else if (what == 2)
        gr_buffer(g, "c", GR_BF16, GR_SCALAR, gr_init_const(0));
    else if (what == 3)
        gr_buffer(g, "c", GR_I64, GR_SCALAR, gr_init_normal(0, 1));
    else
        gr_buffer(g, "w", GR_F32, GR_SCALAR, gr_init_const(0));
    gr_loss(g, w);
    return gr_graph_status(g);
}

static void test_refusals(void)
{
    static const char *const want[] = { "buffer 'b' was assigned before", "only a buffer",
                                        "must be f32 or i64, not bf16", "cannot start at random",
                                        "'w' is a parameter, now asked for as a buffer" };

    for (int i = 0; i < 5; i++) {
        gr_step_config c = defaults;
        gr_step *s;

        c.user = &i;
        s = open_step(trace_wrong, c);
        GR_CHECK_FAILS(gr_step_plan(s, true, NULL, 0), GR_ERR_ARG, want[i]);
        gr_step_destroy(s);
    }
}

int main(void)
{
    test_readers_see_the_old_value(GR_AMP_NONE);
    test_readers_see_the_old_value(GR_AMP_BF16);
    test_every_micro_step_assigns();
    test_resume();
    test_bad_data_assigns_nothing();
    test_refusals();
    return 0;
}

/*
 * Randomness inside a step: what it depends on and what it does not, and how it is spread.
 * Numbers against numbers are in tests/op/cases_random.c.
 */
#include "check.h"
#include "step/world.h"

/* trace_exact with numbers dropped in all the ways there are; by halves, so that sums stay
 * exact. Rows of a sample may be cut finer than the batch. */
static gr_status trace_dropped(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_value *w1 = gr_param(g, "w1", GR_SHAPE(12, 16), gr_init_const(1));
    gr_value *w2 = gr_param(g, "w2", GR_SHAPE(16, 5), gr_init_const(-1));
    gr_value *h = gr_relu(g, gr_matmul(g, gr_dropout(g, x, 0.5), w1));
    gr_shape s = gr_value_shape(h);
    gr_value *noise, *y;

    (void)user;
    h = gr_reshape(g, gr_dropout(g, gr_reshape(g, h, GR_SHAPE(s.dim[0] * 4, 4)), 0.5), s);
    h = gr_drop_path(g, h, 0.5);
    noise = gr_random_int(g, GR_I32, s, -2, 3);
    h = gr_add(g, h, gr_cast(g, noise, GR_F32));
    h = gr_mul(g, h, gr_random_bernoulli(g, GR_F32, GR_SHAPE(1, 16), 0.5)); /* for all */
    y = gr_matmul(g, h, w2);
    gr_loss(g, gr_mean(g, gr_mul(g, y, gr_mul_k(g, gr_input(g, "t"), 5)), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static job dropped_job(int accumulate, uint64_t seed)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    job j = { .global_batch = 32, .n_steps = 2, .exact = true };

    c.trace = trace_dropped;
    c.accumulate = accumulate;
    c.seed = seed;
    c.optim.kind = GR_OPTIM_SGD;
    j.c = c;
    return j;
}

static void test_split_does_not_show(int n_ranks, int accumulate)
{
    job one = dropped_job(1, 3), many = dropped_job(accumulate, 3);

    GR_CHECK_OK(run_rank(&one, NULL));
    run_ranks(&many, n_ranks);
    check_same_state(one.end, many.end);
    gr_snapshot_destroy(one.end);
    gr_snapshot_destroy(many.end);
}

static bool same_weights(const gr_snapshot *a, const gr_snapshot *b)
{
    const gr_named *x = gr_snapshot_find(a, "w1"), *y = gr_snapshot_find(b, "w1");

    GR_CHECK(x && y);
    return memcmp(x->mem, y->mem, (size_t)gr_shape_count(&x->shape) * sizeof(float)) == 0;
}

static void test_seed_shows(void)
{
    job a = dropped_job(1, 3), b = dropped_job(1, 4);

    GR_CHECK_OK(run_rank(&a, NULL));
    GR_CHECK_OK(run_rank(&b, NULL));
    GR_CHECK(!same_weights(a.end, b.end));
    gr_snapshot_destroy(a.end);
    gr_snapshot_destroy(b.end);
}

/* ---- how numbers are spread ---- */

#define N_ROWS 50
#define N_COLS 2000
#define N      (N_ROWS * N_COLS)

static gr_status trace_numbers(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_shape s = gr_value_shape(x);
    gr_value *w = gr_param(g, "w", GR_SHAPE(1), gr_init_const(1));

    (void)user;
    gr_output(g, "uniform", gr_random_uniform(g, GR_F32, s, 0, 1));
    gr_output(g, "again", gr_random_uniform(g, GR_F32, s, 0, 1));
    gr_output(g, "normal", gr_random_normal(g, GR_F32, s, 0, 1));
    gr_output(g, "coin", gr_random_bernoulli(g, GR_F32, s, 0.3));
    gr_output(g, "die", gr_random_int(g, GR_I32, s, 1, 7));
    gr_output(g, "perm", gr_random_perm(g, GR_I32, s));
    gr_output(g, "dropped", gr_dropout(g, x, 0.3));
    gr_output(g, "path", gr_drop_path(g, x, 0.3));
    gr_loss(g, gr_mean(g, gr_mul(g, gr_dropout(g, x, 0.3), w), GR_AXES_ALL, false));
    gr_output(g, "below", gr_cast(g, gr_random_uniform(g, GR_BF16, s, 0.5, 1), GR_F32));
    return gr_graph_status(g);
}

static void check_moments(const float *x, double mean, double variance, double fourth)
{
    double m = 0, v = 0, q = 0;

    for (int i = 0; i < N; i++)
        m += (double)x[i] / N;
    for (int i = 0; i < N; i++) {
        double d = (double)x[i] - mean;

        v += d * d / N;
        q += d * d * d * d / N;
    }
    /* Within 5 standard errors of the mean; of the higher ones, 4 percent. */
    GR_CHECK_NEAR(m, mean, 5 * sqrt(variance / N));
    GR_CHECK_NEAR(v, variance, 0.04 * variance);
    GR_CHECK_NEAR(q, fourth, 0.04 * fourth);
}

/* Neighbours, and elements that share a counter or a vector, know nothing of each other. */
static void check_uncorrelated(const float *x, double mean, double variance)
{
    static const int distance[] = { 1, 8, 16, 32, 48, 64, N_COLS };

    for (size_t k = 0; k < sizeof(distance) / sizeof(distance[0]); k++) {
        double sum = 0;

        for (int i = 0; i + distance[k] < N; i++)
            sum += ((double)x[i] - mean) * ((double)x[i + distance[k]] - mean);
        GR_CHECK_NEAR(sum / N / variance, 0, 5 / sqrt((double)N));
    }
}

static void read_floats(gr_step *s, const char *name, float *x)
{
    GR_CHECK_OK(gr_step_read(s, name, (gr_vec){ x, N, GR_F32 }));
}

static void check_whole(gr_step *s)
{
    int32_t *x = malloc(N * sizeof(*x));
    int count[6] = { 0 };
    bool seen[N_COLS];

    GR_CHECK_OK(gr_step_read(s, "die", (gr_vec){ x, N, GR_I32 }));
    for (int i = 0; i < N; i++) {
        GR_CHECK(x[i] >= 1 && x[i] <= 6);
        count[x[i] - 1]++;
    }
    for (int i = 0; i < 6; i++)
        GR_CHECK_NEAR(count[i], N / 6.0, 5 * sqrt(N / 6.0));
    GR_CHECK_OK(gr_step_read(s, "perm", (gr_vec){ x, N, GR_I32 }));
    for (int r = 0; r < N_ROWS; r++) {
        memset(seen, 0, sizeof(seen));
        for (int i = 0; i < N_COLS; i++) {
            GR_CHECK(x[r * N_COLS + i] >= 0 && x[r * N_COLS + i] < N_COLS);
            GR_CHECK(!seen[x[r * N_COLS + i]]);
            seen[x[r * N_COLS + i]] = true;
        }
    }
    GR_CHECK(memcmp(x, x + N_COLS, N_COLS * sizeof(*x)) != 0);
    free(x);
}

/* Ones went in: kept ones are 1 / 0.7. Whole rows of "path" are alike. */
static void check_dropped(gr_step *s, float *x)
{
    int n_dropped = 0, n_rows = 0;

    read_floats(s, "dropped", x);
    for (int i = 0; i < N; i++) {
        GR_CHECK(x[i] == 0 || x[i] == 1 / 0.7f);
        n_dropped += x[i] == 0;
    }
    GR_CHECK_NEAR(n_dropped, 0.3 * N, 5 * sqrt(0.21 * N));
    read_floats(s, "path", x);
    for (int i = 0; i < N; i++) {
        GR_CHECK(x[i] == x[i / N_COLS * N_COLS]);
        n_rows += i % N_COLS == 0 && x[i] == 0;
    }
    GR_CHECK(n_rows > 0 && n_rows < N_ROWS);
}

static void check_numbers(gr_step *s, float *x, float *y)
{
    read_floats(s, "uniform", x);
    check_moments(x, 0.5, 1.0 / 12, 1.0 / 80);
    check_uncorrelated(x, 0.5, 1.0 / 12);
    read_floats(s, "again", y);
    GR_CHECK(memcmp(x, y, N * sizeof(*x)) != 0);
    read_floats(s, "below", x); /* the last of 256 numbers would be rounded up to 1 */
    for (int i = 0; i < N; i++)
        GR_CHECK(x[i] >= 0.5f && x[i] < 1);
    read_floats(s, "normal", x);
    check_moments(x, 0, 1, 3);
    check_uncorrelated(x, 0, 1);
    read_floats(s, "coin", x);
    check_moments(x, 0.3, 0.21, 0.3 * pow(0.7, 4) + 0.7 * pow(0.3, 4));
    check_uncorrelated(x, 0.3, 0.21);
    check_whole(s);
}

static void test_spread(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    float *x = malloc(N * sizeof(*x)), *y = malloc(N * sizeof(*y)), *first = malloc(N * sizeof(*y));
    gr_named feed = { "x", GR_F32, GR_SHAPE(N_ROWS, N_COLS), x };
    gr_step *s;

    c.trace = trace_numbers;
    c.device = "cpu";
    c.seed = 11;
    for (int i = 0; i < N; i++)
        x[i] = 1;
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_train(s, &feed, 1, 0));
    check_numbers(s, y, first);
    check_dropped(s, y);
    /* The next step draws anew; evaluation drops nothing. */
    read_floats(s, "uniform", first);
    GR_CHECK_OK(gr_step_train(s, &feed, 1, 0));
    read_floats(s, "uniform", y);
    GR_CHECK(memcmp(first, y, N * sizeof(*y)) != 0);
    GR_CHECK_OK(gr_step_eval(s, &feed, 1));
    read_floats(s, "dropped", y);
    GR_CHECK(memcmp(x, y, N * sizeof(*y)) == 0);
    gr_step_destroy(s);
    free(x);
    free(y);
    free(first);
}

/* ---- batches that differ in size ---- */

static void draw_rows(gr_step *s, int64_t n_rows, float *out)
{
    static float x[10 * 7];
    gr_named feed = { "x", GR_F32, GR_SHAPE(n_rows, 7), x };

    GR_CHECK_OK(gr_step_train(s, &feed, 1, 0));
    GR_CHECK_OK(gr_step_read(s, "uniform", (gr_vec){ out, (size_t)n_rows * 7, GR_F32 }));
}

/* Micro-steps (as ranks do) have room for max_batch samples each, however many there are: none
 * draws what another one draws. */
static void test_uneven_batches(void)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    float whole[10 * 7], first[3 * 7], second[4 * 7];
    gr_step *s;

    c.trace = trace_numbers;
    c.device = "cpu";
    c.seed = 5;
    GR_CHECK_OK(gr_step_create(&s, &c));
    draw_rows(s, 10, whole);
    gr_step_destroy(s);
    c.accumulate = 2;
    c.max_batch = 5;
    GR_CHECK_OK(gr_step_create(&s, &c));
    draw_rows(s, 3, first);
    draw_rows(s, 4, second);
    gr_step_destroy(s);
    GR_CHECK(memcmp(first, whole, sizeof(first)) == 0);
    GR_CHECK(memcmp(second, whole + 5 * 7, sizeof(second)) == 0);
}

int main(void)
{
    test_uneven_batches();
    test_split_does_not_show(2, 1);
    test_split_does_not_show(4, 1);
    test_split_does_not_show(1, 2);
    test_split_does_not_show(2, 2);
    test_seed_shows();
    test_spread();
    return 0;
}

/*
 * Normalisation in a step: running statistics as PyTorch keeps them, evaluation by them,
 * types under mixed precision, the gradient through a relu without a pass of its own, and
 * the same numbers with one and two threads.
 */
#include <math.h>

#include "check.h"
#include "gradus/gradus.h"

#define ROWS 6
#define C    3

static const gr_step_config defaults = GR_STEP_CONFIG_INIT;

static gr_step *open_step(gr_trace_fn *trace, gr_step_config c)
{
    gr_step *s;

    c.trace = trace;
    c.device = "cpu";
    GR_CHECK_OK(gr_step_create(&s, &c));
    return s;
}

typedef struct how {
    bool frozen, bare;
    int relu; /* 0: none, 1: relu, 2: the same by max, which the rule does not look behind */
} how;

static gr_status trace_bn(gr_graph *g, void *user)
{
    const how *h = user;
    gr_batch_norm_args a = GR_BATCH_NORM_INIT;
    gr_value *x = gr_input(g, "x"), *y;
    gr_value *w = gr_param(g, "w", GR_SHAPE(C, C), gr_init_uniform(-1, 1));

    a.weight = gr_param(g, "bn.weight", GR_SHAPE(C), gr_init_const(1.5));
    a.bias = gr_param(g, "bn.bias", GR_SHAPE(C), gr_init_const(0.25));
    if (!h->bare) {
        a.running_mean = gr_buffer(g, "bn.running_mean", GR_F32, GR_SHAPE(C), gr_init_const(0));
        a.running_var = gr_buffer(g, "bn.running_var", GR_F32, GR_SHAPE(C), gr_init_const(1));
        a.num_batches_tracked =
            gr_buffer(g, "bn.num_batches_tracked", GR_I64, GR_SCALAR, gr_init_const(0));
    }
    a.frozen = h->frozen;
    x = gr_matmul(g, x, w);
    gr_output(g, "in", x);
    y = gr_batch_norm(g, x, &a);
    gr_output(g, "y", y);
    if (h->relu == 1)
        y = gr_relu(g, y);
    else if (h->relu == 2)
        y = gr_maximum(g, y, gr_fill(g, GR_F32, GR_SHAPE(1), 0));
    gr_loss(g, gr_mean(g, gr_mul(g, gr_square(g, y), gr_input(g, "x")), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void fill(float x[ROWS * C], int step)
{
    for (int i = 0; i < ROWS * C; i++)
        x[i] = (float)((i * 37 + step * 11) % 23) / 7 - 1;
}

static void read(gr_step *s, const char *name, float *to, size_t n)
{
    GR_CHECK_OK(gr_step_read(s, name, (gr_vec){ to, n, GR_F32 }));
}

/* One channel of `in`: mean, and squared distances from it. */
static void stats(const float in[ROWS * C], int c, double *mean, double *m2)
{
    *mean = *m2 = 0;
    for (int r = 0; r < ROWS; r++)
        *mean += (double)in[r * C + c] / ROWS;
    for (int r = 0; r < ROWS; r++)
        *m2 += ((double)in[r * C + c] - *mean) * ((double)in[r * C + c] - *mean);
}

static void test_running_statistics(void)
{
    how h = { 0 };
    gr_step_config config = defaults;
    float x[ROWS * C], in[ROWS * C], y[ROWS * C];
    gr_named feed = { "x", GR_F32, GR_SHAPE(ROWS, C), x };
    double mean[C] = { 0 }, var[C] = { 1, 1, 1 };
    gr_snapshot *snap;
    gr_step *s;

    config.user = &h;
    s = open_step(trace_bn, config);
    for (int i = 0; i < 4; i++) {
        fill(x, i);
        GR_CHECK_OK(gr_step_train(s, &feed, 1, 0));
        read(s, "in", in, ROWS * C);
        read(s, "y", y, ROWS * C);
        for (int c = 0; c < C; c++) {
            double m, m2;

            stats(in, c, &m, &m2);
            GR_CHECK_NEAR(y[c], ((double)in[c] - m) / sqrt(m2 / ROWS + 1e-5) * 1.5 + 0.25, 1e-5);
            mean[c] = 0.9 * mean[c] + 0.1 * m;
            var[c] = 0.9 * var[c] + 0.1 * m2 / (ROWS - 1);
        }
    }
    GR_CHECK_OK(gr_step_eval(s, &feed, 1)); /* by what was gathered, and changes nothing */
    GR_CHECK_OK(gr_step_eval(s, &feed, 1));
    read(s, "in", in, ROWS * C);
    read(s, "y", y, ROWS * C);
    GR_CHECK_OK(gr_step_save(s, &snap));
    for (int c = 0; c < C; c++) {
        GR_CHECK_NEAR(((const float *)gr_snapshot_find(snap, "bn.running_mean")->mem)[c], mean[c],
                      1e-5);
        GR_CHECK_NEAR(((const float *)gr_snapshot_find(snap, "bn.running_var")->mem)[c], var[c],
                      1e-5);
        GR_CHECK_NEAR(y[c], ((double)in[c] - mean[c]) / sqrt(var[c] + 1e-5) * 1.5 + 0.25, 1e-5);
    }
    GR_CHECK_EQ(*(const int64_t *)gr_snapshot_find(snap, "bn.num_batches_tracked")->mem, 4);
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
}

static gr_snapshot *train(const how *h, gr_amp amp, int n_threads, float *loss)
{
    gr_step_config config = defaults;
    float x[ROWS * C];
    gr_named feed = { "x", GR_F32, GR_SHAPE(ROWS, C), x };
    gr_snapshot *snap;
    gr_step *s;

    config.user = (void *)(uintptr_t)h;
    config.amp = amp;
    config.n_threads = n_threads;
    s = open_step(trace_bn, config);
    for (int i = 0; i < 5; i++) {
        fill(x, i);
        GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.01));
    }
    read(s, "loss", loss, 1);
    GR_CHECK_OK(gr_step_save(s, &snap));
    gr_step_destroy(s);
    return snap;
}

static double distance(const gr_snapshot *a, const gr_snapshot *b, const char *name)
{
    const gr_named *x = gr_snapshot_find(a, name), *y = gr_snapshot_find(b, name);
    double most = 0;

    for (int64_t i = 0; i < gr_shape_count(&x->shape); i++)
        most = fmax(most,
                    fabs((double)((const float *)x->mem)[i] - (double)((const float *)y->mem)[i]));
    return most;
}

static void check_near(const how *h, const how *like, gr_amp amp, double most)
{
    static const char *const names[] = { "w", "bn.weight", "bn.bias" };
    float a, b;
    gr_snapshot *x = train(h, amp, 1, &a), *y = train(like, GR_AMP_NONE, 1, &b);

    GR_CHECK_NEAR(a, b, most);
    for (int i = 0; i < 3; i++)
        if (!(distance(x, y, names[i]) <= most)) {
            fprintf(stderr, "%s is off by %g\n", names[i], distance(x, y, names[i]));
            exit(1);
        }
    gr_snapshot_destroy(x);
    gr_snapshot_destroy(y);
}

static void test_frozen(void)
{
    how h = { .frozen = true };
    float loss;
    gr_snapshot *s = train(&h, GR_AMP_NONE, 1, &loss);

    GR_CHECK(((const float *)gr_snapshot_find(s, "bn.running_var")->mem)[0] == 1);
    GR_CHECK_EQ(*(const int64_t *)gr_snapshot_find(s, "bn.num_batches_tracked")->mem, 0);
    GR_CHECK(((const float *)gr_snapshot_find(s, "bn.weight")->mem)[0] != 1.5f);
    gr_snapshot_destroy(s);
}

/* ---- what the graph looks like ---- */

static void find_gate(void *arg, const char *pass, const char *text)
{
    int *found = arg;

    (void)pass;
    *found += strstr(text, " gated") != NULL;
    *found += strstr(text, "relu_grad") && !strstr(text, " gated") ? 100 : 0;
    *found += strstr(text, "= batch_norm(") || strstr(text, "= channel_map(") ? 1000 : 0;
}

static int gates(how h)
{
    gr_step_config config = defaults;
    float x[ROWS * C];
    gr_named feed = { "x", GR_F32, GR_SHAPE(ROWS, C), x };
    int found = 0;
    gr_step *s;

    config.user = &h;
    config.dump_after = "prune";
    config.dump = find_gate;
    config.dump_arg = &found;
    s = open_step(trace_bn, config);
    GR_CHECK_OK(gr_step_plan(s, true, &feed, 1));
    gr_step_destroy(s);
    return found;
}

/* Under mixed precision activations stay narrow on both sides of a normalisation. */
static void find_types(void *arg, const char *pass, const char *text)
{
    int *wide = arg;

    (void)pass;
    for (const char *p = strstr(text, "= batch_norm("); p; p = strstr(p + 1, "= batch_norm("))
        *wide += strncmp(strstr(p, " : ") + 3, "bf16", 4) != 0;
    for (const char *p = strstr(text, "= channel_map("); p; p = strstr(p + 1, "= channel_map("))
        *wide += strncmp(strstr(p, " : ") + 3, "bf16", 4) != 0;
    *wide += strstr(text, "= batch_norm(") == NULL ? 100 : 0;
}

static void test_types(void)
{
    how h = { .relu = 1 };
    gr_step_config config = defaults;
    float x[ROWS * C];
    gr_named feed = { "x", GR_F32, GR_SHAPE(ROWS, C), x };
    int n_wide = 0;
    gr_step *s;

    config.user = &h;
    config.amp = GR_AMP_BF16;
    config.dump_after = "amp";
    config.dump = find_types;
    config.dump_arg = &n_wide;
    s = open_step(trace_bn, config);
    GR_CHECK_OK(gr_step_plan(s, true, &feed, 1));
    GR_CHECK_EQ(n_wide, 0);
    gr_step_destroy(s);
}

static void test_threads(void)
{
    how h = { .relu = 1 };
    float a, b;
    gr_snapshot *x = train(&h, GR_AMP_NONE, 1, &a), *y = train(&h, GR_AMP_NONE, 2, &b);

    GR_CHECK(a == b && distance(x, y, "w") == 0 && distance(x, y, "bn.running_var") == 0);
    gr_snapshot_destroy(x);
    gr_snapshot_destroy(y);
}

int main(void)
{
    how none = { 0 }, relu = { .relu = 1 }, max = { .relu = 2 };
    how bare = { .bare = true };

    test_running_statistics();
    test_frozen();
    GR_CHECK_EQ(gates(relu), 1);
    GR_CHECK_EQ(gates(max), 0);
    check_near(&relu, &max, GR_AMP_NONE, 1e-5);
    check_near(&bare, &none, GR_AMP_NONE, 0);
    check_near(&relu, &relu, GR_AMP_BF16, 0.03); /* 2^-8 of numbers up to 4 */
    check_near(&relu, &relu, GR_AMP_F16, 0.005);
    test_types();
    test_threads();
    return 0;
}

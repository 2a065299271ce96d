/*
 * Joined maps against single ones: the same bits in f32, one rounding less under amp; what
 * must not be joined is not; and every allocation of a plan may fail.
 */
#include "alloc_fail.h"
#include "check.h"
#include "gradus/gradus.h"
#include "graph/graph.h"
#include "op/map/program.h"
#include "step/inspect.h"
#include "step/world.h"

#define N 24
#define C 7

/* Chains, broadcasts of every kind, a value read twice, comparisons, a loss. */
static gr_status trace_maps(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_value *w = gr_param(g, "w", GR_SHAPE(C, C), gr_init_uniform(-1, 1));
    gr_value *b = gr_param(g, "b", GR_SHAPE(C), gr_init_uniform(-1, 1));
    gr_value *h = gr_add(g, gr_matmul(g, x, w), b);
    gr_value *row = gr_mean(g, h, GR_AXIS(1), true);
    gr_value *y = gr_mul(g, gr_tanh(g, h), gr_sigmoid(g, gr_sub(g, h, row)));
    gr_value *m = gr_map2_at(GR_HERE, g, "gt", h, gr_fill(g, GR_F32, GR_SHAPE(N, C), 0.1));

    (void)user;
    y = gr_where(g, m, y, gr_exp(g, gr_mul_k(g, h, 0.25)));
    for (int i = 0; i < 40; i++)
        y = gr_add_k(g, gr_mul_k(g, y, 0.9), 0.01 * i);
    gr_output(g, "y", y);
    gr_loss(g, gr_mean(g, gr_square(g, gr_sub(g, y, gr_input(g, "t"))), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

/* A chain that amp keeps in 16 bits from end to end. */
static gr_status trace_low(gr_graph *g, void *user)
{
    gr_value *w = gr_param(g, "w", GR_SHAPE(C, C), gr_init_uniform(-1, 1));
    gr_value *y = gr_matmul(g, gr_input(g, "x"), w);

    (void)user;
    for (int i = 0; i < 10; i++)
        y = gr_add_k(g, gr_mul_k(g, y, 0.9), 0.01 * i);
    gr_output(g, "y", y);
    gr_loss(g, gr_mean(g, gr_square(g, gr_sub(g, y, gr_input(g, "t"))), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

typedef struct result {
    float y[N * C], loss, w[C * C];
    int n_maps;
} result;

static gr_named feeds[2];
static float x[N * C], t[N * C];

static void make_feeds(void)
{
    for (int i = 0; i < N * C; i++) {
        x[i] = (float)((i * 37) % 101) / 50 - 1;
        t[i] = (float)((i * 53) % 97) / 48 - 1;
    }
    feeds[0] = (gr_named){ "x", GR_F32, GR_SHAPE(N, C), x };
    feeds[1] = (gr_named){ "t", GR_F32, GR_SHAPE(N, C), t };
}

static gr_step_config config(gr_trace_fn *trace, const char *without)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = trace;
    c.device = "cpu";
    c.seed = 5;
    c.without = without;
    return c;
}

static int count_maps(const gr_step *s)
{
    const gr_graph *g = gr_step_first_graph(s);
    int n = 0;

    for (int i = 0; i < g->n_nodes; i++)
        n += g->nodes[i]->op == &gr_op_map;
    return n;
}

static void train(gr_trace_fn *trace, const char *without, gr_amp amp, int threads, result *r)
{
    gr_step_config c = config(trace, without);
    gr_snapshot *snap;
    gr_step *s;

    c.amp = amp;
    c.n_threads = threads;
    GR_CHECK_OK(gr_step_create(&s, &c));
    for (int i = 0; i < 3; i++)
        GR_CHECK_OK(gr_step_train(s, feeds, 2, 0.1));
    GR_CHECK_OK(gr_step_read(s, "y", (gr_vec){ r->y, N * C, GR_F32 }));
    GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &r->loss, 1, GR_F32 }));
    GR_CHECK_OK(gr_step_save(s, &snap));
    memcpy(r->w, gr_snapshot_find(snap, "w")->mem, sizeof(r->w));
    r->n_maps = count_maps(s);
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
}

static void test_same_bits(void)
{
    result plain, fused;

    train(trace_maps, "fuse", GR_AMP_NONE, 1, &plain);
    for (int threads = 1; threads <= 2; threads++) {
        train(trace_maps, NULL, GR_AMP_NONE, threads, &fused);
        GR_CHECK_EQ(memcmp(plain.y, fused.y, sizeof(plain.y)), 0);
        GR_CHECK_EQ(memcmp(plain.w, fused.w, sizeof(plain.w)), 0);
        GR_CHECK(plain.loss == fused.loss);
        /* 80 maps of the chain alone would pass the limit of 48 instructions. */
        GR_CHECK(fused.n_maps < plain.n_maps / 6);
        GR_CHECK(fused.n_maps >= 4);
    }
}

/* Layers wide enough for the fastest kernels, forward and backward. */
static gr_status trace_layers(gr_graph *g, void *user)
{
    gr_value *h = gr_tanh(g, gr_linear(g, "fc1", gr_input(g, "x"), 160));
    gr_value *r = gr_relu(g, gr_linear(g, "fc2", h, 160));

    (void)user;
    h = gr_linear(g, "fc3", gr_add(g, r, h), 64);
    gr_loss(g, gr_mean(g, gr_square(g, gr_sub(g, h, gr_input(g, "t"))), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static gr_snapshot *train_layers(const char *without, int threads)
{
    static float a[64 * 96], b[64 * 64];
    gr_named in[2] = { { "x", GR_F32, GR_SHAPE(64, 96), a }, { "t", GR_F32, GR_SHAPE(64, 64), b } };
    gr_step_config c = config(trace_layers, without);
    gr_snapshot *snap;
    gr_step *s;

    for (int i = 0; i < 64 * 96; i++)
        a[i] = (float)((i * 37) % 101) / 50 - 1;
    for (int i = 0; i < 64 * 64; i++)
        b[i] = (float)((i * 53) % 97) / 48 - 1;
    c.n_threads = threads;
    GR_CHECK_OK(gr_step_create(&s, &c));
    for (int i = 0; i < 3; i++)
        GR_CHECK_OK(gr_step_train(s, in, 2, 0.1));
    GR_CHECK_OK(gr_step_save(s, &snap));
    gr_step_destroy(s);
    return snap;
}

/* For each number of threads by itself: oneDNN's bits depend on it. */
static void test_layers(void)
{
    for (int threads = 1; threads <= 2; threads++) {
        gr_snapshot *plain = train_layers("fuse", threads), *fused = train_layers(NULL, threads);

        check_same_state(plain, fused);
        gr_snapshot_destroy(plain);
        gr_snapshot_destroy(fused);
    }
}

/* 20 roundings to bf16 of which one is left: nearer to f32, and the same at every run. */
static void test_amp(void)
{
    result f32, plain, fused, again;
    double far = 0, near = 0;

    train(trace_low, NULL, GR_AMP_NONE, 1, &f32);
    train(trace_low, "fuse", GR_AMP_BF16, 1, &plain);
    train(trace_low, NULL, GR_AMP_BF16, 1, &fused);
    train(trace_low, NULL, GR_AMP_BF16, 2, &again);
    GR_CHECK_EQ(memcmp(fused.y, again.y, sizeof(fused.y)), 0);
    GR_CHECK_EQ(memcmp(fused.w, again.w, sizeof(fused.w)), 0);
    for (int i = 0; i < N * C; i++) {
        far += fabs((double)(plain.y[i] - f32.y[i]));
        near += fabs((double)(fused.y[i] - f32.y[i]));
    }
    GR_CHECK(2 * near < far);
}

/* A cast to bf16 is there for its rounding; large integers do not pass f32; an output is
 * stored though a map reads it; what two products read is not computed twice. */
static gr_status trace_kept(gr_graph *g, void *user)
{
    gr_value *v = gr_input(g, "x");
    gr_value *k = gr_input(g, "k");
    gr_value *rounded = gr_cast(g, gr_cast(g, gr_add_k(g, v, 0.001), GR_BF16), GR_F32);
    gr_value *is_odd = gr_map2_at(GR_HERE, g, "gt", gr_add_k(g, k, 1), k);
    gr_value *e = gr_exp(g, v);

    (void)user;
    gr_output(g, "rounded", gr_mul_k(g, rounded, 2));
    gr_output(g, "greater", gr_where(g, is_odd, gr_add_k(g, v, 1), v));
    gr_output(g, "exp", e);
    gr_output(g, "exp2", gr_mul_k(g, e, 2));
    return gr_graph_status(g);
}

static void test_kept(void)
{
    static int64_t k[4] = { INT64_C(1) << 40, (INT64_C(1) << 53) + 1, 7, -3 };
    gr_named in[2] = { { "x", GR_F32, GR_SHAPE(4), x }, { "k", GR_I64, GR_SHAPE(4), k } };
    const char *without[2] = { "fuse", NULL };
    float out[2][4][4];
    const char *names[4] = { "rounded", "greater", "exp", "exp2" };

    for (int i = 0; i < 2; i++) {
        gr_step_config c = config(trace_kept, without[i]);
        gr_step *s;

        GR_CHECK_OK(gr_step_create(&s, &c));
        GR_CHECK_OK(gr_step_eval(s, in, 2));
        for (int o = 0; o < 4; o++)
            GR_CHECK_OK(gr_step_read(s, names[o], (gr_vec){ out[i][o], 4, GR_F32 }));
        gr_step_destroy(s);
    }
    GR_CHECK_EQ(memcmp(out[0], out[1], sizeof(out[0])), 0);
    GR_CHECK(out[1][1][0] == x[0] + 1); /* 2^40 + 1 > 2^40, which f32 would not see */
}

static gr_status plan_once(void *arg)
{
    gr_step_config c = config(trace_maps, NULL);
    gr_step *s;
    gr_status st;

    (void)arg;
    GR_TRY(gr_step_create(&s, &c));
    st = gr_step_plan(s, true, feeds, 2);
    gr_step_destroy(s);
    return st;
}

int main(void)
{
    make_feeds();
    test_same_bits();
    test_layers();
    test_amp();
    test_kept();
    GR_CHECK(gr_alloc_fail_each(plan_once, NULL) > 20);
    return 0;
}

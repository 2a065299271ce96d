/*
 * The kernel table, proved with the toy operator (tests/toy): every kernel and the pieces of
 * every fusion against the reference; the fuse pass offers on load, on the result, kept and
 * reduced; a kernel declines when it is prepared and the next one runs, or all reasons are
 * told; variants are measured, kept as text and taken again.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "check.h"
#include "exec/tune.h"
#include "op/driver.h"
#include "op/fusion.h"
#include "op/norm/norm.h"
#include "step/inspect.h"
#include "step/world.h"
#include "toy/cases.h"
#include "toy/toy.h"

#define N 12
#define C 7

static float x[N * C];

/* ---- the pass ---- */

/* Every kind of fusion, and a function that the toy does not know. */
static void add_stats(gr_graph *g, gr_value *v)
{
    gr_channel_attr attr = { 0 };
    gr_node *n = gr_graph_add(g, &(gr_build){ .op = &gr_op_batch_stats,
                                              .site = GR_HERE,
                                              .src = &v,
                                              .n_src = 1,
                                              .attr = &attr,
                                              .attr_bytes = sizeof(attr) });

    if (!n)
        return;
    gr_output(g, "mean", &n->out[0]);
    gr_output(g, "m2", &n->out[1]);
    gr_output(g, "count", &n->out[2]);
}

static gr_status trace_all(gr_graph *g, void *user)
{
    gr_value *in = gr_input(g, "x");
    gr_value *w = gr_param(g, "w", GR_SHAPE(C), gr_init_uniform(-1, 1));
    gr_value *b = gr_param(g, "b", GR_SHAPE(C), gr_init_uniform(-1, 1));
    gr_value *h = gr_relu(g, gr_add(g, toy(g, gr_relu(g, in), w), b));
    gr_value *kept = toy(g, h, b);

    (void)user;
    add_stats(g, h);
    gr_output(g, "h", h);
    gr_output(g, "sum", gr_sum(g, h, GR_AXIS(0), false));
    gr_output(g, "kept", kept);
    gr_output(g, "after", gr_mul(g, kept, w));
    gr_output(g, "tanh", gr_tanh(g, toy(g, gr_mul(g, kept, h), w)));
    return gr_graph_status(g);
}

static const struct {
    const char *name;
    size_t count;
} outputs[] = { { "h", N *C },  { "sum", C },     { "mean", C },     { "m2", C },
                { "count", 1 }, { "kept", N *C }, { "after", N *C }, { "tanh", N *C } };

#define N_OUTPUTS ((int)(sizeof(outputs) / sizeof(outputs[0])))

static gr_step *make_step(gr_trace_fn *trace, const char *without, const char *choices, bool tune)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step *s;

    c.trace = trace;
    c.device = "cpu";
    c.seed = 3;
    c.without = without;
    c.choices = choices;
    c.tune = tune;
    GR_CHECK_OK(gr_step_create(&s, &c));
    return s;
}

static gr_step *eval(const char *without, float out[N_OUTPUTS][N * C])
{
    gr_named feed = { "x", GR_F32, GR_SHAPE(N, C), x };
    gr_step *s = make_step(trace_all, without, NULL, false);

    GR_CHECK_OK(gr_step_eval(s, &feed, 1));
    for (int i = 0; i < N_OUTPUTS; i++)
        GR_CHECK_OK(gr_step_read(s, outputs[i].name, (gr_vec){ out[i], outputs[i].count, GR_F32 }));
    return s;
}

static void check_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fprintf(stderr, "no '%s' in\n%s", part, text);
    GR_CHECK(strstr(text, part));
}

static void test_offers(void)
{
    static float plain[N_OUTPUTS][N * C], fused[N_OUTPUTS][N * C];
    gr_step *a = eval("fuse", plain), *b = eval(NULL, fused);
    char *text;

    for (int i = 0; i < N_OUTPUTS; i++)
        for (size_t k = 0; k < outputs[i].count; k++)
            if (i >= 1 && i <= 3) /* another order of additions */
                GR_CHECK_NEAR(plain[i][k], fused[i][k], 1e-5);
            else
                GR_CHECK(plain[i][k] == fused[i][k]);
    GR_CHECK_OK(gr_graph_text(gr_step_first_graph(b), &text));
    check_has(text, "load 0 relu(r0) then add(r0, r1) relu(r2) gives r3, mean of r3 over 0, m2 of "
                    "r3 over 0, sum of r3 over 0 :");
    check_has(text, "then mul(r0, r1) gives r0, r2 :");
    check_has(text, "load 0 mul(r0, r1) : f32 [12, 7]\n");
    check_has(text, "map(");      /* tanh, which the toy does not know, */
    check_has(text, " tanh(r0)"); /* alone */
    GR_CHECK(!strstr(text, "reduce(") && !strstr(text, "batch_stats("));
    GR_CHECK(fused[4][0] == N);
    free(text);
    gr_step_destroy(a);
    gr_step_destroy(b);
}

/* ---- training ---- */

static gr_status trace_loss(gr_graph *g, void *user)
{
    gr_value *w = gr_param(g, "w", GR_SHAPE(C), gr_init_uniform(-1, 1));
    gr_value *b = gr_param(g, "b", GR_SHAPE(C), gr_init_uniform(-1, 1));
    gr_value *h = gr_relu(g, gr_add(g, toy(g, gr_input(g, "x"), w), b));

    (void)user;
    h = gr_relu(g, gr_add(g, toy(g, h, b), w));
    gr_loss(g, gr_mean(g, gr_square(g, h), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

/* Three steps over so many rows; the loss of the last. */
static float train(gr_step *s, int64_t rows)
{
    gr_named feed = { "x", GR_F32, GR_SHAPE(rows, C), x };
    float loss;

    for (int i = 0; i < 3; i++)
        GR_CHECK_OK(gr_step_train(s, &feed, 1, 0.1));
    GR_CHECK_OK(gr_step_read(s, "loss", (gr_vec){ &loss, 1, GR_F32 }));
    return loss;
}

static void test_training(void)
{
    gr_step *a = make_step(trace_loss, "fuse", NULL, false);
    gr_step *b = make_step(trace_loss, NULL, NULL, false);
    float plain = train(a, N), fused = train(b, N);

    GR_CHECK_NEAR(plain, fused, 1e-6);
    GR_CHECK(plain > 0);
    gr_step_destroy(a);
    gr_step_destroy(b);
}

/* ---- declining ---- */

static void check_kernel(int64_t rows, const char *want, const char *not_this)
{
    gr_step *s = make_step(trace_loss, NULL, NULL, false);
    char *text;

    train(s, rows);
    GR_CHECK_OK(gr_step_describe(s, &text));
    check_has(text, want);
    GR_CHECK(!strstr(text, not_this));
    free(text);
    gr_step_destroy(s);
}

static const char *shy_reject(const gr_node *n)
{
    (void)n;
    return "it is Monday";
}

static gr_kernel stubborn_kernels[3];
static gr_op stubborn;

static gr_status trace_stubborn(gr_graph *g, void *user)
{
    gr_value *in = gr_input(g, "x");
    gr_value *w = gr_param(g, "w", GR_SHAPE(C), gr_init_uniform(-1, 1));
    gr_build b = { .op = &stubborn, .site = "net.c:7", .src = (gr_value *[]){ in, w }, .n_src = 2 };

    (void)user;
    gr_output(g, "y", gr_graph_add_value(g, &b));
    return gr_graph_status(g);
}

static void test_declining(void)
{
    gr_named feed = { "x", GR_F32, GR_SHAPE(N - 1, C), x };
    gr_step *s;

    check_kernel(N, " picky ", " fast ");
    check_kernel(N - 1, " fast ", " picky ");
    stubborn = toy_op;
    stubborn.kernels = stubborn_kernels;
    stubborn_kernels[0] = (gr_kernel){ .name = "shy", .reject = shy_reject };
    stubborn_kernels[1] = toy_cpu[0];
    s = make_step(trace_stubborn, NULL, NULL, false);
    GR_CHECK_FAILS(gr_step_eval(s, &feed, 1), GR_ERR_ARG,
                   "no kernel takes it; shy: it is Monday; picky: takes an even number of rows, "
                   "not 11");
    gr_step_destroy(s);
}

/* ---- variants ---- */

static void test_measured(void)
{
    gr_step *s = make_step(trace_loss, NULL, NULL, true), *again;
    float a = train(s, N - 1), b;
    char *chosen, *kept;

    GR_CHECK_OK(gr_step_choices(s, &chosen));
    check_has(chosen, "toy f32 [11, 7], f32 [7]");
    check_has(chosen, " = fast:");
    again = make_step(trace_loss, NULL, chosen, true);
    b = train(again, N - 1);
    GR_CHECK(memcmp(&a, &b, sizeof(a)) == 0);
    GR_CHECK_OK(gr_step_choices(again, &kept));
    GR_CHECK_STR(chosen, kept);
    free(chosen);
    free(kept);
    gr_step_destroy(s);
    gr_step_destroy(again);
}

/* The variant that is given counts; one that nobody knows any more is passed over. */
static void test_given(void)
{
    static const char line[] = "toy f32 [12, 7], f32 [7] > f32 [12, 7] = fast:%s\n";
    static const char *const variants[] = { "rows", "columns", "sideways" };

    for (int i = 0; i < 3; i++) {
        gr_named feed = { "x", GR_F32, GR_SHAPE(N, C), x };
        char choices[128];
        gr_step *s;

        snprintf(choices, sizeof(choices), line, variants[i]);
        toy_n_rows = toy_n_columns = 0;
        s = make_step(trace_all, "fuse", choices, false);
        GR_CHECK_OK(gr_step_eval(s, &feed, 1));
        GR_CHECK_EQ(toy_n_rows, i == 0 ? 3 : 0);
        GR_CHECK_EQ(toy_n_columns, i == 0 ? 0 : 3);
        gr_step_destroy(s);
    }
}

/* A device beside the host also compares with the pieces of a fusion, by all their kernels. */
static void test_candidates(void)
{
    static const char want[] = "picky\nfast:columns\nfast:rows\n";
    gr_step *s;
    gr_backend_ops ops = gr_backend_cpu;
    static float out[N_OUTPUTS][N * C];
    const gr_graph *g;
    gr_device device = { .ops = &ops };
    gr_tune t = { .device = &device, .n_threads = 1 };
    gr_text lines = GR_TEXT_INIT;
    int count, n_fused = 0;

    s = eval(NULL, out);
    g = gr_step_first_graph(s);
    for (int i = 0; i < g->n_nodes; i++) {
        const gr_node *n = g->nodes[i];

        if (n->op != &toy_op || !n->fusion)
            continue;
        n_fused++;
        ops.runs_at_once = true;
        lines.len = 0;
        GR_CHECK_OK(gr_tune_candidates(&t, n, &lines, &count));
        GR_CHECK_STR(gr_text_str(&lines), want);
        GR_CHECK_EQ(count, 3);
        ops.runs_at_once = false;
        lines.len = 0;
        GR_CHECK_OK(gr_tune_candidates(&t, n, &lines, &count));
        GR_CHECK_STR(gr_text_str(&lines), "picky\nfast:columns\nfast:rows\n"
                                          "apart:picky\napart:fast:columns\napart:fast:rows\n");
        GR_CHECK_EQ(count, 6);
    }
    GR_CHECK_EQ(n_fused, 3);
    gr_text_fini(&lines);
    gr_step_destroy(s);
}

/* Each candidate can be measured within what a plan reserves, and in less it cannot. */
static void test_times(void)
{
    gr_backend_ops ops = gr_backend_cpu;
    static float out[N_OUTPUTS][N * C];
    gr_step *s = eval(NULL, out);
    const gr_graph *g = gr_step_first_graph(s);
    gr_tune t = { .n_threads = 1, .work_limit = 4096 };
    size_t work;
    double seconds;

    GR_CHECK_OK(ops.open(&t.device, 0));
    ops.runs_at_once = false;
    t.device->ops = &ops;
    for (int i = 0; i < g->n_nodes; i++) {
        const gr_node *n = g->nodes[i];

        if (n->op != &toy_op || !n->fusion)
            continue;
        GR_CHECK_OK(gr_tune_reserve(&t, n, &work));
        GR_CHECK(work >= 4096 + sizeof(float) * N * C);
        t.mem = gr_malloc_aligned(gr_tune_bytes(n, work));
        GR_CHECK(t.mem);
        GR_CHECK_OK(gr_tune_time(&t, n, "apart:fast:rows", work, &seconds));
        GR_CHECK(seconds > 0 && seconds < 10);
        GR_CHECK_OK(gr_tune_time(&t, n, "apart:fast:rows", 16, &seconds));
        GR_CHECK(isinf(seconds));
        GR_CHECK_OK(gr_tune_time(&t, n, "fast:sideways", work, &seconds));
        GR_CHECK(isinf(seconds));
        gr_free(t.mem);
    }
    t.device->ops = &gr_backend_cpu;
    gr_backend_cpu.close(t.device);
    gr_step_destroy(s);
}

int main(void)
{
    for (int i = 0; i < N * C; i++)
        x[i] = (float)((i * 37) % 101) / 50 - 1;
    driver_run_family(&driver_toy, NULL);
    test_offers();
    test_training();
    test_declining();
    test_measured();
    test_given();
    test_candidates();
    test_times();
    return 0;
}

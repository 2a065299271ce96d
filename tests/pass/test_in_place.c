/*
 * Results written over sources that end there: the same bits, and a smaller arena; not
 * where another view of that memory is read, nor over what is still needed.
 */
#include "check.h"
#include "gradus/gradus.h"

#define ROWS 70
#define COLS 300

/* Maps between transposes, which nothing joins: over one source, over either of two, over
 * a square seen two ways, over a value that is needed later, with a type between. */
static gr_status trace(gr_graph *g, void *user)
{
    static const int turn[2] = { 1, 0 };
    gr_value *a = gr_transpose(g, gr_input(g, "x"), turn);
    gr_value *b = gr_transpose(g, gr_input(g, "y"), turn);
    gr_value *c = gr_tanh(g, gr_add(g, gr_mul(g, a, b), a));
    gr_value *d = gr_transpose(g, c, turn);
    gr_value *e = gr_div(g, gr_exp(g, d), gr_add_k(g, gr_abs(g, d), 1));
    gr_value *row = gr_sum(g, e, GR_AXIS(1), true);
    gr_value *f = gr_sub(g, e, row);
    gr_value *h = gr_cast(g, gr_transpose(g, f, turn), GR_BF16);
    gr_value *s = gr_reshape(g, gr_transpose(g, gr_input(g, "x"), turn), GR_SHAPE(COLS * ROWS, 1));
    gr_value *line = gr_reshape(g, s, GR_SHAPE(COLS * ROWS));
    gr_value *small = gr_sum(g, line, GR_AXIS(0), false);

    (void)user;
    gr_output(g, "f", gr_transpose(g, gr_mul_k(g, f, 0.5), turn));
    gr_output(g, "h", gr_add(g, gr_transpose(g, h, turn), gr_square(g, gr_transpose(g, h, turn))));
    gr_output(g, "line", gr_mul(g, line, gr_sigmoid(g, small)));
    return gr_graph_status(g);
}

typedef struct result {
    float f[ROWS * COLS], h[ROWS * COLS], line[ROWS * COLS];
    size_t arena_bytes;
} result;

static float x[ROWS * COLS], y[ROWS * COLS];

static void run(const char *without, int threads, result *r)
{
    gr_named feeds[2] = { { "x", GR_F32, GR_SHAPE(ROWS, COLS), x },
                          { "y", GR_F32, GR_SHAPE(ROWS, COLS), y } };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step_stats stats;
    gr_step *s;

    c.trace = trace;
    c.device = "cpu";
    c.n_threads = threads;
    c.without = without;
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_eval(s, feeds, 2));
    GR_CHECK_OK(gr_step_read(s, "f", (gr_vec){ r->f, ROWS * COLS, GR_F32 }));
    GR_CHECK_OK(gr_step_read(s, "h", (gr_vec){ r->h, ROWS * COLS, GR_F32 }));
    GR_CHECK_OK(gr_step_read(s, "line", (gr_vec){ r->line, ROWS * COLS, GR_F32 }));
    GR_CHECK_OK(gr_step_get_stats(s, &stats));
    r->arena_bytes = stats.arena_bytes;
    gr_step_destroy(s);
}

static void check_same(const result *a, const result *b)
{
    GR_CHECK_EQ(memcmp(a->f, b->f, sizeof(a->f)), 0);
    GR_CHECK_EQ(memcmp(a->h, b->h, sizeof(a->h)), 0);
    GR_CHECK_EQ(memcmp(a->line, b->line, sizeof(a->line)), 0);
}

/* Two sources of a sum: with the result three, in place two. */
static gr_status trace_sum(gr_graph *g, void *user)
{
    static const int turn[2] = { 1, 0 };
    gr_value *a = gr_transpose(g, gr_input(g, "x"), turn);
    gr_value *b = gr_transpose(g, gr_input(g, "y"), turn);

    (void)user;
    gr_output(g, "sum", gr_add(g, a, b));
    return gr_graph_status(g);
}

static size_t arena_of_sum(const char *without)
{
    gr_named feeds[2] = { { "x", GR_F32, GR_SHAPE(ROWS, COLS), x },
                          { "y", GR_F32, GR_SHAPE(ROWS, COLS), y } };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_memory_report r;
    gr_step *s;

    c.trace = trace_sum;
    c.device = "cpu";
    c.without = without;
    GR_CHECK_OK(gr_step_create(&s, &c));
    GR_CHECK_OK(gr_step_memory_report(s, false, feeds, 2, &r));
    gr_step_destroy(s);
    return r.arena_live;
}

int main(void)
{
    static result plain, placed;
    size_t one = (size_t)ROWS * COLS * sizeof(float) / 64 * 64;

    for (int i = 0; i < ROWS * COLS; i++) {
        x[i] = (float)((i * 37) % 1009) / 500 - 1;
        y[i] = (float)((i * 53) % 997) / 480 - 1;
    }
    run("in_place", 1, &plain);
    for (int threads = 1; threads <= 2; threads++) {
        run(NULL, threads, &placed);
        check_same(&plain, &placed);
        GR_CHECK(threads > 1 || placed.arena_bytes <= plain.arena_bytes);
        run("fuse", threads, &placed);
        GR_CHECK_EQ(memcmp(plain.f, placed.f, sizeof(plain.f)), 0);
        GR_CHECK_EQ(memcmp(plain.line, placed.line, sizeof(plain.line)), 0);
    }
    GR_CHECK(arena_of_sum("in_place") >= 3 * one);
    GR_CHECK(arena_of_sum(NULL) < 3 * one);
    return 0;
}

/*
 * Compositions of the operators that move elements, through a step: the order of elements
 * in patches, gradients that cross concat, split and slice under mixed precision, the
 * padding row of an embedding, lengths of zero, tables of waves and bumps, a graph of
 * neighbours; and what is said of wrong calls.
 */
#include "check.h"
#include "gradus/gradus.h"

static gr_step *open_step(gr_trace_fn *trace, void *user, gr_amp amp)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_step *s;

    c.trace = trace;
    c.user = user;
    c.device = "cpu";
    c.amp = amp;
    GR_CHECK_OK(gr_step_create(&s, &c));
    return s;
}

static void read_f32(gr_step *s, const char *name, float *to, size_t n)
{
    GR_CHECK_OK(gr_step_read(s, name, (gr_vec){ to, n, GR_F32 }));
}

/* ---- patches ---- */

#define IMAGES 2
#define HEIGHT 4
#define WIDTH  6
#define CHANS  3
#define PATCH  2
#define PIXELS (IMAGES * HEIGHT * WIDTH * CHANS)

static gr_status trace_patches(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");
    gr_shape image = gr_value_shape(x);
    gr_value *chw = gr_patchify(g, x, PATCH, GR_PATCH_CHW);
    gr_value *hwc = gr_patchify(g, x, PATCH, GR_PATCH_HWC);

    (void)user;
    gr_output(g, "chw", chw);
    gr_output(g, "hwc", hwc);
    gr_output(g, "chw back", gr_unpatchify(g, chw, image, GR_PATCH_CHW));
    gr_output(g, "hwc back", gr_unpatchify(g, hwc, image, GR_PATCH_HWC));
    return gr_graph_status(g);
}

/* Element `e` of patch `p` of image n, where the element is (channel, row, column). */
static float pixel(const float *x, int n, int p, const int e[3])
{
    int row = p / (WIDTH / PATCH) * PATCH + e[1], col = p % (WIDTH / PATCH) * PATCH + e[2];

    return x[((n * HEIGHT + row) * WIDTH + col) * CHANS + e[0]];
}

static void test_patches(void)
{
    enum { N_PATCHES = HEIGHT / PATCH * (WIDTH / PATCH), LENGTH = PATCH * PATCH * CHANS };
    float x[PIXELS], chw[PIXELS], hwc[PIXELS], back[PIXELS];
    gr_named feed = { "x", GR_F32, GR_SHAPE(IMAGES, HEIGHT, WIDTH, CHANS), x };
    gr_step *s = open_step(trace_patches, NULL, GR_AMP_NONE);

    for (int i = 0; i < PIXELS; i++)
        x[i] = (float)i;
    GR_CHECK_OK(gr_step_eval(s, &feed, 1));
    read_f32(s, "chw", chw, PIXELS);
    read_f32(s, "hwc", hwc, PIXELS);
    for (int i = 0; i < PIXELS; i++) {
        int e = i % LENGTH, p = i / LENGTH % N_PATCHES, n = i / LENGTH / N_PATCHES;
        const int by_channel[] = { e / (PATCH * PATCH), e / PATCH % PATCH, e % PATCH };
        const int by_row[] = { e % CHANS, e / CHANS / PATCH, e / CHANS % PATCH };

        GR_CHECK(chw[i] == pixel(x, n, p, by_channel));
        GR_CHECK(hwc[i] == pixel(x, n, p, by_row));
    }
    read_f32(s, "chw back", back, PIXELS);
    GR_CHECK(memcmp(back, x, sizeof(x)) == 0);
    read_f32(s, "hwc back", back, PIXELS);
    GR_CHECK(memcmp(back, x, sizeof(x)) == 0);
    gr_step_destroy(s);
}

/* ---- gradients across parts ---- */

/* y = x W' with W [6, 4]; its parts are scaled by 1, 2, 3, put together in another order,
 * cut, flipped and padded, and summed: dW is the column sums of x, scaled. */
static gr_status trace_parts(gr_graph *g, void *user)
{
    static const int64_t before[] = { 0, 1 }, behind[] = { 1, 2 };
    gr_value *w = gr_param(g, "w", GR_SHAPE(6, 4), gr_init_const(0.5));
    gr_value *y = gr_matmul_t(g, gr_input(g, "x"), w, false, true), *part[3], *z;

    (void)user;
    gr_split(g, y, -1, 3, NULL, part);
    part[1] = gr_mul_k(g, part[1], 2);
    part[2] = gr_mul_k(g, part[2], 3);
    z = gr_concat(g, ((gr_value *[]){ part[2], part[0], part[1] }), 3, -1);
    z = gr_flip(g, gr_slice_axis(g, z, -1, 1, GR_END), GR_AXIS(0) | GR_AXIS(1));
    z = gr_pad(g, z, before, behind, 7);
    gr_loss(g, gr_sum(g, z, GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void test_parts(gr_amp amp)
{
    /* Rows 4 and 5 of w are the third part, of which the slice drops the first column. */
    static const float scale[] = { 1, 1, 2, 2, 0, 3 };
    float x[2][4] = { { 1, 2, 3, 4 }, { 0.5f, 0.25f, 1, -1 } }, w[6][4], loss;
    gr_named feed = { "x", GR_F32, GR_SHAPE(2, 4), x };
    gr_step *s = open_step(trace_parts, NULL, amp);
    gr_snapshot *snap;

    GR_CHECK_OK(gr_step_train(s, &feed, 1, 1));
    read_f32(s, "loss", &loss, 1);
    GR_CHECK_NEAR(loss, 0.5 * (10 + 0.75) * 9 + 7 * (3 * 8 - 2 * 5), 1e-6);
    GR_CHECK_OK(gr_step_save(s, &snap));
    memcpy(w, gr_snapshot_find(snap, "w")->mem, sizeof(w));
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 4; k++)
            GR_CHECK_NEAR(w[i][k], 0.5f - scale[i] * (x[0][k] + x[1][k]), 1e-6);
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
}

/* ---- embeddings ---- */

static gr_status trace_embedding(gr_graph *g, void *user)
{
    gr_value *w = gr_param(g, "w", GR_SHAPE(4, 2), gr_init_const(1));

    (void)user;
    gr_loss(g, gr_sum(g, gr_embedding(g, w, gr_input(g, "i"), 1), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void test_embedding(void)
{
    static const float want[] = { 1, 1, 1, 1, -1, -1, 0, 0 };
    int32_t index[] = { 2, 1, 3, 1, 2, 1 };
    gr_named feed = { "i", GR_I32, GR_SHAPE(2, 3), index };
    gr_step *s = open_step(trace_embedding, NULL, GR_AMP_NONE);
    gr_snapshot *snap;
    float loss;

    GR_CHECK_OK(gr_step_train(s, &feed, 1, 1));
    read_f32(s, "loss", &loss, 1);
    GR_CHECK(loss == 12); /* the padding row counts in the forward pass */
    GR_CHECK_OK(gr_step_save(s, &snap));
    GR_CHECK(memcmp(gr_snapshot_find(snap, "w")->mem, want, sizeof(want)) == 0);
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
}

/* ---- vectors and tables ---- */

static gr_status trace_vectors(gr_graph *g, void *user)
{
    gr_value *v = gr_param(g, "v", GR_SHAPE(2, 3), gr_init_const(0));
    gr_value *a = gr_add(g, gr_input(g, "a"), v);
    gr_rbf_config bumps = { .n = 3, .from = 0, .to = 20, .width = 0.625, .factor = 0.5 };

    (void)user;
    gr_output(g, "dot", gr_dot(g, a, gr_input(g, "a"), false));
    gr_output(g, "rbf", gr_rbf(g, gr_norm(g, a, false), bumps));
    gr_output(g, "waves", gr_sinusoid(g, 3, 4, 10000));
    gr_output(g, "time", gr_time_waves(g, gr_input(g, "t"), 6, 10000));
    gr_loss(g, gr_sum(g, gr_norm(g, a, false), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void check_tables(gr_step *s)
{
    float waves[3][4], times[2][6];
    const double t[] = { 0, 999 };

    read_f32(s, "waves", waves[0], 12);
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < 2; i++) {
            GR_CHECK_NEAR(waves[p][2 * i], sin(p * pow(10000, -i / 2.0)), 1e-7);
            GR_CHECK_NEAR(waves[p][2 * i + 1], cos(p * pow(10000, -i / 2.0)), 1e-7);
        }
    read_f32(s, "time", times[0], 12);
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < 3; i++) { /* one f32 product would be off by 3e-5 */
            GR_CHECK_NEAR(times[b][i], sin(t[b] * pow(10000, -i / 2.0)), 1e-7);
            GR_CHECK_NEAR(times[b][3 + i], cos(t[b] * pow(10000, -i / 2.0)), 1e-7);
        }
}

static void test_vectors(void)
{
    float a[2][3] = { { 3, 0, 4 }, { 0, 0, 0 } }, dot[2], rbf[2][3];
    int64_t t[] = { 0, 999 };
    gr_named feeds[] = { { "a", GR_F32, GR_SHAPE(2, 3), a }, { "t", GR_I64, GR_SHAPE(2), t } };
    gr_step *s = open_step(trace_vectors, NULL, GR_AMP_NONE);
    gr_snapshot *snap;
    const float *v;

    GR_CHECK_OK(gr_step_train(s, feeds, 2, 1));
    read_f32(s, "dot", dot, 2);
    GR_CHECK(dot[0] == 25 && dot[1] == 0);
    read_f32(s, "rbf", rbf[0], 6);
    for (int i = 0; i < 3; i++) {
        GR_CHECK_NEAR(rbf[0][i], exp(-0.5 * pow((5 - 10 * i) / 0.625, 2)), 1e-7);
        GR_CHECK_NEAR(rbf[1][i], exp(-0.5 * pow((0 - 10 * i) / 0.625, 2)), 1e-7);
    }
    check_tables(s);
    GR_CHECK_OK(gr_step_save(s, &snap));
    v = gr_snapshot_find(snap, "v")->mem;
    GR_CHECK_NEAR(v[0], -0.6, 1e-6);
    GR_CHECK_NEAR(v[2], -0.8, 1e-6);
    GR_CHECK(v[3] == 0 && v[4] == 0 && v[5] == 0); /* the gradient of a length 0 */
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
}

/* ---- a graph of neighbours ---- */

/* Messages from each point to its neighbours, summed where they arrive. */
static gr_status trace_graph(gr_graph *g, void *user)
{
    gr_knn_config near = { .k = 2, .in_batch = true };
    gr_value *x = gr_input(g, "x");
    gr_value *to = gr_flatten(g, gr_knn(g, x, gr_input(g, "mask"), near, NULL), 0, -1);
    gr_value *h = gr_reshape(g, gr_input(g, "h"), GR_SHAPE(8, 1, 1));
    gr_value *edges = gr_reshape(g, gr_broadcast(g, h, GR_SHAPE(8, 2, 1)), GR_SHAPE(16, 1));

    (void)user;
    gr_output(g, "to", to);
    gr_output(g, "sum", gr_scatter_add(g, edges, to, 8));
    return gr_graph_status(g);
}

static void test_graph(void)
{
    /* On a line: 0, 1, 3, 7; the last of the second sample is padding. */
    static const int32_t want[] = { 1, 2, 0, 2, 1, 0, 2, 1, 5, 6, 4, 6, 5, 4, 7, 7 };
    float x[8] = { 0, 1, 3, 7, 0, 1, 3, 0 }, h[8] = { 1, 2, 4, 8, 16, 32, 64, 128 }, sum[8];
    static const float arrived[] = {
        2 + 4, 1 + 4 + 8, 1 + 2 + 8, 0, 32 + 64, 16 + 64, 16 + 32, 256
    };
    bool mask[8] = { 1, 1, 1, 1, 1, 1, 1, 0 };
    gr_named feeds[] = { { "x", GR_F32, GR_SHAPE(2, 4, 1), x },
                         { "h", GR_F32, GR_SHAPE(8), h },
                         { "mask", GR_BOOL, GR_SHAPE(2, 4), mask } };
    gr_step *s = open_step(trace_graph, NULL, GR_AMP_NONE);
    int32_t to[16];

    GR_CHECK_OK(gr_step_eval(s, feeds, 3));
    GR_CHECK_OK(gr_step_read(s, "to", (gr_vec){ to, 16, GR_I32 }));
    GR_CHECK(memcmp(to, want, sizeof(to)) == 0);
    read_f32(s, "sum", sum, 8);
    GR_CHECK(memcmp(sum, arrived, sizeof(sum)) == 0);
    gr_step_destroy(s);
}

/* ---- messages ---- */

typedef gr_value *wrong_fn(gr_graph *g, gr_value *x);

static gr_value *wrong_squeeze(gr_graph *g, gr_value *x)
{
    return gr_squeeze(g, x, 1);
}

static gr_value *wrong_unsqueeze(gr_graph *g, gr_value *x)
{
    return gr_unsqueeze(g, x, 6);
}

static gr_value *wrong_flatten(gr_graph *g, gr_value *x)
{
    return gr_flatten(g, x, 2, 1);
}

static gr_value *wrong_patches(gr_graph *g, gr_value *x)
{
    return gr_patchify(g, x, 3, GR_PATCH_CHW);
}

static gr_value *wrong_image(gr_graph *g, gr_value *x)
{
    return gr_unpatchify(g, gr_patchify(g, x, 2, GR_PATCH_CHW), GR_SHAPE(1, 4, 6, 2), GR_PATCH_CHW);
}

static gr_value *wrong_slice(gr_graph *g, gr_value *x)
{
    return gr_slice_axis(g, x, 4, 0, 1);
}

static gr_value *wrong_stack(gr_graph *g, gr_value *x)
{
    return gr_stack(g, &x, 1, 9);
}

static gr_value *wrong_waves(gr_graph *g, gr_value *x)
{
    return gr_time_waves(g, x, 5, 10000);
}

static gr_value *wrong_bumps(gr_graph *g, gr_value *x)
{
    return gr_rbf(g, x, ((gr_rbf_config){ .n = 4 }));
}

static gr_value *wrong_mode(gr_graph *g, gr_value *x)
{
    return gr_resize(g, x, 2, 2, (gr_resize_mode)9);
}

static gr_value *wrong_pool(gr_graph *g, gr_value *x)
{
    return gr_global_avg_pool2d(g, gr_squeeze(g, x, 0));
}

typedef struct wrong {
    wrong_fn *call;
    const char *want;
} wrong;

static gr_status trace_wrong(gr_graph *g, void *user)
{
    const wrong *w = user;

    gr_output(g, "y", w->call(g, gr_input(g, "x")));
    return gr_graph_status(g);
}

static void test_messages(void)
{
    static wrong calls[] = {
        { wrong_squeeze, "squeeze of [1, 4, 4, 2]: dimension 1 is not 1" },
        { wrong_unsqueeze, "unsqueeze of [1, 4, 4, 2]" },
        { wrong_flatten, "2 to 1 are no dimensions in order" },
        { wrong_patches, "no whole patches in NHWC images of [1, 4, 4, 2]" },
        { wrong_image, "the images have no such patches: patches of [1, 4, 8]" },
        { wrong_slice, "there is no dimension 4" },
        { wrong_stack, "1 inputs along a new dimension 9 of 5" },
        { wrong_waves, "the width is 5, not even" },
        { wrong_bumps, "4 centres of width 0" },
        { wrong_mode, "resize: 9 is no mode" },
        { wrong_pool, "takes images [n, h, w, c], not [4, 4, 2]" },
    };
    gr_named feed = { "x", GR_F32, GR_SHAPE(1, 4, 4, 2), NULL };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        gr_step *s = open_step(trace_wrong, &calls[i], GR_AMP_NONE);

        GR_CHECK_FAILS(gr_step_plan(s, false, &feed, 1), GR_ERR_ARG, calls[i].want);
        GR_CHECK(strstr(gr_error_message(), "test_layout.c:"));
        gr_step_destroy(s);
    }
}

int main(void)
{
    test_patches();
    test_parts(GR_AMP_NONE);
    test_parts(GR_AMP_BF16);
    test_embedding();
    test_vectors();
    test_graph();
    test_messages();
    return 0;
}

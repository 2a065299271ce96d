/*
 * A sample's result does not depend on how many stand beside it (P36): predictions are the same
 * bits on any number of ranks, though these end with batches of other sizes. Networks with long
 * sums, evaluated in batches of many sizes, against one batch of all. (Not where oneDNN multiplies,
 * without AVX-512: its blocks are its own.)
 */
#include "base/cpu.h"
#include "check.h"
#include "gradus/gradus.h"

#include <stdlib.h>
#include <string.h>

#define MOST      33
#define N_CLASSES 10

typedef struct net {
    const char *name;
    gr_trace_fn *trace;
    int64_t size[3]; /* of a sample */
    int n_dims;
} net;

static gr_status end_with(gr_graph *g, gr_value *logits)
{
    gr_output(g, "logits", logits);
    gr_loss(g, gr_cross_entropy(g, logits, gr_input(g, "y")));
    return gr_graph_status(g);
}

static gr_status trace_mlp(gr_graph *g, void *user)
{
    gr_value *h = gr_relu(g, gr_linear(g, "a", gr_input(g, "x"), 600));

    (void)user;
    h = gr_relu(g, gr_linear(g, "b", h, 1300));
    return end_with(g, gr_linear(g, "c", h, N_CLASSES));
}

static gr_value *conv(gr_graph *g, const char *name, gr_value *x, int64_t channels, int stride)
{
    gr_conv c = GR_CONV_INIT;

    c.stride[0] = c.stride[1] = stride;
    c.pad[0] = c.pad[1] = 1;
    return gr_relu(g, gr_conv_layer(g, name, x, channels, 3, &c, NULL));
}

/* Pictures of 8 x 8, 4 x 4 and 2 x 2: small ones are interleaved. */
static gr_status trace_conv(gr_graph *g, void *user)
{
    gr_value *h = conv(g, "a", gr_input(g, "x"), 64, 1);

    (void)user;
    h = conv(g, "c", conv(g, "b", h, 128, 2), 128, 1);
    h = conv(g, "e", conv(g, "d", h, 320, 2), 320, 1);
    h = gr_mean(g, h, GR_AXIS(1) | GR_AXIS(2), false);
    return end_with(g, gr_linear(g, "f", h, N_CLASSES));
}

static gr_status trace_attention(gr_graph *g, void *user)
{
    gr_value *h = gr_linear(g, "in", gr_input(g, "x"), 96);

    (void)user;
    h = gr_encoder_layer(g, "block", h, &(gr_transformer_opts){ .heads = 4, .hidden = 700 });
    h = gr_mean(g, h, GR_AXIS(1), false);
    return end_with(g, gr_linear(g, "out", h, N_CLASSES));
}

static int64_t sample_count(const net *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->n_dims; i++)
        n *= t->size[i];
    return n;
}

static void feeds_of(const net *t, const float *x, const int64_t *y, int first, int n,
                     gr_named *feeds)
{
    int64_t dim[4] = { n, t->size[0], t->size[1], t->size[2] };

    feeds[0] = (gr_named){ "x", GR_F32, gr_shape_of(t->n_dims + 1, dim),
                           (void *)(uintptr_t)(x + first * sample_count(t)) };
    feeds[1] = (gr_named){ "y", GR_I64, GR_SHAPE(n), (void *)(uintptr_t)(y + first) };
}

static void evaluate(gr_step *s, const gr_named *feeds, int n, float *out)
{
    GR_CHECK_OK(gr_step_eval(s, feeds, 2));
    GR_CHECK_OK(gr_step_read(s, "logits", (gr_vec){ out, (size_t)(n * N_CLASSES), GR_F32 }));
}

/* All samples, n at a time. */
static void compare(gr_step *s, const net *t, const float *x, const int64_t *y, int n,
                    const float *want)
{
    float have[MOST * N_CLASSES];
    gr_named feeds[2];

    for (int first = 0; first < MOST; first += n) {
        int left = MOST - first < n ? MOST - first : n;

        feeds_of(t, x, y, first, left, feeds);
        evaluate(s, feeds, left, have);
        if (memcmp(have, want + first * N_CLASSES, sizeof(float) * (size_t)(left * N_CLASSES)) !=
            0) {
            fprintf(stderr, "%s: samples %d to %d differ in a batch of %d\n", t->name, first,
                    first + left, left);
            exit(1);
        }
    }
}

static void test_net(const net *t, gr_amp amp)
{
    static const int batches[] = { 1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 24, 31, 32 };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    float *x = malloc(sizeof(*x) * (size_t)(MOST * sample_count(t)));
    float want[MOST * N_CLASSES];
    int64_t y[MOST] = { 0 };
    gr_named feeds[2];
    gr_step *s;

    for (int64_t i = 0; i < MOST * sample_count(t); i++)
        x[i] = (float)((i * 7919 + i / 13) % 2003) / 1000 - 1;
    c.trace = t->trace;
    c.device = "cpu";
    c.amp = amp;
    c.max_plans = 64;
    GR_CHECK_OK(gr_step_create(&s, &c));
    feeds_of(t, x, y, 0, MOST, feeds);
    GR_CHECK_OK(gr_step_plan(s, true, feeds, 2));
    evaluate(s, feeds, MOST, want);
    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++)
        compare(s, t, x, y, batches[i], want);
    gr_step_destroy(s);
    free(x);
}

int main(void)
{
    static const net nets[] = {
        { "mlp", trace_mlp, { 784 }, 1 },
        { "convolutions", trace_conv, { 8, 8, 3 }, 3 },
        { "attention", trace_attention, { 9, 40 }, 2 },
    };

    if (!gr_cpu_has_avx512()) {
        printf("no AVX-512\n");
        return 77;
    }
    for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
        test_net(&nets[i], GR_AMP_NONE);
        test_net(&nets[i], GR_AMP_BF16);
    }
    return 0;
}

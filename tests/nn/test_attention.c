/*
 * Multi-head attention with fewer heads of keys than of queries, which PyTorch's module has not:
 * shapes of its parameters, and its result beside one head after the other made of products and
 * softmax. (What PyTorch has is in test_outputs.c.)
 */
#include "base/alloc.h"
#include "check.h"
#include "gradus/ops.h"
#include "nn/models.h"

enum { B = 2, N = 5, NK = 7, D = 24, HEADS = 6, SIZE = D / HEADS, COUNT = B * N * D };

typedef struct grouped {
    int64_t kv_heads;
    bool cross;
} grouped;

/* x W^T + b with some rows of W. */
static gr_value *rows(gr_graph *g, gr_value *x, gr_value *const wb[2], int64_t from)
{
    gr_value *w = gr_slice_axis(g, wb[0], 0, from, from + SIZE);
    gr_value *b = gr_slice_axis(g, wb[1], 0, from, from + SIZE);

    return gr_add(g, gr_matmul_t(g, x, w, false, true), b);
}

/* Head by head; parameters are those of the layer, by their names. */
static gr_value *composed(gr_graph *g, gr_value *x, gr_value *memory, int64_t kv)
{
    gr_init none = gr_init_const(0);
    gr_value *in[2] = { gr_param(g, "it.in_proj_weight", GR_SHAPE(D + 2 * kv * SIZE, D), none),
                        gr_param(g, "it.in_proj_bias", GR_SHAPE(D + 2 * kv * SIZE), none) };
    gr_value *out = gr_param(g, "it.out_proj.weight", GR_SHAPE(D, D), none), *head[HEADS];

    for (int64_t h = 0; h < HEADS; h++) {
        int64_t key = h / (HEADS / kv);
        gr_value *q = rows(g, x, in, h * SIZE), *k = rows(g, memory, in, D + key * SIZE);
        gr_value *v = rows(g, memory, in, D + (kv + key) * SIZE);
        gr_value *s = gr_mul_k(g, gr_matmul_t(g, q, k, false, true), 1 / sqrt(SIZE));

        head[h] = gr_matmul(g, gr_softmax(g, s, -1), v);
    }
    x = gr_matmul_t(g, gr_concat(g, head, HEADS, -1), out, false, true);
    return gr_add(g, x, gr_param(g, "it.out_proj.bias", GR_SHAPE(D), none));
}

static gr_status trace(gr_graph *g, void *user)
{
    const grouped *k = user;
    gr_value *x = gr_input(g, "x"), *memory = k->cross ? gr_input(g, "memory") : NULL;
    gr_attention_opts o = { .heads = HEADS, .kv_heads = k->kv_heads };
    gr_value *y = gr_multihead_attention(g, "it", x, memory, &o);

    gr_output(g, "y", y);
    gr_output(g, "composed", composed(g, x, memory ? memory : x, k->kv_heads));
    gr_loss(g, gr_mean(g, gr_square(g, y), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static void check(const grouped *k)
{
    const model m = { .trace = trace,
                      .config = k,
                      .feeds = { { "x", MODEL_REAL, 0, 0, GR_SHAPE(B, N, D) },
                                 { "memory", MODEL_REAL, 0, 0, GR_SHAPE(B, NK, D) } },
                      .n_feeds = 2 };
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_named feeds[MODEL_MAX_FEEDS];
    static float y[COUNT], want[COUNT];
    gr_step *s;

    c.device = "cpu";
    model_feeds_make(&m, feeds);
    model_open(&m, &c, &s);
    GR_CHECK_OK(gr_step_eval(s, feeds, m.n_feeds));
    GR_CHECK_OK(gr_step_read(s, "y", (gr_vec){ y, COUNT, GR_F32 }));
    GR_CHECK_OK(gr_step_read(s, "composed", (gr_vec){ want, COUNT, GR_F32 }));
    for (int i = 0; i < COUNT; i++)
        GR_CHECK_NEAR(y[i], want[i], 4 * D * 6e-8); /* sums of D numbers of about 1, twice */
    GR_CHECK_OK(gr_step_train(s, feeds, m.n_feeds, 0.1));
    model_feeds_free(&m, feeds);
    gr_step_destroy(s);
}

int main(void)
{
    static const grouped cases[] = { { 1, false }, { 2, false }, { 3, false }, { 6, false },
                                     { 1, true },  { 2, true },  { 3, true },  { 6, true } };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check(&cases[i]);
    return 0;
}

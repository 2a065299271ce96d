/*
 * Results of convolutions that are not square, of norms, of transformer layers (encoder and
 * decoder, post- and pre-norm, masks, bias, causal; with dropout, which evaluation leaves out), of
 * ViT blocks, of JiT with a condition and of forms of models that test_models.c does not train,
 * beside PyTorch in f64. tests/golden/make_outputs.py made the numbers. JiT runs once
 * more with weights loaded from a file as docs/nn.md tells to.
 *
 * usage: test_outputs [JIT.safetensors, as PyTorch saved it]
 */
#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"
#include "gradus/models.h"
#include "gradus/ops.h"
#include "nn/models.h"
#include "scratch.h"

enum {
    N_JIT_TENSORS = 32,
    B = 2,
    N = 9,
    NK = 7,
    D = 40,
    N_TOKENS = B * N * D,
    HEADS = 2,
    HIDDEN = 56,
    SIDE = 16,
    MAX = B * SIDE * SIDE * 3,
    N_CONV = 4 * 10, /* pixels of an image */
    N_TRANSPOSED = 15 * 10,
    MOST = B * 6 * N_TRANSPOSED
};
/* Four times what has been seen, 9.5e-7. */
#define TOLERANCE 4e-6

typedef struct layer {
    bool decoder, norm_first;
    int variant; /* of `variants` */
} layer;

static const char *const variants[] = { "plain", "causal", "masks", "bias" };

static gr_status finish(gr_graph *g, gr_value *y)
{
    gr_output(g, "y", y);
    gr_loss(g, gr_mean(g, y, GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static gr_status trace_layer(gr_graph *g, void *user)
{
    const layer *l = user;
    gr_value *x = gr_input(g, "x"), *memory = gr_input(g, "memory");
    gr_value *keys = gr_input(g, "keys"), *hidden = gr_input(g, "hidden");
    gr_value *bias = gr_input(g, "bias");
    bool masks = l->variant == 2, biased = l->variant == 3;
    gr_transformer_opts o = { .heads = HEADS,
                              .hidden = HIDDEN,
                              .dropout = 0.3,
                              .norm_first = l->norm_first,
                              .activation = l->variant % 3 == 0 ? GR_ACT_RELU : GR_ACT_GELU,
                              .causal = l->variant == 1,
                              .key_mask = masks ? keys : NULL,
                              .memory_mask = masks || biased ? hidden : NULL,
                              .bias = biased ? bias : NULL };

    if (l->decoder)
        return finish(g, gr_decoder_layer(g, "it", x, memory, &o));
    return finish(g, gr_encoder_layer(g, "it", x, &o));
}

/* user: whether it is transposed. Everything differs between rows and columns. */
static gr_status trace_conv(gr_graph *g, void *user)
{
    gr_conv c = { { 2, 1 }, { 1, 2 }, { 1, 3 }, 1, { 0, 0 } };
    gr_value *x = gr_input(g, "x");

    if (!*(const bool *)user)
        return finish(g, gr_conv_layer_hw(g, "it", x, 6, 3, 2, &c, NULL));
    c.out_pad[0] = 1;
    c.out_pad[1] = 2; /* less than the dilation, not than the stride */
    return finish(g, gr_conv_transpose_layer_hw(g, "it", x, 6, 4, 2, &c, NULL));
}

static gr_status trace_jit(gr_graph *g, void *user)
{
    gr_jit_input in = { gr_input(g, "x"), gr_input(g, "step"), gr_input(g, "mask"),
                        gr_input(g, "condition"), gr_input(g, "condition_mask") };

    return finish(g, gr_jit_model(g, "", &in, (const gr_jit *)user));
}

/* ---- norms, blocks, forms of models: one trace each, `user` says which ---- */

static gr_status trace_norm(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");

    switch (*(const int *)user) {
    case 0: return finish(g, gr_group_norm_layer(g, "it", x, 3));
    case 1: return finish(g, gr_rms_norm_layer(g, "it", x, 1e-6));
    default: return finish(g, gr_rms_norm_layer(g, "it", x, 0));
    }
}

static gr_status trace_vit(gr_graph *g, void *user)
{
    static const int32_t grid[N][2] = { { 0, 0 }, { 0, 1 }, { 0, 2 }, { 1, 0 }, { 1, 1 },
                                        { 1, 2 }, { 2, 0 }, { 2, 1 }, { 2, 2 } };
    const gr_rotary_opts turned = { .base = 100, .axes = 2 };
    gr_vit_block_opts o = { .heads = HEADS, .hidden = HIDDEN, .dropout = 0.3, .drop_path = 0.2 };

    if (*(const int *)user == 0) {
        o.key_mask = gr_input(g, "keys");
    } else {
        o.qk_norm = o.no_qkv_bias = true;
        o.layer_scale = 0.1;
        o.rotary = &turned;
        o.positions = gr_constant(g, GR_I32, GR_SHAPE(N, 2), grid);
    }
    return finish(g, gr_vit_block(g, "it", gr_input(g, "x"), &o));
}

static gr_status trace_resnet(gr_graph *g, void *user)
{
    gr_resnet c = { .depth = *(const int *)user, .n_classes = 40 };

    return finish(g, gr_resnet_model(g, "", gr_input(g, "x"), &c, NULL));
}

static gr_status trace_dilated(gr_graph *g, void *user)
{
    gr_resnet trunk = gr_resnet_dilated(*(const int *)user);
    gr_aspp c = { .planes = 6, .dilation = { 2, 3, 5 } };
    gr_value *x = gr_resnet_model(g, "backbone", gr_input(g, "x"), &trunk, NULL);

    return finish(g, gr_aspp_model(g, "aspp", x, &c));
}

static gr_status trace_unet(gr_graph *g, void *user)
{
    gr_unet c = { .n_classes = 1, .base = 8, .bilinear = true };

    (void)user;
    return finish(g, gr_unet_model(g, "", gr_input(g, "x"), &c));
}

static gr_status trace_aspp(gr_graph *g, void *user)
{
    gr_aspp c = { .planes = 6, .dilation = { 2, 3, 5 }, .relu = true };

    (void)user;
    return finish(g, gr_aspp_model(g, "", gr_input(g, "x"), &c));
}

#define DIMS(...)                                                                       \
    {                                                                                   \
        .n_dims = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), .dim = { \
            __VA_ARGS__                                                                 \
        }                                                                               \
    }

static const model layer_model = { .trace = trace_layer,
                                   .feeds = { { "x", MODEL_REAL, 0, 0, DIMS(B, N, D) },
                                              { "memory", MODEL_REAL, 0, 0, DIMS(B, NK, D) },
                                              { "keys", MODEL_LENGTH, 3, 0, DIMS(B, N) },
                                              { "hidden", MODEL_LENGTH, 2, 0, DIMS(B, NK) },
                                              { "bias", MODEL_REAL, 0, 0, DIMS(B, HEADS, N, N) } },
                                   .n_feeds = 5 };

static const gr_jit jit_config = { 40, 2, 2, 56, SIDE, 4 };
static const model jit_model = { .trace = trace_jit,
                                 .config = &jit_config,
                                 .feeds = { { "x", MODEL_REAL, 0, 0, DIMS(B, SIDE, SIDE, 3) },
                                            { "step", MODEL_LABEL, 1000, 0, DIMS(B) },
                                            { "mask", MODEL_MASK, 4, 0, DIMS(B, 16) },
                                            { "condition", MODEL_REAL, 0, 0,
                                              DIMS(B, SIDE, SIDE, 3) },
                                            { "condition_mask", MODEL_MASK, 4, 0, DIMS(B, 16) } },
                                 .n_feeds = 5 };

static const model conv_model = { .trace = trace_conv,
                                  .feeds = { { "x", MODEL_REAL, 0, 0, DIMS(B, 7, 9, 4) } },
                                  .n_feeds = 1 };

typedef struct form {
    const char *name;
    gr_trace_fn *trace;
    int which;
    size_t n; /* of the result */
    double scale;
    gr_shape shape;
} form;

static const form forms[] = {
    { "group_norm", trace_norm, 0, 360, 1.0 / 1024, DIMS(B, 3, 5, 12) },
    { "rms_norm", trace_norm, 1, 360, 1.0 / 1024, DIMS(B, 3, 5, 12) },
    { "rms_norm_usual", trace_norm, 2, 360, 1.0 / 1024, DIMS(B, 3, 5, 12) },
    { "vit", trace_vit, 0, N_TOKENS, 0, DIMS(B, N, D) },
    { "vit_later", trace_vit, 1, N_TOKENS, 0, DIMS(B, N, D) },
    { "resnet34", trace_resnet, 34, 80, 0, DIMS(B, 33, 41, 3) },
    { "resnet50", trace_resnet, 50, 80, 0, DIMS(B, 33, 41, 3) },
    { "resnet101", trace_resnet, 101, 80, 0, DIMS(B, 33, 41, 3) },
    { "resnet152", trace_resnet, 152, 80, 0, DIMS(B, 33, 41, 3) },
    { "dilated18", trace_dilated, 18, 360, 0, DIMS(B, 33, 41, 3) },
    { "dilated34", trace_dilated, 34, 360, 0, DIMS(B, 33, 41, 3) },
    { "unet_bilinear", trace_unet, 0, 782, 0, DIMS(B, 17, 23, 1) },
    { "aspp_relu", trace_aspp, 0, 756, 0, DIMS(B, 9, 7, 8) },
};

/* Every fifth element beside the numbers of the case. */
static void compare(const char *text, const char *name, const float *y, size_t n)
{
    char head[64], *end;
    double worst = 0;
    size_t n_want;
    const char *at;

    snprintf(head, sizeof(head), "\ncase %s ", name);
    at = strstr(text, head);
    GR_CHECK(at != NULL);
    n_want = (size_t)strtoul(at + strlen(head), &end, 10);
    GR_CHECK_EQ(n_want, (n + 4) / 5);
    for (size_t i = 0; i < n_want; i++) {
        double want = strtod(end, &end), off = fabs((double)y[5 * i] - want);

        worst = fmax(worst, off);
        if (!(off <= TOLERANCE))
            fprintf(stderr, "%s, element %zu: ", name, 5 * i);
        GR_CHECK_NEAR(y[5 * i], want, TOLERANCE);
    }
    printf("%s: off by %.1e\n", name, worst);
}

/* The function of docs/nn.md; how many tensors were found. */
static int load(gr_step *step, const char *path)
{
    gr_snapshot *from, *to;
    int n = 0;

    GR_CHECK_OK(gr_ckpt_read(path, &from));
    GR_CHECK_OK(gr_step_save(step, &to));
    for (int i = 0; i < gr_snapshot_count(to); i++) {
        const gr_named *t = gr_snapshot_at(to, i), *w = gr_snapshot_find(from, t->name);

        if (w && w->dtype == t->dtype && gr_shape_equal(&w->shape, &t->shape)) {
            memcpy(t->mem, w->mem, (size_t)gr_shape_count(&t->shape) * gr_dtype_bytes(t->dtype));
            n++;
        }
    }
    GR_CHECK_OK(gr_step_restore(step, to));
    gr_snapshot_destroy(to);
    gr_snapshot_destroy(from);
    return n;
}

static void write_weights(const model *m, const char *path)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_snapshot *snap;
    gr_step *s;

    c.device = "cpu";
    model_open(m, &c, &s);
    GR_CHECK_OK(gr_step_save(s, &snap));
    GR_CHECK_OK(gr_ckpt_write(path, snap));
    gr_snapshot_destroy(snap);
    gr_step_destroy(s);
}

/* Weights from the file, or from the hash of names when it is NULL. */
static void check(const model *m, const char *path, const char *text, const char *name, size_t n)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_named feeds[MODEL_MAX_FEEDS];
    static float y[MOST];
    gr_step *s;

    c.device = "cpu";
    model_feeds_make(m, feeds);
    if (path) {
        c.trace = m->trace;
        c.user = (void *)(uintptr_t)m->config;
        GR_CHECK_OK(gr_step_create(&s, &c));
        GR_CHECK_OK(gr_step_plan(s, true, feeds, m->n_feeds));
        GR_CHECK(load(s, path) >= N_JIT_TENSORS);
    } else {
        model_open(m, &c, &s);
    }
    GR_CHECK_OK(gr_step_eval(s, feeds, m->n_feeds));
    GR_CHECK_OK(gr_step_read(s, "y", (gr_vec){ y, n, GR_F32 }));
    compare(text, name, y, n);
    model_feeds_free(m, feeds);
    gr_step_destroy(s);
}

static void check_forms(const char *text)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const form *f = &forms[i];
        model m = { .trace = f->trace,
                    .config = &f->which,
                    .feeds = { { "x", MODEL_REAL, 0, f->scale, f->shape },
                               { "keys", MODEL_LENGTH, 3, 0, GR_SHAPE(B, N) } },
                    .n_feeds = 2 };

        check(&m, NULL, text, f->name, f->n);
    }
}

int main(int argc, char **argv)
{
    const char *weights = argc > 1 ? argv[1] : "jit.safetensors";
    char *text;
    size_t n_bytes;

    GR_CHECK_OK(gr_file_read(GR_TESTS_DIR "/golden/outputs.txt", &text, &n_bytes));
    for (int i = 0; i < 16; i++) {
        layer l = { i / 8 == 1, i / 4 % 2 == 1, i % 4 };
        model m = layer_model;
        char name[64];

        m.config = &l;
        snprintf(name, sizeof(name), "%s_%s_%s", l.decoder ? "decoder" : "encoder",
                 l.norm_first ? "pre" : "post", variants[l.variant]);
        check(&m, NULL, text, name, (size_t)B * N * D);
    }
    for (int i = 0; i < 2; i++) {
        static const char *const names[] = { "conv_hw", "conv_transpose_hw" };
        bool transposed = i == 1;
        model m = conv_model;

        m.config = &transposed;
        check(&m, NULL, text, names[i], (size_t)B * 6 * (i == 0 ? N_CONV : N_TRANSPOSED));
    }
    check_forms(text);
    check(&jit_model, NULL, text, "jit", MAX);
    if (argc < 2) {
        gr_test_scratch();
        write_weights(&jit_model, weights);
    }
    check(&jit_model, weights, text, "jit", MAX);
    gr_free(text);
    return 0;
}

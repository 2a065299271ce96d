/* The models: traces with their losses, and the two tables of sizes. */
#include "nn/models.h"

#include "gradus/models.h"
#include "gradus/ops.h"

/* [.., c] as rows of c. */
static gr_value *rows(gr_graph *g, gr_value *x)
{
    gr_shape s = gr_value_shape(x);

    return gr_reshape(g, x, GR_SHAPE(-1, s.n_dims > 0 ? s.dim[s.n_dims - 1] : 1));
}

static gr_value *entropy(gr_graph *g, gr_value *logits, const char *labels)
{
    return gr_cross_entropy(g, rows(g, logits), gr_reshape(g, gr_input(g, labels), GR_SHAPE(-1)));
}

static gr_status trace_resnet(gr_graph *g, void *config)
{
    gr_value *logits = gr_resnet_model(g, "", gr_input(g, "x"), config, NULL);

    gr_loss(g, gr_cross_entropy(g, logits, gr_input(g, "y")));
    return gr_graph_status(g);
}

static gr_status trace_dilated(gr_graph *g, void *config)
{
    gr_value *x = gr_input(g, "x");
    gr_shape s = gr_value_shape(x);
    gr_resnet trunk = gr_resnet_dilated(50);
    gr_value *y = gr_resnet_model(g, "backbone", x, &trunk, NULL);

    y = gr_aspp_model(g, "aspp", y, (const gr_aspp *)config);
    y = gr_resize(g, y, s.dim[1], s.dim[2], GR_BILINEAR_CORNERS);
    gr_loss(g, entropy(g, y, "y"));
    return gr_graph_status(g);
}

/* PyTorch's binary cross-entropy with logits. */
static gr_status trace_unet(gr_graph *g, void *config)
{
    gr_value *z = gr_unet_model(g, "", gr_input(g, "x"), (const gr_unet *)config);
    gr_value *tail = gr_log1p(g, gr_exp(g, gr_neg(g, gr_abs(g, z))));
    gr_value *loss = gr_sub(g, gr_relu(g, z), gr_mul(g, z, gr_input(g, "y")));

    gr_loss(g, gr_mean(g, gr_add(g, loss, tail), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static gr_status trace_jit(gr_graph *g, void *config)
{
    gr_jit_input in = { .x = gr_input(g, "x"),
                        .step = gr_input(g, "t"),
                        .mask = gr_input(g, "mask") };
    gr_value *y = gr_jit_model(g, "", &in, (const gr_jit *)config);

    gr_loss(g, gr_mean(g, gr_square(g, gr_sub(g, y, in.x)), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

static gr_status trace_gpt2(gr_graph *g, void *config)
{
    gr_value *y = gr_gpt2_model(g, "", gr_input(g, "ids"), (const gr_gpt2 *)config);

    gr_loss(g, entropy(g, y, "y"));
    return gr_graph_status(g);
}

typedef struct encoder {
    int64_t width, depth, heads;
} encoder;

static gr_status trace_encoder(gr_graph *g, void *config)
{
    const encoder *c = config;
    gr_value *ids = gr_input(g, "ids");
    gr_transformer_opts o = { .heads = c->heads, .activation = GR_ACT_GELU, .norm_first = true };
    gr_value *x = gr_embedding_layer(g, "embed", ids, 1000, c->width, NULL);

    x = gr_add(
        g, x, gr_param(g, "pos", GR_SHAPE(gr_value_shape(ids).dim[1], c->width), gr_init_const(0)));
    for (int64_t i = 0; i < c->depth; i++)
        x = gr_encoder_layer(g, gr_name(g, "layers.%d", (int)i), x, &o);
    x = gr_linear(g, "head", gr_layer_norm_layer(g, "norm", x, 0), 1000);
    gr_loss(g, entropy(g, x, "y"));
    return gr_graph_status(g);
}

static gr_status trace_protein(gr_graph *g, void *config)
{
    gr_protein_input in = { .coords = gr_input(g, "coords"),
                            .mask = gr_input(g, "mask"),
                            .tokens = gr_input(g, "ids") };
    gr_protein_output out = gr_protein_model(g, "", &in, (const gr_protein *)config);

    gr_loss(g, gr_add(g, entropy(g, out.fragments, "frag"), entropy(g, out.torsions, "tors")));
    return gr_graph_status(g);
}

static gr_status trace_protein_newest(gr_graph *g, void *config)
{
    gr_protein_input in = { .coords = gr_input(g, "coords"),
                            .mask = gr_input(g, "mask"),
                            .tokens = gr_input(g, "ids"),
                            .constants = gr_input(g, "constants"),
                            .residues = gr_input(g, "at"),
                            .pairs = gr_input(g, "pairs"),
                            .token_mask = gr_input(g, "shown") };
    gr_protein_output out = gr_protein_model(g, "", &in, (const gr_protein *)config);
    gr_value *loss = gr_add(g, entropy(g, out.fragments, "frag"), entropy(g, out.torsions, "tors"));

    gr_loss(g, gr_add(g, loss, gr_mean(g, gr_square(g, out.offsets), GR_AXES_ALL, false)));
    return gr_graph_status(g);
}

#define DIMS(...)                                                                       \
    {                                                                                   \
        .n_dims = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), .dim = { \
            __VA_ARGS__                                                                 \
        }                                                                               \
    }
#define REAL(name_, scale_, ...)                        \
    {                                                   \
        name_, MODEL_REAL, 0, scale_, DIMS(__VA_ARGS__) \
    }
#define LABEL(name_, n_, ...)                        \
    {                                                \
        name_, MODEL_LABEL, n_, 0, DIMS(__VA_ARGS__) \
    }

static const gr_resnet resnet18 = { .depth = 18, .n_classes = 10 };
static const gr_aspp aspp = { .planes = 21 };
static const gr_unet unet_small = { .n_classes = 1, .base = 16 }, unet_full = { .n_classes = 1 };
static const gr_jit jit_small = { 96, 2, 3, 384, 32, 4 }, jit_full = { 0 };
static const gr_gpt2 gpt2_small = { 199, 64, 96, 2, 3, 0 }, gpt2_full = { 0 };
static const encoder encoder_small = { 96, 2, 3 }, encoder_full = { 384, 6, 6 };
static const gr_protein protein_small = { .width = 64, .layers = 2, .heads = 2 },
                        protein_newest = { .width = 64, .layers = 2, .heads = 2, .offsets = true },
                        protein_full = { 0 };

/* bf16: one rounding is up to 2^-9 of a number; a loss, the mean of many, stays within one.
 * Batch norms over few pixels multiply what is off: ResNet's last ones are over 16 (small) and 64
 * (full), DeepLab's image-wide one over four. The full JiT, on one image, takes another way in bf16
 * from its first step on, and PyTorch's autocast the same one (docs/nn.md). */
#define RESNET(side, b)                                              \
    {                                                                \
        "resnet18", trace_resnet, &resnet18, 11181642, 0.01, 0x1p-6, \
            { REAL("x", 0, b, side, side, 3), LABEL("y", 10, b) }, 2 \
    }
/* The norm over four pixels in its image-wide branch multiplies differences tenfold in each
 * step, on every kernel and in PyTorch alike. */
#define DILATED(side, b)                                                         \
    {                                                                            \
        "dilated50", trace_dilated, &aspp, 24757721, 0.01, 0x1p-5,               \
            { REAL("x", 0, b, side, side, 3), LABEL("y", 21, b, side, side) }, 2 \
    }
#define UNET(side, b, config, n)                                                                   \
    {                                                                                              \
        "unet", trace_unet, &config, n, 0.01, 0x1p-9,                                              \
            { REAL("x", 0, b, side, side, 1), { "y", MODEL_BITS, 2, 0, DIMS(b, side, side, 1) } }, \
            2                                                                                      \
    }
#define JIT(side, b, config, n, bf16)                                    \
    {                                                                    \
        "jit", trace_jit, &config, n, 1, bf16,                           \
            { REAL("x", 0, b, side, side, 3),                            \
              LABEL("t", 1000, b),                                       \
              { "mask", MODEL_MASK, 8, 0, DIMS(b, side * side / 16) } }, \
            3                                                            \
    }
#define TOKENS(name, trace, config, n_params, vocab, b, n)            \
    {                                                                 \
        name, trace, &config, n_params, 1, 0x1p-9,                    \
            { LABEL("ids", vocab, b, n), LABEL("y", vocab, b, n) }, 2 \
    }
#define PROTEIN_NEWEST(b, l, n, config)                                \
    {                                                                  \
        "protein_newest", trace_protein_newest, &config, 0, 1, 0x1p-9, \
            { REAL("coords", 8, b, l, 4, 3),                           \
              { "mask", MODEL_LENGTH, 4, 0, DIMS(b, l) },              \
              { "shown", MODEL_LENGTH, 4, 0, DIMS(b, n) },             \
              LABEL("ids", 16, b, n),                                  \
              LABEL("frag", 16, b, n),                                 \
              LABEL("tors", 72, b, n),                                 \
              LABEL("at", (l)-4, b, n),                                \
              REAL("constants", 1, b, l, 5),                           \
              REAL("pairs", 1, b, n, n, 19) },                         \
            9                                                          \
    }
#define PROTEIN(b, l, n, config, n_params)                        \
    {                                                             \
        "protein", trace_protein, &config, n_params, 0.1, 0x1p-9, \
            { REAL("coords", 8, b, l, 4, 3),                      \
              { "mask", MODEL_LENGTH, 4, 0, DIMS(b, l) },         \
              LABEL("ids", 16, b, n),                             \
              LABEL("frag", 16, b, n),                            \
              LABEL("tors", 72, b, n) },                          \
            5                                                     \
    }

const model models_small[] = {
    RESNET(48, 4),
    DILATED(33, 4),
    UNET(40, 2, unet_small, 0),
    JIT(32, 2, jit_small, 0, 0x1p-9),
    TOKENS("gpt2", trace_gpt2, gpt2_small, 0, 199, 2, 40),
    TOKENS("encoder", trace_encoder, encoder_small, 0, 1000, 2, 40),
    PROTEIN(2, 40, 56, protein_small, 0),
    PROTEIN_NEWEST(2, 40, 56, protein_newest),
};
const int n_models_small = (int)(sizeof(models_small) / sizeof(models_small[0]));

const model models_full[] = {
    RESNET(64, 16),
    DILATED(129, 4),
    UNET(128, 2, unet_full, 14787777),
    JIT(64, 1, jit_full, 127681584, 0.25),
    TOKENS("gpt2", trace_gpt2, gpt2_full, 124439808, 50257, 1, 64),
    TOKENS("encoder", trace_encoder, encoder_full, 0, 1000, 4, 256),
    PROTEIN(2, 128, 320, protein_full, 4420120),
};
const int n_models_full = (int)(sizeof(models_full) / sizeof(models_full[0]));

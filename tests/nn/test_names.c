/*
 * Parameters and buffers of every layer and model beside PyTorch's: names, kinds, shapes and
 * starts; of large models their number of parameters and a hash over names and shapes. Graphs
 * are traced, nothing runs. tests/golden/make_names.py made the numbers.
 */
#include "gradus/gradus.h"
#include "gradus/models.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"
#include "src/graph/graph.h"

typedef struct kind {
    const char *name;
    void (*build)(gr_graph *g, const struct kind *k);
    gr_shape shape; /* of the input "x" */
    const void *config;
    const char *only; /* variables of this prefix; NULL: all */
} kind;

/* ---- builders ---- */

static void build_linear(gr_graph *g, const kind *k)
{
    (void)k;
    gr_linear(g, "it", gr_input(g, "x"), 40);
}

static void build_conv(gr_graph *g, const kind *k)
{
    gr_conv two = GR_CONV_INIT;

    two.groups = 2;
    if (strcmp(k->name, "conv_hw") == 0)
        gr_conv_layer_hw(g, "it", gr_input(g, "x"), 24, 3, 5, &two, NULL);
    else if (strcmp(k->name, "conv_transpose_hw") == 0)
        gr_conv_transpose_layer_hw(g, "it", gr_input(g, "x"), 24, 4, 1, &two, NULL);
    else if (strcmp(k->name, "conv") == 0)
        gr_conv_layer(g, "it", gr_input(g, "x"), 24, 3, &two, NULL);
    else
        gr_conv_transpose_layer(g, "it", gr_input(g, "x"), 24, 2, &two, NULL);
}

static void build_norm(gr_graph *g, const kind *k)
{
    gr_value *x = gr_input(g, "x");

    switch (k->name[0]) {
    case 'b': gr_batch_norm_layer(g, "it", x); break;
    case 'l': gr_layer_norm_layer(g, "it", x, 0); break;
    case 'r': gr_rms_norm_layer(g, "it", x, 1e-6); break;
    default: gr_group_norm_layer(g, "it", x, 2); break;
    }
}

static void build_embedding(gr_graph *g, const kind *k)
{
    (void)k;
    gr_embedding_layer(g, "it", gr_input(g, "ids"), 50, 64, NULL);
}

static void build_attention(gr_graph *g, const kind *k)
{
    (void)k;
    gr_multihead_attention(g, "it", gr_input(g, "x"), NULL, &(gr_attention_opts){ .heads = 4 });
}

static void build_transformer(gr_graph *g, const kind *k)
{
    gr_transformer_opts o = { .heads = 4, .hidden = 96 };
    gr_value *x = gr_input(g, "x");

    o.norm_first = strstr(k->name, "_pre") != NULL;
    if (k->name[0] == 'e')
        gr_encoder_layer(g, "it", x, &o);
    else
        gr_decoder_layer(g, "it", x, gr_input(g, "memory"), &o);
}

static void build_resnet(gr_graph *g, const kind *k)
{
    gr_resnet_model(g, "", gr_input(g, "x"), (const gr_resnet *)k->config, NULL);
}

static void build_dilated(gr_graph *g, const kind *k)
{
    gr_resnet trunk = gr_resnet_dilated((int)strtol(k->name + strlen("dilated"), NULL, 10));

    gr_resnet_model(g, "", gr_input(g, "x"), &trunk, NULL);
}

static void build_aspp(gr_graph *g, const kind *k)
{
    gr_aspp_model(g, "", gr_input(g, "x"), (const gr_aspp *)k->config);
}

static void build_deeplab(gr_graph *g, const kind *k)
{
    gr_resnet trunk = gr_resnet_dilated(50);
    gr_value *x = gr_resnet_model(g, "backbone", gr_input(g, "x"), &trunk, NULL);

    gr_aspp_model(g, "aspp", x, (const gr_aspp *)k->config);
}

static void build_unet(gr_graph *g, const kind *k)
{
    gr_unet_model(g, "", gr_input(g, "x"), (const gr_unet *)k->config);
}

static void build_jit(gr_graph *g, const kind *k)
{
    gr_jit_input in = { .x = gr_input(g, "x"),
                        .step = gr_input(g, "step"),
                        .mask = gr_input(g, k->config ? "few" : "mask") };

    gr_jit_model(g, "", &in, k->config ? k->config : &(gr_jit){ 0 });
}

static void build_gpt2(gr_graph *g, const kind *k)
{
    (void)k;
    gr_gpt2_model(g, "", gr_input(g, "ids"), &(gr_gpt2){ 0 });
}

static void build_protein(gr_graph *g, const kind *k)
{
    gr_protein_input in = { .coords = gr_input(g, "x"),
                            .mask = gr_input(g, "seen"),
                            .tokens = gr_input(g, "ids") };
    const gr_protein *newest = k->config;

    if (newest) {
        in.constants = gr_input(g, "constants");
        in.residues = gr_input(g, "ids");
        in.pairs = gr_input(g, "pairs");
    }
    gr_protein_model(g, "", &in, newest ? newest : &(gr_protein){ 0 });
}

#define DIMS(...)                                                                       \
    {                                                                                   \
        .n_dims = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), .dim = { \
            __VA_ARGS__                                                                 \
        }                                                                               \
    }

static const gr_resnet gray = { .depth = 18, .n_classes = 10 },
                       r18 = { .depth = 18, .n_classes = 1000 },
                       r34 = { .depth = 34, .n_classes = 1000 },
                       r50 = { .depth = 50, .n_classes = 1000 },
                       r101 = { .depth = 101, .n_classes = 1000 },
                       r152 = { .depth = 152, .n_classes = 1000 };
static const gr_aspp aspp = { .planes = 21 };
static const gr_unet unet = { .n_classes = 1 },
                     unet_bilinear = { .n_classes = 1, .bilinear = true };

static const gr_jit jit_b32 = { .size = 256, .patch = 32 };
static const gr_protein newest = { .offsets = true };

static const kind kinds[] = {
    { "linear", build_linear, DIMS(2, 64), NULL, NULL },
    { "conv", build_conv, DIMS(1, 5, 5, 12), NULL, NULL },
    { "conv_transpose", build_conv, DIMS(1, 5, 5, 16), NULL, NULL },
    { "conv_hw", build_conv, DIMS(1, 5, 5, 12), NULL, NULL },
    { "conv_transpose_hw", build_conv, DIMS(1, 5, 5, 16), NULL, NULL },
    { "batch_norm", build_norm, DIMS(2, 3, 3, 5), NULL, NULL },
    { "layer_norm", build_norm, DIMS(2, 6), NULL, NULL },
    { "rms_norm", build_norm, DIMS(2, 6), NULL, NULL },
    { "group_norm", build_norm, DIMS(2, 3, 3, 6), NULL, NULL },
    { "embedding", build_embedding, DIMS(1), NULL, NULL },
    { "attention", build_attention, DIMS(1, 3, 64), NULL, NULL },
    { "encoder_post", build_transformer, DIMS(1, 3, 64), NULL, NULL },
    { "encoder_pre", build_transformer, DIMS(1, 3, 64), NULL, NULL },
    { "decoder_post", build_transformer, DIMS(1, 3, 64), NULL, NULL },
    { "decoder_pre", build_transformer, DIMS(1, 3, 64), NULL, NULL },
    { "resnet18_gray", build_resnet, DIMS(1, 224, 224, 1), &gray, NULL },
    { "resnet18", build_resnet, DIMS(1, 64, 64, 3), &r18, NULL },
    { "resnet34", build_resnet, DIMS(1, 64, 64, 3), &r34, NULL },
    { "resnet50", build_resnet, DIMS(1, 64, 64, 3), &r50, NULL },
    { "resnet101", build_resnet, DIMS(1, 64, 64, 3), &r101, NULL },
    { "resnet152", build_resnet, DIMS(1, 64, 64, 3), &r152, NULL },
    { "dilated18", build_dilated, DIMS(1, 65, 65, 3), NULL, NULL },
    { "dilated34", build_dilated, DIMS(1, 65, 65, 3), NULL, NULL },
    { "dilated50", build_dilated, DIMS(1, 65, 65, 3), NULL, NULL },
    { "aspp", build_aspp, DIMS(2, 9, 9, 2048), &aspp, NULL },
    { "deeplab50", build_deeplab, DIMS(2, 65, 65, 3), &aspp, NULL },
    { "unet", build_unet, DIMS(1, 33, 47, 1), &unet, NULL },
    { "unet_bilinear", build_unet, DIMS(1, 33, 47, 1), &unet_bilinear, NULL },
    { "unet_colour", build_unet, DIMS(1, 32, 32, 3), &unet, NULL },
    { "jit", build_jit, DIMS(1, 64, 64, 3), NULL, NULL },
    { "jit_b32", build_jit, DIMS(1, 256, 256, 3), &jit_b32, NULL },
    { "gpt2", build_gpt2, DIMS(1), NULL, NULL },
    { "protein", build_protein, DIMS(1, 40, 4, 3), NULL, NULL },
    { "protein_newest", build_protein, DIMS(1, 40, 4, 3), &newest, NULL },
    { "protein_encoder", build_protein, DIMS(1, 40, 4, 3), NULL, "encoder." },
    { "protein_decoder", build_protein, DIMS(1, 40, 4, 3), NULL, "decoder." },
};

/* ---- comparing ---- */

/* Behind the line "case NAME". */
static const char *section(const char *text, const char *name)
{
    char head[64];
    const char *at;

    snprintf(head, sizeof(head), "\ncase %s\n", name);
    at = strstr(text, head);
    if (!at)
        fprintf(stderr, "no case %s\n", name);
    GR_CHECK(at != NULL);
    return at + strlen(head);
}

/* How a variable starts, as "c VALUE", "u BOUND", "n STD" or "t STD". */
static void check_start(const gr_var *v, char letter, double number)
{
    static const char letters[] = { [GR_INIT_CONST] = 'c',
                                    [GR_INIT_UNIFORM] = 'u',
                                    [GR_INIT_NORMAL] = 'n',
                                    [GR_INIT_TRUNC_NORMAL] = 't' };

    if (letters[v->init.kind] != letter)
        fprintf(stderr, "%s starts as '%c', expected '%c'\n", v->name, letters[v->init.kind],
                letter);
    GR_CHECK_EQ(letters[v->init.kind], letter);
    if (letter == 'c') {
        GR_CHECK_NEAR(v->init.a, number, 0);
        return;
    }
    GR_CHECK_NEAR(v->init.b, number, 0.01 * number);
    GR_CHECK_NEAR(v->init.a, letter == 'u' ? -v->init.b : 0, 0);
    if (letter == 't')
        GR_CHECK(v->init.lo == -2 && v->init.hi == 2);
}

/* One line "param|buffer NAME SHAPE START". Random ones come in PyTorch's order; *last is the
 * place of the one before. */
static void check_line(const gr_vars *vars, const char *line, int *last)
{
    char is[16], name[128], have[GR_SHAPE_TEXT], letter;
    const gr_var *v;
    double number;

    GR_CHECK_EQ(sscanf(line, "%15s %127s", is, name), 2);
    v = gr_vars_find(vars, name);
    if (!v)
        fprintf(stderr, "there is no %s\n", name);
    GR_CHECK(v != NULL);
    GR_CHECK_EQ(v->kind, strcmp(is, "param") == 0 ? GR_VAR_PARAM : GR_VAR_BUFFER);
    gr_shape_text(&v->shape, have, sizeof(have));
    line = strchr(line, '[');
    GR_CHECK_EQ(strncmp(line, have, strlen(have)), 0);
    line = strchr(line, ']');
    GR_CHECK(line && strlen(line) > 4);
    letter = line[2];
    number = strtod(line + 3, NULL);
    check_start(v, letter, number);
    if (letter != 'c') {
        GR_CHECK(v->index > *last);
        *last = v->index;
    }
}

static uint32_t name_hash(const char *text)
{
    uint32_t h = 0x811c9dc5u;

    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x01000193u;
    return h;
}

static void check_count(const kind *k, const gr_vars *vars, const char *line)
{
    int64_t want_params, want_tensors, n_params = 0;
    uint32_t want, hash = 0;
    int n_tensors = 0;
    char *end;

    want_params = strtoll(line + strlen("count"), &end, 10);
    want_tensors = strtoll(end, &end, 10);
    want = (uint32_t)strtoul(end, NULL, 10);
    for (int i = 0; i < vars->n; i++) {
        const gr_var *v = vars->list[i];
        char shape[GR_SHAPE_TEXT], text[256];

        if (k->only && strncmp(v->name, k->only, strlen(k->only)) != 0)
            continue;
        snprintf(text, sizeof(text), "%s %s", v->name,
                 gr_shape_text(&v->shape, shape, sizeof(shape)));
        hash += name_hash(text);
        n_tensors++;
        if (v->kind == GR_VAR_PARAM)
            n_params += gr_shape_count(&v->shape);
    }
    printf("%s: %" PRId64 " parameters, %d tensors\n", k->name, n_params, n_tensors);
    GR_CHECK_EQ(n_params, want_params);
    GR_CHECK_EQ(n_tensors, want_tensors);
    GR_CHECK_EQ(hash, want);
}

/* Starts that models set themselves, by the formulas of their papers. */
static const struct {
    const char *model, *name;
    char letter;
    double number;
} starts[] = {
    { "resnet18", "conv1.weight", 'n', 0.0252538 },             /* sqrt(2 / (64 7 7)) */
    { "resnet18", "layer2.0.conv1.weight", 'n', 0.0416667 },    /* sqrt(2 / (128 3 3)) */
    { "resnet50", "layer1.0.conv3.weight", 'n', 0.0883883 },    /* sqrt(2 / 256) */
    { "resnet18", "fc.weight", 'u', 0.0441942 },                /* 1 / sqrt(512) */
    { "aspp", "aspp2.atrous_conv.weight", 'n', 0.1028689 },     /* sqrt(2 / (21 3 3)) */
    { "unet", "inc.double_conv.0.bias", 'u', 0.3333333 },       /* 1 / sqrt(3 3) */
    { "unet", "up1.up.weight", 'u', 0.0220971 },                /* 1 / sqrt(512 2 2) */
    { "jit", "blocks.0.attn.qkv.weight", 't', 0.02 },           /* all linear ones */
    { "jit", "blocks.11.adaLN.scale_mlp.1.weight", 't', 0.02 }, /* even those told the step */
    { "jit", "condition_embed.weight", 't', 0.02 },
    { "jit", "cond_pos_embed_h", 'n', 0.02 },
    { "jit", "output_proj.bias", 'c', 0 },
    { "gpt2", "wte.weight", 'n', 0.02 },
    { "gpt2", "wpe.weight", 'n', 0.01 },
    { "gpt2", "h.0.mlp.c_fc.weight", 'n', 0.02 },
    { "gpt2", "h.0.mlp.c_proj.weight", 'n', 0.0040825 },   /* 0.02 / sqrt(2 12) */
    { "protein", "encoder.node_proj.weight", 'u', 0.125 }, /* 1 / sqrt(64) */
    { "protein", "decoder.fragment_embedding.weight", 'n', 0.02 },
    { "protein", "decoder.encoder_proj.weight", 'u', 0.1082532 }, /* xavier: 6 / 512 */
    { "protein", "decoder.transformer_layers.layers.2.linear2.weight", 'u',
      0.0684653 }, /* 6 / 1280 */
    { "protein", "decoder.transformer_layers.layers.2.linear2.bias", 'c', 0 },
    { "protein", "decoder.transformer_layers.layers.0.self_attn.out_proj.weight", 'u', 0.1082532 },
    { "protein", "decoder.transformer_layers.layers.0.self_attn.in_proj_weight", 'u',
      0.0765466 },                                                  /* 6 / 1024 */
    { "protein", "decoder.torsion_head.4.weight", 'u', 0.1352506 }, /* 6 / 328 */
};

static void check_kind(const kind *k, const char *text)
{
    const gr_named feeds[] = {
        { .name = "x", .dtype = GR_F32, .shape = k->shape },
        { .name = "memory", .dtype = GR_F32, .shape = GR_SHAPE(1, 5, 64) },
        { .name = "ids", .dtype = GR_I64, .shape = GR_SHAPE(1, 7) },
        { .name = "step", .dtype = GR_I64, .shape = GR_SHAPE(1) },
        { .name = "mask", .dtype = GR_BOOL, .shape = GR_SHAPE(1, 256) },
        { .name = "seen", .dtype = GR_BOOL, .shape = GR_SHAPE(1, 40) },
        { .name = "few", .dtype = GR_BOOL, .shape = GR_SHAPE(1, 64) },
        { .name = "constants", .dtype = GR_F32, .shape = GR_SHAPE(1, 40, 5) },
        { .name = "pairs", .dtype = GR_F32, .shape = GR_SHAPE(1, 7, 7, 19) },
    };
    const char *line = section(text, k->name);
    gr_vars *vars;
    gr_graph *g;
    int n = 0, last = -1;

    GR_CHECK_OK(gr_vars_create(&vars));
    GR_CHECK_OK(gr_graph_create(&g, vars, true, feeds, (int)(sizeof(feeds) / sizeof(feeds[0]))));
    k->build(g, k);
    GR_CHECK_OK(gr_graph_status(g));
    if (strncmp(line, "count", 5) == 0) {
        check_count(k, vars, line);
    } else {
        for (; line && *line && strncmp(line, "case", 4) != 0; n++) {
            check_line(vars, line, &last);
            line = strchr(line, '\n');
            line = line ? line + 1 : NULL;
        }
        GR_CHECK_EQ(vars->n, n);
    }
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        if (strcmp(starts[i].model, k->name) == 0) {
            const gr_var *v = gr_vars_find(vars, starts[i].name);

            GR_CHECK(v != NULL);
            check_start(v, starts[i].letter, starts[i].number);
        }
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
}

int main(void)
{
    char *text;
    size_t n_bytes;

    GR_CHECK_OK(gr_file_read(GR_TESTS_DIR "/golden/names.txt", &text, &n_bytes));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        check_kind(&kinds[i], text);
    gr_free(text);
    return 0;
}

/*
 * The networks of the five projects, put together from public layers as their authors did, have
 * exactly as many trainable numbers (those that models.h has whole are in test_names.c).
 */
#include "gradus/gradus.h"

#include "check.h"
#include "src/graph/graph.h"
#include "src/graph/vars.h"

typedef struct counted {
    const char *name;
    void (*build)(gr_graph *g, const struct counted *c);
    int64_t n_params;
    int depth;
    bool lorm, pooled;
    int64_t patch;
} counted;

/* ---- scribbles: DeepLab over a dilated trunk, and the branch that rebuilds its features ---- */

/* Queries and keys of 1x1 convolutions, cosine attention over all places, a learned factor. */
static gr_value *add_lorm(gr_graph *g, gr_value *x)
{
    gr_shape s = gr_value_shape(x), flat = GR_SHAPE(s.dim[0], s.dim[1] * s.dim[2], s.dim[3]);
    gr_value *q = gr_conv_layer(g, "lorm.query_conv", x, s.dim[3], 1, NULL, NULL);
    gr_value *k = gr_conv_layer(g, "lorm.key_conv", x, s.dim[3], 1, NULL, NULL);
    gr_value *gamma = gr_param(g, "lorm.gamma", GR_SHAPE(1), gr_init_const(1));
    gr_value *v = gr_reshape(g, x, flat), *y;

    y = gr_cosine_attention(g, gr_reshape(g, q, flat), gr_reshape(g, k, flat), v,
                            gr_input(g, "query"), &(gr_attention_opts){ .heads = 1 });
    y = gr_square(g, gr_sub(g, v, gr_mul(g, y, gamma)));
    return gr_counted_mean(
        g, gr_sum(g, y, GR_AXES_ALL, false),
        gr_cast(g, gr_count_nonzero(g, y, GR_AXES_ALL, false), gr_value_dtype(y)));
}

static gr_value *conv_bn(gr_graph *g, const char *name, gr_value *x, int64_t n, int64_t k)
{
    gr_conv same = GR_CONV_INIT;
    gr_layer_opts no_bias = { .no_bias = true };

    same.pad[0] = same.pad[1] = k / 2;
    x = gr_conv_layer(g, gr_name(g, "%s.0", name), x, n, k, &same, &no_bias);
    return gr_relu(g, gr_batch_norm_layer(g, gr_name(g, "%s.1", name), x));
}

static void build_deeplab2(gr_graph *g, const counted *c)
{
    gr_resnet trunk = gr_resnet_dilated(c->depth);
    gr_value *x = gr_resnet_model(g, "backbone", gr_input(g, "image"), &trunk, NULL);
    gr_value *y = gr_aspp_model(g, "aspp", x, &(gr_aspp){ .planes = 21 });

    gr_output(g, "logits", gr_resize(g, y, 65, 65, GR_BILINEAR_CORNERS));
    if (c->lorm)
        gr_output(g, "lorm", add_lorm(g, x));
}

static void build_deeplab3(gr_graph *g, const counted *c)
{
    gr_resnet trunk = gr_resnet_dilated(c->depth);
    gr_aspp aspp = { .planes = 256, .dilation = { 6, 12, 18 }, .relu = true };
    gr_value *stage[4], *x, *y, *low;
    gr_shape s;

    x = gr_resnet_model(g, "backbone", gr_input(g, "image"), &trunk, stage);
    s = gr_value_shape(stage[0]);
    y = gr_dropout(g, gr_aspp_model(g, "aspp", x, &aspp), 0.5);
    y = gr_resize(g, y, s.dim[1], s.dim[2], GR_BILINEAR_CORNERS);
    low = conv_bn(g, "low", stage[0], 48, 1);
    y = gr_concat(g, ((gr_value *[]){ y, low }), 2, -1);
    y = conv_bn(g, "last2", conv_bn(g, "last1", y, 256, 3), 256, 3);
    y = gr_conv_layer(g, "out", y, 21, 1, NULL, NULL);
    gr_output(g, "logits", y);
    if (c->lorm)
        gr_output(g, "lorm", add_lorm(g, x));
}

/* ---- actions: what is trained between two frozen encoders and the arm ---- */

static gr_value *linear_norm(gr_graph *g, const char *name, gr_value *x, int64_t n)
{
    x = gr_linear(g, gr_name(g, "%s.0", name), x, n);
    return gr_layer_norm_layer(g, gr_name(g, "%s.1", name), x, 0);
}

/* points [b, s, n, 3] -> [b, s, 256] */
static gr_value *add_point_net(gr_graph *g)
{
    static const int64_t widths[] = { 64, 128, 256 };
    gr_value *x = gr_input(g, "points");

    for (int i = 0; i < 3; i++) {
        x = gr_linear(g, gr_name(g, "points.%d", 2 * i), x, widths[i]);
        x = gr_relu(g, gr_batch_norm_layer(g, gr_name(g, "points.%d", 2 * i + 1), x));
    }
    return gr_max_index(g, x, 2, false, NULL);
}

static gr_value *add_geometry(gr_graph *g)
{
    gr_value *part[3] = { gr_gelu(g, linear_norm(g, "tokens", gr_input(g, "tokens"), 256)),
                          add_point_net(g),
                          gr_gelu(g, linear_norm(g, "pose", gr_input(g, "pose"), 128)) };

    gr_param(g, "query", GR_SHAPE(1, 1, 2048), gr_init_normal(0, 0.02)); /* nothing reads it */
    return gr_linear(g, "join", gr_concat(g, part, 3, -1), 512);
}

/* One learned query looks at all words. */
static gr_value *add_pool(gr_graph *g, gr_value *x, gr_value *mask)
{
    gr_value *query = gr_param(g, "pool.query", GR_SHAPE(1, 1, 1024), gr_init_normal(0, 0.02));
    gr_attention_opts o = { .heads = 16, .key_mask = mask };
    int64_t b = gr_value_shape(x).dim[0];

    query = gr_broadcast(g, query, GR_SHAPE(b, 1, 1024));
    x = gr_multihead_attention(g, "pool.attn", query, x, &o);
    return gr_reshape(g, x, GR_SHAPE(b, 1024));
}

static gr_value *add_fusion(gr_graph *g, gr_value *geometry, bool pooled)
{
    gr_transformer_opts o = { .heads = 16,
                              .activation = GR_ACT_GELU,
                              .dropout = 0.1,
                              .norm_first = true,
                              .key_mask = gr_input(g, "words") };
    gr_value *x = gr_dropout(g, linear_norm(g, "language", gr_input(g, "text"), 1024), 0.1);
    gr_value *memory = gr_dropout(g, linear_norm(g, "geometry", geometry, 1024), 0.1);

    for (int i = 0; i < 4; i++)
        x = gr_decoder_layer(g, gr_name(g, "layers.%d", i), x, memory, &o);
    x = pooled ? add_pool(g, x, o.key_mask) : gr_mean(g, x, GR_AXIS(1), false);
    return gr_linear(g, "out", gr_layer_norm_layer(g, "norm", x, 0), 1024);
}

static void build_actions(gr_graph *g, const counted *c)
{
    gr_value *x = add_fusion(g, add_geometry(g), c->pooled), *pose, *gripper;

    x = gr_dropout(g, gr_gelu(g, linear_norm(g, "head1", x, 512)), 0.1);
    x = gr_gelu(g, linear_norm(g, "head2", x, 256));
    pose = gr_linear(g, "pose2", gr_relu(g, gr_linear(g, "pose1", x, 256)), 6);
    gripper = gr_linear(g, "grip2", gr_relu(g, gr_linear(g, "grip1", x, 256)), 1);
    gr_output(g, "pose", pose);
    gr_output(g, "gripper", gr_sigmoid(g, gripper));
}

/* ---- side chains: the later form, which knows more of residues and of pairs of tokens ---- */

static void build_side_chains(gr_graph *g, const counted *c)
{
    gr_protein_input in = { gr_input(g, "coords"),    gr_input(g, "there"),
                            gr_input(g, "fragments"), gr_input(g, "constants"),
                            gr_input(g, "at"),        gr_input(g, "pairs"),
                            gr_input(g, "shown") };
    gr_protein_output out = gr_protein_model(g, "", &in, &(gr_protein){ .offsets = true });

    (void)c;
    gr_output(g, "fragments", out.fragments);
    gr_output(g, "torsions", out.torsions);
    gr_output(g, "offsets", out.offsets);
}

/* ---- denoisers: of images of 64 pixels, and of 256 by patch and size ---- */

static void build_jit(gr_graph *g, const counted *c)
{
    const int64_t d = c->depth == 12 ? 768 : c->depth == 24 ? 1024 : 1280;
    gr_jit jit = { d, c->depth, c->depth == 12 ? 12 : 16, 0, c->patch == 4 ? 64 : 256, c->patch };
    gr_jit_input in = { .step = gr_input(g, "step") };

    in.x = gr_input(g, c->patch == 4 ? "image64" : "image256");
    in.mask = gr_input(g, c->patch == 32 ? "patches64" : "patches256");
    gr_output(g, "y", gr_jit_model(g, "", &in, &jit));
}

/* ---- all ---- */

static const counted all[] = {
    { "deeplabv2 r18", build_deeplab2, 11490777, 18, false, false, 0 },
    { "deeplabv2 r34", build_deeplab2, 21598937, 34, false, false, 0 },
    { "res18_ASPP_lorm", build_deeplab2, 12016090, 18, true, false, 0 },
    { "res34_ASPP_lorm", build_deeplab2, 22124250, 34, true, false, 0 },
    { "deeplabv3p r18", build_deeplab3, 16608181, 18, false, false, 0 },
    { "deeplabv2 r50", build_deeplab2, 24757721, 50, false, false, 0 },
    { "res50_ASPP_lorm", build_deeplab2, 33150426, 50, true, false, 0 },
    { "deeplabv3p r50", build_deeplab3, 40352181, 50, false, false, 0 },
    { "deeplabv3p r101", build_deeplab3, 59344309, 101, false, false, 0 },
    { "deeplabv3p_lorm r50", build_deeplab3, 48744886, 50, true, false, 0 },
    { "deeplabv3p_lorm r101", build_deeplab3, 67737014, 101, true, false, 0 },
    { "AtlasVLA, what is trained", build_actions, 74653447, 0, false, false, 0 },
    { "AtlasVLA, attention pooling", build_actions, 78852871, 0, false, true, 0 },
    { "protein_mdm, newest", build_side_chains, 4507368, 0, false, false, 0 },
    { "JiT-B/4", build_jit, 127681584, 12, false, false, 4 },
    { "JiT-B/16", build_jit, 129341184, 12, false, false, 16 },
    { "JiT-B/32", build_jit, 134639616, 12, false, false, 32 },
    { "JiT-L/16", build_jit, 455729920, 24, false, false, 16 },
    { "JiT-L/32", build_jit, 462793728, 24, false, false, 32 },
    { "JiT-H/16", build_jit, 947282688, 32, false, false, 16 },
    { "JiT-H/32", build_jit, 956111872, 32, false, false, 32 },
};

static void check_one(const counted *c)
{
    const gr_named feeds[] = {
        { .name = "image", .dtype = GR_F32, .shape = GR_SHAPE(2, 65, 65, 3) },
        { .name = "query", .dtype = GR_F32, .shape = GR_SHAPE(2, 81) },
        { .name = "text", .dtype = GR_F32, .shape = GR_SHAPE(2, 7, 4096) },
        { .name = "words", .dtype = GR_BOOL, .shape = GR_SHAPE(2, 7) },
        { .name = "tokens", .dtype = GR_F32, .shape = GR_SHAPE(2, 2, 2048) },
        { .name = "points", .dtype = GR_F32, .shape = GR_SHAPE(2, 2, 50, 3) },
        { .name = "pose", .dtype = GR_F32, .shape = GR_SHAPE(2, 2, 9) },
        { .name = "coords", .dtype = GR_F32, .shape = GR_SHAPE(2, 33, 4, 3) },
        { .name = "there", .dtype = GR_BOOL, .shape = GR_SHAPE(2, 33) },
        { .name = "fragments", .dtype = GR_I32, .shape = GR_SHAPE(2, 40) },
        { .name = "constants", .dtype = GR_F32, .shape = GR_SHAPE(2, 33, 5) },
        { .name = "at", .dtype = GR_I32, .shape = GR_SHAPE(2, 40) },
        { .name = "pairs", .dtype = GR_F32, .shape = GR_SHAPE(2, 40, 40, 19) },
        { .name = "shown", .dtype = GR_BOOL, .shape = GR_SHAPE(2, 40) },
        { .name = "image64", .dtype = GR_F32, .shape = GR_SHAPE(1, 64, 64, 3) },
        { .name = "image256", .dtype = GR_F32, .shape = GR_SHAPE(1, 256, 256, 3) },
        { .name = "step", .dtype = GR_I32, .shape = GR_SHAPE(1) },
        { .name = "patches64", .dtype = GR_BOOL, .shape = GR_SHAPE(1, 64) },
        { .name = "patches256", .dtype = GR_BOOL, .shape = GR_SHAPE(1, 256) },
    };
    int64_t n_params = 0;
    gr_vars *vars;
    gr_graph *g;

    GR_CHECK_OK(gr_vars_create(&vars));
    GR_CHECK_OK(gr_graph_create(&g, vars, true, feeds, (int)(sizeof(feeds) / sizeof(feeds[0]))));
    c->build(g, c);
    GR_CHECK_OK(gr_graph_status(g));
    for (int i = 0; i < vars->n; i++)
        if (vars->list[i]->kind == GR_VAR_PARAM)
            n_params += gr_shape_count(&vars->list[i]->shape);
    if (n_params != c->n_params)
        fprintf(stderr, "%s:\n", c->name);
    GR_CHECK_EQ(n_params, c->n_params);
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        check_one(&all[i]);
    return 0;
}

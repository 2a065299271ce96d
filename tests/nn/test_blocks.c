/*
 * Blocks of transformers beside the models that are made of them: JiT and GPT-2 put together from
 * public builders share their parameters with the whole model of the same trace, by name, and give
 * the same bits. Of ViT blocks names and numbers of parameters; their values are in test_outputs.c.
 */
#include "gradus/gradus.h"
#include "gradus/models.h"

#include "base/alloc.h"
#include "check.h"
#include "nn/models.h"
#include "src/graph/graph.h"

enum {
    B = 2,
    N = 7,
    WIDTH = 24,
    DEPTH = 3,
    HEADS = 2,
    VOCAB = 11,
    SIDE = 8,
    PATCH = 2,
    PIXELS = 3 * PATCH * PATCH, /* numbers of a patch */
    GRID = SIDE / PATCH,
    PATCHES = GRID * GRID
};

static gr_status finish(gr_graph *g, gr_value *whole, gr_value *built)
{
    gr_output(g, "whole", whole);
    gr_output(g, "built", built);
    gr_loss(g, gr_mean(g, gr_square(g, whole), GR_AXES_ALL, false));
    return gr_graph_status(g);
}

/* user: the number of parameters of the whole model, which blocks do not add to. */
static gr_status trace_gpt2(gr_graph *g, void *user)
{
    gr_gpt2 c = { VOCAB, N, WIDTH, DEPTH, HEADS, 0 };
    gr_value *ids = gr_input(g, "ids"), *whole = gr_gpt2_model(g, "m", ids, &c), *x, *table;
    int *n_vars = user;

    *n_vars = g->vars->n;
    table = gr_param(g, "m.wte.weight", GR_SHAPE(VOCAB, WIDTH), gr_init_const(0));
    x = gr_add(g, gr_gather(g, table, ids),
               gr_param(g, "m.wpe.weight", GR_SHAPE(N, WIDTH), gr_init_const(0)));
    for (int i = 0; i < DEPTH; i++)
        x = gr_gpt2_block(g, gr_name(g, "m.h.%d", i), x,
                          &(gr_gpt2_block_opts){ .heads = HEADS, .depth = DEPTH });
    x = gr_matmul_t(g, gr_layer_norm_layer(g, "m.ln_f", x, 0), table, false, true);
    GR_CHECK_EQ(g->vars->n, *n_vars);
    return finish(g, whole, x);
}

static gr_status trace_jit(gr_graph *g, void *user)
{
    gr_jit c = { WIDTH, DEPTH, HEADS, 0, SIDE, PATCH };
    gr_jit_input in = { gr_input(g, "x"), gr_input(g, "step"), gr_input(g, "mask"), NULL, NULL };
    gr_value *whole = gr_jit_model(g, "", &in, &c), *x, *time, *row, *col;
    int *n_vars = user;

    *n_vars = g->vars->n;
    row = gr_param(g, "pos_embed_h", GR_SHAPE(1, GRID, WIDTH), gr_init_const(0));
    col = gr_param(g, "pos_embed_w", GR_SHAPE(1, GRID, WIDTH), gr_init_const(0));
    x = gr_linear_with(g, "patch_embed", gr_patchify(g, in.x, PATCH, GR_PATCH_CHW), WIDTH,
                       &(gr_layer_opts){ .no_bias = true });
    x = gr_add(g, x,
               gr_reshape(g, gr_add(g, gr_unsqueeze(g, row, 2), gr_unsqueeze(g, col, 1)),
                          GR_SHAPE(1, PATCHES, WIDTH)));
    time = gr_time_waves(g, in.step, WIDTH, 10000);
    for (int i = 0; i < DEPTH; i++)
        x = gr_jit_block(g, gr_name(g, "blocks.%d", i), x, time,
                         &(gr_jit_block_opts){ .heads = HEADS, .key_mask = in.mask });
    x = gr_linear(g, "output_proj", x, PIXELS);
    x = gr_mul(g, x, gr_unsqueeze(g, gr_cast(g, in.mask, GR_F32), 2));
    GR_CHECK_EQ(g->vars->n, *n_vars);
    return finish(g, whole, gr_unpatchify(g, x, gr_value_shape(in.x), GR_PATCH_CHW));
}

static void check_model(model *m, size_t n)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;
    gr_named feeds[MODEL_MAX_FEEDS];
    float *whole = gr_malloc(n * sizeof(float)), *built = gr_malloc(n * sizeof(float));
    int n_vars = 0;
    gr_step *s;

    GR_CHECK(whole && built);
    c.device = "cpu";
    m->config = &n_vars;
    model_feeds_make(m, feeds);
    model_open(m, &c, &s);
    GR_CHECK_OK(gr_step_eval(s, feeds, m->n_feeds));
    GR_CHECK_OK(gr_step_read(s, "whole", (gr_vec){ whole, n, GR_F32 }));
    GR_CHECK_OK(gr_step_read(s, "built", (gr_vec){ built, n, GR_F32 }));
    for (size_t i = 0; i < n; i++)
        GR_CHECK(whole[i] == built[i]);
    GR_CHECK(whole[0] != 0 || whole[n - 1] != 0);
    model_feeds_free(m, feeds);
    gr_step_destroy(s);
    gr_free(whole);
    gr_free(built);
}

/* ---- numbers of parameters ---- */

typedef struct counted {
    gr_vit_block_opts o;
    int64_t n_params;
    const char *has, *has_not;
} counted;

static int64_t count(const gr_vars *vars)
{
    int64_t n = 0;

    for (int i = 0; i < vars->n; i++)
        n += gr_shape_count(&vars->list[i]->shape);
    return n;
}

static gr_value *open_graph(gr_vars **vars, gr_graph **g, int64_t width)
{
    const gr_named feed = { .name = "x", .dtype = GR_F32, .shape = GR_SHAPE(1, 5, width) };

    GR_CHECK_OK(gr_vars_create(vars));
    GR_CHECK_OK(gr_graph_create(g, *vars, true, &feed, 1));
    return gr_input(*g, "x");
}

/* DINOv2-L's and VGGT's blocks (WORKLOADS 5), and timm's plain one of ViT-L. */
static void check_vit(void)
{
    const gr_rotary_opts turned = { .base = 100 };
    const counted blocks[] = {
        { { .heads = 16 }, 12596224, "it.attn.qkv.bias", "it.ls1.gamma" },
        { { .heads = 16, .layer_scale = 1 }, 12598272, "it.ls2.gamma", "it.attn.q_norm.weight" },
        { { .heads = 16, .layer_scale = 0.01, .qk_norm = true, .rotary = &turned },
          12598528,
          "it.attn.k_norm.bias",
          "it.attn.in_proj_weight" },
        { { .heads = 16, .no_qkv_bias = true }, 12593152, "it.mlp.fc2.bias", "it.attn.qkv.bias" },
    };

    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        gr_vars *vars;
        gr_graph *g;
        gr_value *x = open_graph(&vars, &g, 1024);

        gr_vit_block(g, "it", x, &blocks[i].o);
        GR_CHECK_OK(gr_graph_status(g));
        GR_CHECK_EQ(count(vars), blocks[i].n_params);
        GR_CHECK(gr_vars_find(vars, blocks[i].has) && !gr_vars_find(vars, blocks[i].has_not));
        if (gr_vars_find(vars, "it.ls1.gamma"))
            GR_CHECK_NEAR(gr_vars_find(vars, "it.ls1.gamma")->init.a, blocks[i].o.layer_scale, 0);
        GR_CHECK_EQ(gr_vars_find(vars, "it.attn.qkv.weight")->init.kind, GR_INIT_TRUNC_NORMAL);
        gr_graph_destroy(g);
        gr_vars_destroy(vars);
    }
}

/* Of JiT-B and GPT-2 small. */
static void check_others(void)
{
    gr_vars *vars;
    gr_graph *g;
    gr_value *x = open_graph(&vars, &g, 768);

    gr_jit_block(g, "it", x, gr_fill(g, GR_F32, GR_SHAPE(1, 768), 1),
                 &(gr_jit_block_opts){ .heads = 12 });
    GR_CHECK_OK(gr_graph_status(g));
    GR_CHECK_EQ(count(vars), 10626816);
    gr_gpt2_block(g, "other", x, &(gr_gpt2_block_opts){ .heads = 12 });
    GR_CHECK_OK(gr_graph_status(g));
    GR_CHECK_EQ(count(vars), 10626816 + 7087872);
    GR_CHECK_NEAR(gr_vars_find(vars, "other.mlp.c_proj.weight")->init.b, 0.0040825, 1e-7);
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
}

int main(void)
{
    model gpt2 = { .trace = trace_gpt2,
                   .feeds = { { "ids", MODEL_LABEL, VOCAB, 0, GR_SHAPE(B, N) } },
                   .n_feeds = 1 };
    model jit = { .trace = trace_jit,
                  .feeds = { { "x", MODEL_REAL, 0, 0, GR_SHAPE(B, SIDE, SIDE, 3) },
                             { "step", MODEL_LABEL, 1000, 0, GR_SHAPE(B) },
                             { "mask", MODEL_MASK, 4, 0, GR_SHAPE(B, PATCHES) } },
                  .n_feeds = 3 };

    check_model(&gpt2, (size_t)B * N * VOCAB);
    check_model(&jit, (size_t)B * SIDE * SIDE * 3);
    check_vit();
    check_others();
    return 0;
}

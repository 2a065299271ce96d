/*
 * Options written in the call, with commas of their own, as docs/nn.md shows: builders are macros
 * and must not take such a literal for several arguments. That this compiles is most of the test.
 */
#include "gradus/gradus.h"
#include "gradus/models.h"

#include "check.h"
#include "src/graph/graph.h"

/* image [2, 33, 33, 3], tokens [2, 9, 8], ids and labels i64 [2, 9] */
typedef struct in {
    gr_value *image, *tokens, *ids;
} in;

static void operators(gr_graph *g, const in *i)
{
    gr_value *q = gr_reshape(g, i->tokens, GR_SHAPE(2, 9, 2, 4)), *part[2], *count, *far;
    gr_value *w = gr_param(g, "w", GR_SHAPE(3, 3, 2, 2), gr_init_const(1));

    gr_attention(g, q, q, q, &(gr_attention_opts){ .scale = 2, .causal = true });
    gr_attention_packed(g, gr_concat(g, (gr_value *[]){ q, q, q }, 3, 2),
                        &(gr_attention_opts){ .heads = 2, .kv_heads = 2 });
    gr_attention_cross(g, q, gr_concat(g, (gr_value *[]){ q, q }, 2, 2),
                       &(gr_attention_opts){ .heads = 2, .scale = 1 });
    gr_cosine_attention(g, q, q, q, NULL, &(gr_attention_opts){ .scale = 1, .causal = true });
    gr_rotary(g, q, NULL, &(gr_rotary_opts){ .base = 100, .interleaved = true });
    gr_conv2d(g, i->image, w, &(gr_conv){ { 2, 1 }, { 1, 1 }, { 1, 1 }, 1, { 0, 0 } });
    gr_conv_transpose2d(g, i->image, w, &(gr_conv)GR_CONV_INIT);
    gr_max_pool2d(g, i->image, &(gr_window){ { 2, 3 }, { 0, 0 }, { 0, 0 }, { 1, 1 }, true, false });
    gr_avg_pool2d(g, i->image, &(gr_window)GR_WINDOW_INIT);
    gr_knn(g, i->tokens, NULL, (gr_knn_config){ .k = 2, .in_batch = true }, &far);
    gr_cross_entropy_each(g, i->tokens, i->ids, &(gr_cross_entropy_options){ -1, 0.1, NULL });
    gr_cross_entropy_mean(g, i->tokens, i->ids, &(gr_cross_entropy_options){ -1, 0.1, NULL });
    gr_cross_entropy_parts(g, i->tokens, i->ids, &(gr_cross_entropy_options){ -1, 0.1, NULL },
                           &count);
    gr_batch_norm(g, i->tokens, &(gr_batch_norm_args){ .momentum = 0.1, .eps = 1e-3 });
    gr_transpose(g, i->tokens, (int[]){ 2, 0, 1 });
    gr_slice(g, i->ids, (gr_range[]){ { 0, 1, 1 }, { 2, 9, 3 } });
    gr_stack(g, (gr_value *[]){ q, q }, 2, 0);
    gr_split(g, i->tokens, 2, 2, (int64_t[]){ 3, 5 }, part);
    gr_pad(g, i->ids, (int64_t[]){ 0, 1 }, (int64_t[]){ 1, 0 }, 7);
}

static void layers(gr_graph *g, const in *i)
{
    const gr_init one = gr_init_const(1);

    gr_linear_with(g, "fc", i->tokens, 5, &(gr_layer_opts){ .no_bias = true, .weight = &one });
    gr_conv_layer(g, "c", i->image, 4, 3, &(gr_conv)GR_CONV_INIT,
                  &(gr_layer_opts){ .no_bias = true, .weight = &one });
    gr_conv_layer_hw(g, "hw", i->image, 4, 3, 1,
                     &(gr_conv){ .stride = { 1, 2 }, .dilation = { 1, 1 }, .groups = 1 },
                     &(gr_layer_opts){ .weight = &one, .bias = &one });
    gr_conv_transpose_layer(g, "t", i->image, 4, 2, NULL,
                            &(gr_layer_opts){ .weight = &one, .bias = &one });
    gr_conv_transpose_layer_hw(g, "thw", i->image, 4, 2, 3, NULL,
                               &(gr_layer_opts){ .weight = &one, .bias = &one });
    gr_embedding_layer(g, "e", i->ids, 10, 4, &(gr_init){ .kind = GR_INIT_CONST, .a = 2 });
    gr_embedding_layer_padded(g, "p", i->ids, 10, 4, 0,
                              &(gr_init){ .kind = GR_INIT_CONST, .a = 2 });
    gr_multihead_attention(g, "a", i->tokens, NULL,
                           &(gr_attention_opts){ .heads = 4, .kv_heads = 2 });
    gr_encoder_layer(g, "enc", i->tokens, &(gr_transformer_opts){ .heads = 2, .hidden = 8 });
    gr_decoder_layer(g, "dec", i->tokens, i->tokens,
                     &(gr_transformer_opts){ .heads = 2, .hidden = 8 });
}

static void models(gr_graph *g, const in *i)
{
    gr_value *image =
        gr_slice(g, i->image, (gr_range[]){ { 0, 2, 1 }, { 0, 8, 1 }, { 0, 8, 1 }, { 0, 3, 1 } });
    gr_value *mask = gr_fill(g, GR_BOOL, GR_SHAPE(2, 4), 1);
    gr_value *step = gr_fill(g, GR_I64, GR_SHAPE(2), 3);

    gr_resnet_model(g, "r", i->image, &(gr_resnet){ .depth = 18, .n_classes = 3 }, NULL);
    gr_aspp_model(g, "aspp", i->image, &(gr_aspp){ .planes = 4, .relu = true });
    gr_unet_model(g, "u", i->image, &(gr_unet){ .n_classes = 1, .base = 2 });
    gr_jit_model(g, "j", &(gr_jit_input){ .x = image, .step = step, .mask = mask },
                 &(gr_jit){ 8, 1, 2, 8, 8, 4 });
    gr_jit_block(g, "jb", i->tokens, gr_time_waves(g, step, 8, 100),
                 &(gr_jit_block_opts){ .heads = 2, .hidden = 5 });
    gr_vit_block(g, "vb", i->tokens, &(gr_vit_block_opts){ .heads = 2, .hidden = 5 });
    gr_gpt2_model(g, "g", i->ids, &(gr_gpt2){ .vocab = 50, .width = 8, .heads = 2, .depth = 1 });
    gr_gpt2_block(g, "gb", i->tokens, &(gr_gpt2_block_opts){ .heads = 2, .depth = 5 });
}

int main(void)
{
    const gr_named feeds[] = {
        { .name = "image", .dtype = GR_F32, .shape = GR_SHAPE(2, 33, 33, 3) },
        { .name = "tokens", .dtype = GR_F32, .shape = GR_SHAPE(2, 9, 8) },
        { .name = "ids", .dtype = GR_I64, .shape = GR_SHAPE(2, 9) },
    };
    gr_vars *vars;
    gr_graph *g;
    in i;

    GR_CHECK_OK(gr_vars_create(&vars));
    GR_CHECK_OK(gr_graph_create(&g, vars, true, feeds, 3));
    i = (in){ gr_input(g, "image"), gr_input(g, "tokens"), gr_input(g, "ids") };
    operators(g, &i);
    GR_CHECK_OK(gr_graph_status(g));
    layers(g, &i);
    GR_CHECK_OK(gr_graph_status(g));
    GR_CHECK_EQ(gr_vars_find(vars, "a.in_proj_weight")->shape.dim[0], 16); /* both options came */
    GR_CHECK(!gr_vars_find(vars, "c.bias") && gr_vars_find(vars, "c.weight")->init.a == 1);
    models(g, &i);
    GR_CHECK_OK(gr_graph_status(g));
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
    return 0;
}

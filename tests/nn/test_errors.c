/* What layers and models say when they cannot be: the layer's name, the shapes, the line here. */
#include "gradus/gradus.h"
#include "gradus/models.h"
#include "gradus/ops.h"

#include "check.h"
#include "src/graph/graph.h"

/* x is [2, 6, 6, 12], flat [2, 12], tokens [2, 5, 12], scalar [], ids i64 [2, 5] */
typedef struct in {
    gr_value *x, *flat, *tokens, *scalar, *ids, *bits;
} in;

typedef struct wrong {
    void (*build)(gr_graph *g, const in *i);
    const char *part; /* of the message */
} wrong;

static gr_conv grouped(int64_t groups)
{
    gr_conv c = GR_CONV_INIT;

    c.groups = groups;
    return c;
}

static void conv_flat(gr_graph *g, const in *i)
{
    gr_conv_layer(g, "stem.conv", i->flat, 8, 3, NULL, NULL);
}

static void conv_groups(gr_graph *g, const in *i)
{
    gr_conv five = grouped(5);

    gr_conv_layer(g, "c", i->x, 10, 3, &five, NULL);
}

static void conv_no_output(gr_graph *g, const in *i)
{
    gr_conv_layer(g, "c", i->x, 0, 3, NULL, NULL);
}

static void transpose_groups(gr_graph *g, const in *i)
{
    gr_conv four = grouped(4);

    gr_conv_transpose_layer(g, "up", i->x, 6, 2, &four, NULL);
}

static void conv_kernel(gr_graph *g, const in *i)
{
    gr_conv_layer(g, "c", i->x, 8, 7, NULL, NULL);
}

static void null_input(gr_graph *g, const in *i)
{
    (void)i;
    gr_linear(g, "fc", NULL, 3);
}

static void batch_norm_scalar(gr_graph *g, const in *i)
{
    gr_batch_norm_layer(g, "bn", i->scalar);
}

static void layer_norm_scalar(gr_graph *g, const in *i)
{
    gr_layer_norm_layer(g, "ln", i->scalar, 0);
}

static void rms_norm_scalar(gr_graph *g, const in *i)
{
    gr_rms_norm_layer(g, "rms", i->scalar, 1e-6);
}

static void group_norm_groups(gr_graph *g, const in *i)
{
    gr_group_norm_layer(g, "gn", i->x, 5);
}

static void embedding_empty(gr_graph *g, const in *i)
{
    gr_embedding_layer(g, "embed", i->ids, 0, 4, NULL);
}

static void embedding_real(gr_graph *g, const in *i)
{
    gr_embedding_layer(g, "embed", i->flat, 10, 4, NULL);
}

static void conv_columns(gr_graph *g, const in *i)
{
    gr_conv_layer_hw(g, "c", i->x, 8, 3, -1, NULL, NULL);
}

static void conv_columns_far(gr_graph *g, const in *i)
{
    gr_conv_layer_hw(g, "c", i->x, 8, 1, 7, NULL, NULL);
}

static void embedding_padding(gr_graph *g, const in *i)
{
    gr_embedding_layer_padded(g, "embed", i->ids, 10, 4, 10, NULL);
}

static void embedding_padding_below(gr_graph *g, const in *i)
{
    gr_embedding_layer_padded(g, "embed", i->ids, 10, 4, -11, NULL);
}

static void embedding_padded_real(gr_graph *g, const in *i)
{
    gr_embedding_layer_padded(g, "embed", i->flat, 10, 4, 0, NULL);
}

static void attention_heads(gr_graph *g, const in *i)
{
    gr_multihead_attention(g, "attn", i->tokens, NULL, &(gr_attention_opts){ .heads = 5 });
}

static void attention_key_heads(gr_graph *g, const in *i)
{
    gr_attention_opts o = { .heads = 4, .kv_heads = 3 };

    gr_multihead_attention(g, "attn", i->tokens, NULL, &o);
}

static void attention_key_heads_below(gr_graph *g, const in *i)
{
    gr_attention_opts o = { .heads = 4, .kv_heads = -2 };

    gr_multihead_attention(g, "attn", i->tokens, i->tokens, &o);
}

static void attention_flat(gr_graph *g, const in *i)
{
    gr_multihead_attention(g, "attn", i->flat, NULL, &(gr_attention_opts){ .heads = 3 });
}

static void attention_memory(gr_graph *g, const in *i)
{
    gr_multihead_attention(g, "attn", i->tokens, i->x, &(gr_attention_opts){ .heads = 3 });
}

static void vit_heads(gr_graph *g, const in *i)
{
    gr_vit_block(g, "blocks.1", i->tokens, &(gr_vit_block_opts){ .heads = 5, .qk_norm = true });
}

static void vit_flat(gr_graph *g, const in *i)
{
    gr_vit_block(g, "blocks.1", i->x, &(gr_vit_block_opts){ .heads = 3, .hidden = 7 });
}

static void vit_unnamed(gr_graph *g, const in *i)
{
    gr_vit_block(g, NULL, i->tokens, &(gr_vit_block_opts){ .heads = 3 });
}

static void gpt2_block_no_options(gr_graph *g, const in *i)
{
    gr_gpt2_block(g, "h.0", i->tokens, NULL);
}

static void jit_block_no_time(gr_graph *g, const in *i)
{
    gr_jit_block(g, "blocks.0", i->tokens, NULL, &(gr_jit_block_opts){ .heads = 3 });
}

static void jit_block_time(gr_graph *g, const in *i)
{
    gr_jit_block(g, "blocks.0", i->tokens, i->tokens, &(gr_jit_block_opts){ .heads = 3 });
}

static void encoder_heads(gr_graph *g, const in *i)
{
    gr_encoder_layer(g, "layers.3", i->tokens, &(gr_transformer_opts){ .heads = 0 });
}

static void decoder_no_memory(gr_graph *g, const in *i)
{
    gr_decoder_layer(g, "layers.3", i->tokens, NULL, &(gr_transformer_opts){ .heads = 3 });
}

static void same_name(gr_graph *g, const in *i)
{
    gr_linear(g, "fc", i->flat, 3);
    gr_linear(g, "fc", i->flat, 4);
}

static void resnet_depth(gr_graph *g, const in *i)
{
    gr_resnet_model(g, "", i->x, &(gr_resnet){ .depth = 20 }, NULL);
}

static void resnet_flat(gr_graph *g, const in *i)
{
    gr_resnet_model(g, "net", i->flat, (&(gr_resnet){ .depth = 18, .n_classes = 10 }), NULL);
}

static void aspp_planes(gr_graph *g, const in *i)
{
    gr_aspp_model(g, "head", i->x, &(gr_aspp){ .planes = 0 });
}

static void unet_flat(gr_graph *g, const in *i)
{
    gr_unet_model(g, "net", i->tokens, &(gr_unet){ .n_classes = 1 });
}

static void unet_classes(gr_graph *g, const in *i)
{
    (void)i;
    gr_unet_model(g, "net", gr_input(g, "image"), (&(gr_unet){ .n_classes = 0, .base = 2 }));
}

static const gr_jit jit = { .width = 12, .depth = 1, .heads = 2, .size = 8, .patch = 4 };

static void jit_heads(gr_graph *g, const in *i)
{
    gr_jit bad = jit;

    bad.heads = 5;
    gr_jit_model(g, "", (&(gr_jit_input){ i->x, i->ids, i->bits, NULL, NULL }), &bad);
}

static void jit_image(gr_graph *g, const in *i)
{
    gr_jit_model(g, "", (&(gr_jit_input){ i->x, i->ids, i->bits, NULL, NULL }), &jit);
}

static void jit_mask(gr_graph *g, const in *i)
{
    gr_value *image = gr_input(g, "small"), *step = gr_input(g, "step");

    gr_jit_model(g, "", (&(gr_jit_input){ image, step, i->bits, NULL, NULL }), &jit);
}

static void jit_condition(gr_graph *g, const in *i)
{
    gr_value *image = gr_input(g, "small"), *step = gr_input(g, "step");
    gr_value *mask = gr_input(g, "mask");

    (void)i;
    gr_jit_model(g, "", (&(gr_jit_input){ image, step, mask, image, NULL }), &jit);
}

static void jit_slots(gr_graph *g, const in *i)
{
    static const gr_jit fine = { .width = 12, .depth = 1, .heads = 2, .size = 17, .patch = 1 };
    gr_value *image = gr_fill(g, GR_F32, GR_SHAPE(2, 17, 17, 3), 0);
    gr_value *mask = gr_fill(g, GR_BOOL, GR_SHAPE(2, 289), 1), *step = gr_input(g, "step");

    (void)i;
    gr_jit_model(g, "", (&(gr_jit_input){ image, step, mask, image, mask }), &fine);
}

static void gpt2_flat(gr_graph *g, const in *i)
{
    gr_gpt2_model(g, "gpt", i->scalar, &(gr_gpt2){ 0 });
}

static void gpt2_long(gr_graph *g, const in *i)
{
    gr_gpt2_model(g, "gpt", i->ids, &(gr_gpt2){ .length = 4 });
}

static void gpt2_heads(gr_graph *g, const in *i)
{
    gr_gpt2_model(g, "gpt", i->ids, (&(gr_gpt2){ .width = 12, .heads = 5 }));
}

static void protein_shape(gr_graph *g, const in *i)
{
    gr_protein_model(
        g, "p", (&(gr_protein_input){ .coords = i->tokens, .mask = i->bits, .tokens = i->ids }),
        &(gr_protein){ 0 });
}

static void protein_mask(gr_graph *g, const in *i)
{
    gr_value *coords = gr_fill(g, GR_F32, GR_SHAPE(2, 5, 4, 3), 0);
    gr_value *mask = gr_fill(g, GR_BOOL, GR_SHAPE(2, 6), 1);

    gr_protein_model(g, "p",
                     (&(gr_protein_input){ .coords = coords, .mask = mask, .tokens = i->ids }),
                     &(gr_protein){ 0 });
}

static void long_name(gr_graph *g, const in *i)
{
    char text[600];

    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    gr_linear(g, gr_name(g, "%s", text), i->flat, 3);
}

/* ---- what is NULL, or no type, or beyond all numbers ---- */

static void where_shapes(gr_graph *g, const in *i)
{
    gr_where(g, i->tokens, i->x, i->flat);
}

static void unsqueeze_null(gr_graph *g, const in *i)
{
    (void)i;
    gr_unsqueeze(g, NULL, -1);
}

static void patchify_null(gr_graph *g, const in *i)
{
    (void)i;
    gr_patchify(g, NULL, 4, GR_PATCH_CHW);
}

static void dropout_null(gr_graph *g, const in *i)
{
    (void)i;
    gr_dropout(g, NULL, 0);
}

static void batch_norm_null(gr_graph *g, const in *i)
{
    gr_batch_norm_args args = GR_BATCH_NORM_INIT;

    (void)i;
    gr_batch_norm(g, NULL, &args);
}

static void labels_null(gr_graph *g, const in *i)
{
    gr_cross_entropy_mean(g, i->flat, NULL, NULL);
}

static void entropy_null(gr_graph *g, const in *i)
{
    (void)i;
    gr_neg_entropy(g, NULL);
}

static void encoder_no_options(gr_graph *g, const in *i)
{
    gr_encoder_layer(g, "layers.3", i->tokens, NULL);
}

static void encoder_activation(gr_graph *g, const in *i)
{
    gr_encoder_layer(g, "layers.3", i->tokens,
                     (&(gr_transformer_opts){ .heads = 3, .activation = (gr_activation)9 }));
}

static void attention_no_options(gr_graph *g, const in *i)
{
    gr_multihead_attention(g, "attn", i->tokens, NULL, NULL);
}

static void attention_many(gr_graph *g, const in *i)
{
    gr_attention_packed(g, i->tokens, &(gr_attention_opts){ .heads = INT64_MAX });
}

static void conv_far(gr_graph *g, const in *i)
{
    gr_conv_layer(g, "c", i->x, 8, INT64_MAX, NULL, NULL);
}

static void buffer_type(gr_graph *g, const in *i)
{
    (void)i;
    gr_buffer(g, "seen", (gr_dtype)99, GR_SCALAR, gr_init_const(0));
}

static void output_name(gr_graph *g, const in *i)
{
    gr_output(g, NULL, i->x);
}

static void input_name(gr_graph *g, const in *i)
{
    (void)i;
    gr_input(g, NULL);
}

static void freeze_null(gr_graph *g, const in *i)
{
    (void)i;
    gr_freeze(g, NULL);
}

/* ---- layers without a name ---- */

static void linear_unnamed(gr_graph *g, const in *i)
{
    gr_linear(g, NULL, i->flat, 3);
}

static void conv_unnamed(gr_graph *g, const in *i)
{
    gr_conv_layer(g, NULL, i->x, 8, 3, NULL, NULL);
}

static void norm_unnamed(gr_graph *g, const in *i)
{
    gr_batch_norm_layer(g, NULL, i->x);
}

static void embedding_unnamed(gr_graph *g, const in *i)
{
    gr_embedding_layer(g, NULL, i->ids, 10, 4, NULL);
}

static void attention_unnamed(gr_graph *g, const in *i)
{
    gr_multihead_attention(g, NULL, i->tokens, NULL, &(gr_attention_opts){ .heads = 3 });
}

static void encoder_unnamed(gr_graph *g, const in *i)
{
    gr_encoder_layer(g, NULL, i->tokens, &(gr_transformer_opts){ .heads = 3 });
}

static void param_unnamed(gr_graph *g, const in *i)
{
    (void)i;
    gr_param(g, NULL, GR_SHAPE(3), gr_init_const(1));
}

static void buffer_unnamed(gr_graph *g, const in *i)
{
    (void)i;
    gr_buffer(g, "", GR_F32, GR_SHAPE(3), gr_init_const(1));
}

static void resnet_null(gr_graph *g, const in *i)
{
    gr_resnet_model(g, NULL, i->x, NULL, NULL);
}

static void unet_base(gr_graph *g, const in *i)
{
    gr_unet_model(g, "net", i->x, (&(gr_unet){ .n_classes = 1, .base = -2 }));
}

static const wrong wrongs[] = {
    { where_shapes, "does not broadcast with" },
    { unsqueeze_null, "input 0 is NULL" },
    { patchify_null, "patchify: its input is NULL" },
    { dropout_null, "dropout: its input is NULL" },
    { batch_norm_null, "batch_norm: its input is NULL" },
    { labels_null, "cross_entropy: its input is NULL" },
    { entropy_null, "neg_entropy: its input is NULL" },
    { encoder_no_options, "encoder layer 'layers.3': the options are NULL" },
    { encoder_activation, "encoder layer 'layers.3': unknown activation 9" },
    { attention_no_options, "attention 'attn': 0 heads do not divide width 12" },
    { attention_many, "attention: 9223372036854775807 heads of queries" },
    { conv_far, "of f32 is too large" },
    { buffer_type, "buffer 'seen' must be f32 or i64, not no type" },
    { output_name, "an output needs a name" },
    { input_name, "an input needs a name" },
    { linear_unnamed, "linear: the name is NULL; its parameters are called after it" },
    { conv_unnamed, "convolution: the name is NULL" },
    { norm_unnamed, "batch norm: the name is NULL" },
    { embedding_unnamed, "embedding: the name is NULL" },
    { attention_unnamed, "attention: the name is NULL" },
    { encoder_unnamed, "encoder layer: the name is NULL" },
    { param_unnamed, "a parameter needs a name" },
    { buffer_unnamed, "a buffer needs a name" },
    { freeze_null, "freeze: its input is NULL" },
    { resnet_null, "18, 34, 50, 101 or 152 layers, not 0" },
    { unet_base, "U-Net 'net': input [2, 6, 6, 12], base -2" },
    { conv_flat, "convolution 'stem.conv': input [2, 12], expected at least 4 dimensions" },
    { conv_groups, "convolution 'c': 12 to 10 channels, kernel 3 x 3, 5 groups" },
    { conv_no_output, "convolution 'c': 12 to 0 channels" },
    { transpose_groups, "convolution 'up': 12 to 6 channels, kernel 2 x 2, 4 groups" },
    { conv_kernel, "[2, 6, 6, 12]" },
    { null_input, "linear 'fc': the input is NULL" },
    { batch_norm_scalar, "batch norm 'bn': input []" },
    { layer_norm_scalar, "layer norm 'ln': input []" },
    { rms_norm_scalar, "RMS norm 'rms': input []" },
    { group_norm_groups, "group norm 'gn': 5 groups do not divide 12 channels" },
    { embedding_empty, "embedding 'embed' of 0 rows of 4" },
    { embedding_real, "embedding 'embed': the index is f32" },
    { embedding_padded_real, "embedding 'embed': the index is f32" },
    { embedding_padding, "embedding 'embed': padding_idx 10 is none of 10 rows" },
    { embedding_padding_below, "embedding 'embed': padding_idx -11 is none of 10 rows" },
    { conv_columns, "convolution 'c': 12 to 8 channels, kernel 3 x -1" },
    { conv_columns_far, "a kernel of 7, 1 apart, does not fit into 6 padded by 0 (axis 1)" },
    { attention_heads, "attention 'attn': 5 heads do not divide width 12" },
    { attention_key_heads, "attention 'attn': 3 key heads do not divide 4 heads" },
    { attention_key_heads_below, "attention 'attn': -2 key heads do not divide 4 heads" },
    { attention_flat, "attention 'attn': input [2, 12], expected at least 3 dimensions" },
    { attention_memory, "attention 'attn': memory [2, 6, 6, 12] for an input [2, 5, 12]" },
    { vit_heads, "ViT block 'blocks.1': input [2, 5, 12], 5 heads; expected [b, n, d]" },
    { vit_flat, "ViT block 'blocks.1': input [2, 6, 6, 12], 3 heads; expected [b, n, d]" },
    { vit_unnamed, "ViT block: the name is NULL" },
    { gpt2_block_no_options, "GPT-2 block 'h.0': input [2, 5, 12], 0 heads" },
    { jit_block_no_time, "JiT block 'blocks.0': time NULL, expected [2, 12]" },
    { jit_block_time, "JiT block 'blocks.0': time [2, 5, 12], expected [2, 12]" },
    { encoder_heads, "attention 'layers.3.self_attn': 0 heads do not divide width 12" },
    { decoder_no_memory, "decoder layer 'layers.3': the memory is NULL" },
    { same_name, "fc.weight" },
    { resnet_depth, "18, 34, 50, 101 or 152 layers, not 20" },
    { resnet_flat, "convolution 'net.conv1': input [2, 12]" },
    { aspp_planes, "ASPP 'head': input [2, 6, 6, 12], 0 planes" },
    { unet_flat, "U-Net 'net': input [2, 5, 12]" },
    { unet_classes, "convolution 'net.outc.conv': 2 to 0 channels" },
    { jit_heads, "5 heads and 2 the width 12" },
    { jit_image, "JiT: input [2, 6, 6, 12], expected NHWC [n, 8, 8, 3]" },
    { jit_mask, "JiT: needs the step [2] and the mask of patches [2, 4]" },
    { jit_condition, "JiT: a condition is an image of the same size and its mask" },
    { gpt2_flat, "GPT-2 'gpt': ids []" },
    { gpt2_long,
      "GPT-2 'gpt': ids [2, 5], 12 heads, width 768; expected ids [b, n] with n at most 4" },
    { gpt2_heads, "5 heads, width 12" },
    { jit_slots, "JiT: a condition of 289 patches, and there are places for 256" },
    { protein_mask, "protein model 'p': mask [2, 6] of coordinates [2, 5, 4, 3], expected [2, 5]" },
    { protein_shape, "protein model 'p': coordinates [2, 5, 12] and tokens [2, 5]" },
    { long_name, "a name is longer than" },
};

static gr_status try_one(const wrong *w)
{
    const gr_named feeds[] = {
        { .name = "x", .dtype = GR_F32, .shape = GR_SHAPE(2, 6, 6, 12) },
        { .name = "flat", .dtype = GR_F32, .shape = GR_SHAPE(2, 12) },
        { .name = "tokens", .dtype = GR_F32, .shape = GR_SHAPE(2, 5, 12) },
        { .name = "scalar", .dtype = GR_F32, .shape = GR_SCALAR },
        { .name = "ids", .dtype = GR_I64, .shape = GR_SHAPE(2, 5) },
        { .name = "bits", .dtype = GR_BOOL, .shape = GR_SHAPE(2, 5) },
        { .name = "image", .dtype = GR_F32, .shape = GR_SHAPE(1, 32, 32, 1) },
        { .name = "small", .dtype = GR_F32, .shape = GR_SHAPE(2, 8, 8, 3) },
        { .name = "step", .dtype = GR_I64, .shape = GR_SHAPE(2) },
        { .name = "mask", .dtype = GR_BOOL, .shape = GR_SHAPE(2, 4) },
    };
    gr_vars *vars;
    gr_graph *g;
    gr_status st;
    in i;

    GR_CHECK_OK(gr_vars_create(&vars));
    GR_CHECK_OK(gr_graph_create(&g, vars, true, feeds, 10));
    i = (in){ gr_input(g, "x"),      gr_input(g, "flat"), gr_input(g, "tokens"),
              gr_input(g, "scalar"), gr_input(g, "ids"),  gr_input(g, "bits") };
    w->build(g, &i);
    /* What comes after a failure is quiet, and the first message stays. */
    gr_linear(g, "later", gr_relu(g, i.flat), 3);
    st = gr_graph_status(g);
    gr_graph_destroy(g);
    gr_vars_destroy(vars);
    return st;
}

int main(void)
{
    for (size_t k = 0; k < sizeof(wrongs) / sizeof(wrongs[0]); k++) {
        GR_CHECK_FAILS(try_one(&wrongs[k]), GR_ERR_ARG, wrongs[k].part);
        if (wrongs[k].build != long_name) /* names are made apart from layers */
            GR_CHECK_FAILS(try_one(&wrongs[k]), GR_ERR_ARG, "test_errors.c:");
    }
    return 0;
}

/*
 * Whole networks and blocks of transformers, with the parameter names of their PyTorch
 * counterparts. Each is built from the layers of nn.h, whose rules hold here: images
 * are NHWC, [n, h, w, c], not PyTorch's NCHW. `name` is a prefix
 * ("backbone"); "" is none. A configuration that is all 0 but for the fields marked (needed) is the
 * usual one; NULL is all 0.
 */
#ifndef GRADUS_MODELS_H
#define GRADUS_MODELS_H

#include "gradus/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- ResNet (torchvision's names: conv1, bn1, layer1.0.conv1 ... fc) ---- */

typedef struct gr_resnet {
    int depth;           /* (needed) 18, 34, 50, 101 or 152 */
    int64_t n_classes;   /* of fc; 0: no pooling and no fc, the result is the last map */
    int64_t stride[4];   /* of the stages; 0: 1, 2, 2, 2 */
    int64_t dilation[4]; /* of the stages; 0: 1. Of two 3x3 in a block the second has it */
    int64_t last[3];     /* dilations of the last stage's blocks, if last[0] is not 0 */
    bool stride_first;   /* a bottleneck's stride is on its first 1x1, not on the 3x3 */
    bool ceil_pool;      /* the stem's pool rounds up */
} gr_resnet;

/* The output-stride-8 trunk of DeepLab: strides 1 2 1 1, dilations 1 1 2 and 4 8 16, the
 * other options on, no classifier. */
GR_API gr_resnet gr_resnet_dilated(int depth);

/* x [n, h, w, c] -> [n, n_classes], or the map of the last stage. stages, when not NULL,
 * takes the results of the four stages. Convolutions start kaiming-normal, by fan-out. */
#define gr_resnet_model(g, name, x, config, ...) \
    gr_resnet_model_at(GR_HERE, g, name, x, config, __VA_ARGS__)
GR_API gr_value *gr_resnet_model_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                    const gr_resnet *config, gr_value **stages);

/* ---- ASPP ---- */

typedef struct gr_aspp {
    int64_t planes;      /* (needed) of each branch and of the result */
    int64_t dilation[3]; /* of the 3x3 branches; 0: 12, 18, 24 */
    bool relu;           /* after the last norm */
} gr_aspp;

/* x [n, h, w, c] -> [n, h, w, planes]: a 1x1, three dilated 3x3 and an image-wide branch,
 * joined by a 1x1. In training n must be at least 2. */
#define gr_aspp_model(g, name, x, ...) gr_aspp_model_at(GR_HERE, g, name, x, __VA_ARGS__)
GR_API gr_value *gr_aspp_model_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                  const gr_aspp *config);

/* ---- U-Net ---- */

typedef struct gr_unet {
    int64_t n_classes; /* (needed) */
    int64_t base;      /* channels of the first level; 0: 64 */
    bool bilinear;     /* grows by resizing instead of transposed convolutions */
} gr_unet;

/* x [n, h, w, c] -> logits [n, h, w, n_classes]. Sides need not be powers of two. */
#define gr_unet_model(g, name, x, ...) gr_unet_model_at(GR_HERE, g, name, x, __VA_ARGS__)
GR_API gr_value *gr_unet_model_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                  const gr_unet *config);

/* ---- JiT: a plain transformer on pixels (names of its published checkpoints: patch_embed,
 * pos_embed_h, blocks.0.attn.qkv, blocks.0.mlp.0, blocks.0.adaLN.scale_mlp.1, output_proj) ---- */

typedef struct gr_jit {
    int64_t width, depth, heads, hidden; /* 0: 768, 12, 12, 3072 (JiT-B) */
    int64_t size, patch;                 /* of the image and its patches; 0: 64, 4 */
} gr_jit;

/* x [n, size, size, 3], step i64 or i32 [n], mask bool [n, patches] (true: the patch holds
 * data; its key may be seen and its result counts), condition [n, size, size, 3] and its mask
 * or both NULL -> [n, size, size, 3]. Without a condition its tokens are left out, which
 * changes nothing but the time it takes. There are places for conditions of 256 patches, 16 rows of
 * 16, whatever the size: patch i has place i, and more patches are refused. */
typedef struct gr_jit_input {
    gr_value *x, *step, *mask, *condition, *condition_mask;
} gr_jit_input;
#define gr_jit_model(g, name, in, ...) gr_jit_model_at(GR_HERE, g, name, in, __VA_ARGS__)
GR_API gr_value *gr_jit_model_at(const char *site, gr_graph *g, const char *name,
                                 const gr_jit_input *in, const gr_jit *config);

/* One block of it, "<name>.attn.qkv.weight" and so on: x [b, n, d] -> the same shape. time [b, d]
 * tells the step of the diffusion; the model gives gr_time_waves(g, step, d, 10000). */
typedef struct gr_jit_block_opts {
    int64_t heads;      /* (needed) a divisor of d */
    int64_t hidden;     /* of the feed-forward part; 0: 4 d */
    gr_value *key_mask; /* bool [b, n], true where a token may be seen; or NULL */
} gr_jit_block_opts;
#define gr_jit_block(g, name, x, time, ...) gr_jit_block_at(GR_HERE, g, name, x, time, __VA_ARGS__)
GR_API gr_value *gr_jit_block_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                 gr_value *time, const gr_jit_block_opts *opts);

/* ---- ViT block (timm's names: norm1, attn.qkv, attn.proj, ls1, norm2, mlp.fc1, mlp.fc2, ls2) ----
 */

typedef struct gr_vit_block_opts {
    int64_t heads;  /* (needed) a divisor of d */
    int64_t hidden; /* of the feed-forward part, with gelu; 0: 4 d */
    double eps;     /* of the layer norms; 0: 1e-6 */
    double dropout; /* of both parts' results and of the hidden layer */
    double attention_dropout, drop_path;
    double layer_scale; /* start of ls1.gamma and ls2.gamma; 0: there are none */
    bool qk_norm;       /* layer norms over each head of q and k: attn.q_norm, attn.k_norm */
    bool no_qkv_bias;
    gr_value *key_mask;           /* bool [b, n], true where a token may be seen; or NULL */
    const gr_rotary_opts *rotary; /* turns q and k by their places; or NULL */
    gr_value *positions;          /* for rotary; see gr_rotary() */
} gr_vit_block_opts;

/* x + ls1(attention(norm1(x))), then x + ls2(mlp(norm2(x))): x [b, n, d] -> the same shape. Linear
 * layers start truncated normal 0.02 with zero biases. With qk_norm, rotary and layer_scale it is
 * the block of VGGT, with layer_scale that of DINOv2. */
#define gr_vit_block(g, name, x, ...) gr_vit_block_at(GR_HERE, g, name, x, __VA_ARGS__)
GR_API gr_value *gr_vit_block_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                 const gr_vit_block_opts *opts);

/* ---- GPT-2 (names and layouts of its published checkpoints) ---- */

typedef struct gr_gpt2 {
    int64_t vocab, length, width, depth, heads; /* 0: 50257, 1024, 768, 12, 12 */
    double dropout;
} gr_gpt2;

/* ids i32 or i64 [b, n] -> logits [b, n, vocab], with the embedding's own table. */
#define gr_gpt2_model(g, name, ids, ...) gr_gpt2_model_at(GR_HERE, g, name, ids, __VA_ARGS__)
GR_API gr_value *gr_gpt2_model_at(const char *site, gr_graph *g, const char *name, gr_value *ids,
                                  const gr_gpt2 *config);

/* One block of it, "<name>.attn.c_attn.weight" and so on: x [b, n, d] -> the same shape. */
typedef struct gr_gpt2_block_opts {
    int64_t heads; /* (needed) a divisor of d */
    int64_t depth; /* blocks of the whole network: c_proj start N(0, 0.02 / sqrt(2 depth)); 0: 12 */
    double dropout;
} gr_gpt2_block_opts;
#define gr_gpt2_block(g, name, x, ...) gr_gpt2_block_at(GR_HERE, g, name, x, __VA_ARGS__)
GR_API gr_value *gr_gpt2_block_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                  const gr_gpt2_block_opts *opts);

/* ---- protein side chains: a graph network over the backbone, a decoder over fragments (names of
 * their published checkpoints: encoder.gnn_layers.0.msg_mlp, decoder.type_head ..) ---- */

typedef struct gr_protein {
    int64_t width, layers, heads;    /* 0: 256, 3, 8 */
    int64_t neighbours;              /* 0: 30; at most residues - 1 */
    int64_t n_fragments, n_torsions; /* 0: 16, 72 */
    double dropout;
    bool offsets; /* a third head: where in its class a torsion lies */
} gr_protein;

/* coords f32 [b, residues, 4, 3] (N, CA, C, O), mask bool [b, residues] (true: there; NULL: all
 * are), tokens i32 or i64 [b, n]; results are logits [b, n, n_fragments] and [b, n, n_torsions],
 * and with `offsets` numbers [b, n, n_torsions]. What is masked takes no part, and must still be
 * numbers: a structure's results are those that it has alone. The rest may be NULL:
 *
 *     constants   f32 [b, residues, k] of each residue's kind, beside its angles
 *     residues    i32 or i64 [b, n], each token's residue: what the decoder knows of it is added
 *                 to the token's embedding
 *     pairs       f32 [b, n, n, k] of two tokens each: a bias of the self-attention, by head
 *     token_mask  bool [b, n] (true: there) */
typedef struct gr_protein_input {
    gr_value *coords, *mask, *tokens;
    gr_value *constants, *residues, *pairs, *token_mask;
} gr_protein_input;
typedef struct gr_protein_output {
    gr_value *fragments, *torsions;
    gr_value *offsets; /* NULL without that head */
} gr_protein_output;
#define gr_protein_model(g, name, in, ...) gr_protein_model_at(GR_HERE, g, name, in, __VA_ARGS__)
GR_API gr_protein_output gr_protein_model_at(const char *site, gr_graph *g, const char *name,
                                             const gr_protein_input *in, const gr_protein *config);

#ifdef __cplusplus
}
#endif

#endif

/*
 * Layers as graph builders. Parameters and buffers are named, shaped and initialised as the
 * PyTorch module of the same kind does, so checkpoints go both ways. Images are NHWC,
 * [n, h, w, c]; one that is fed as NCHW, [n, 3, h, w], is refused by the first convolution.
 *
 * `name` is the module's name ("layer1.0.conv1"); a layer adds ".weight", ".bias" and so on.
 * Names are copied. See graph.h for failures, lifetimes and threads.
 */
#ifndef GRADUS_NN_H
#define GRADUS_NN_H

#include "gradus/attention.h"
#include "gradus/conv.h"
#include "gradus/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a layer with a weight starts, where it is not PyTorch's default. Options of all layers
 * may be NULL, and all 0 is the default. */
typedef struct gr_layer_opts {
    bool no_bias;
    const gr_init *weight; /* NULL: the module's own */
    const gr_init *bias;
} gr_layer_opts;

/* torch.nn.Linear: x [.., k] -> x W^T + b [.., n_out]; weight [n_out, k] and bias [n_out],
 * both uniform in +-1/sqrt(k). */
#define gr_linear(g, name, x, n_out)           gr_linear_at(GR_HERE, g, name, x, n_out, NULL)
#define gr_linear_with(g, name, x, n_out, ...) gr_linear_at(GR_HERE, g, name, x, n_out, __VA_ARGS__)
GR_API gr_value *gr_linear_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                              int64_t n_out, const gr_layer_opts *opts);

/* torch.nn.Conv2d: weight [n_out, c / groups, kh, kw] and bias [n_out], both uniform in
 * +-1/sqrt(c / groups kh kw). The kernel is k x k, or kh x kw with _hw; stride, padding and
 * dilation of rows and of columns are in conv; conv NULL: stride 1, no padding. */
#define gr_conv_layer(g, name, x, n_out, k, conv, ...) \
    gr_conv_layer_hw(g, name, x, n_out, k, 0, conv, __VA_ARGS__)
#define gr_conv_layer_hw(g, name, x, n_out, kh, kw, conv, ...) \
    gr_conv_layer_at(GR_HERE, g, name, x, &(gr_conv_spec){ n_out, kh, conv, __VA_ARGS__, kw })
/* torch.nn.ConvTranspose2d: weight [c, n_out / groups, kh, kw]. */
#define gr_conv_transpose_layer(g, name, x, n_out, k, conv, ...) \
    gr_conv_transpose_layer_hw(g, name, x, n_out, k, 0, conv, __VA_ARGS__)
#define gr_conv_transpose_layer_hw(g, name, x, n_out, kh, kw, conv, ...) \
    gr_conv_transpose_layer_at(GR_HERE, g, name, x,                      \
                               &(gr_conv_spec){ n_out, kh, conv, __VA_ARGS__, kw })
typedef struct gr_conv_spec {
    int64_t n_out, k; /* k: rows of the kernel */
    const gr_conv *conv;
    const gr_layer_opts *opts;
    int64_t kw; /* its columns; 0: as many as rows */
} gr_conv_spec;
GR_API gr_value *gr_conv_layer_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                  const gr_conv_spec *spec);
GR_API gr_value *gr_conv_transpose_layer_at(const char *site, gr_graph *g, const char *name,
                                            gr_value *x, const gr_conv_spec *spec);

/* torch.nn.BatchNorm1d and 2d over the last dimension: weight 1, bias 0, running_mean,
 * running_var, num_batches_tracked; eps 1e-5, momentum 0.1. */
#define gr_batch_norm_layer(g, name, x) gr_batch_norm_layer_at(GR_HERE, g, name, x)
GR_API gr_value *gr_batch_norm_layer_at(const char *site, gr_graph *g, const char *name,
                                        gr_value *x);

/* torch.nn.LayerNorm over the last dimension; eps 1e-5 when given as 0. */
#define gr_layer_norm_layer(g, name, x, eps) gr_layer_norm_layer_at(GR_HERE, g, name, x, eps)
GR_API gr_value *gr_layer_norm_layer_at(const char *site, gr_graph *g, const char *name,
                                        gr_value *x, double eps);
/* torch.nn.RMSNorm over the last dimension: weight only; eps 2^-23, f32's, when given as 0. */
#define gr_rms_norm_layer(g, name, x, eps) gr_rms_norm_layer_at(GR_HERE, g, name, x, eps)
GR_API gr_value *gr_rms_norm_layer_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                      double eps);
/* torch.nn.GroupNorm: channels are the last dimension; eps 1e-5. */
#define gr_group_norm_layer(g, name, x, n_groups) \
    gr_group_norm_layer_at(GR_HERE, g, name, x, n_groups)
GR_API gr_value *gr_group_norm_layer_at(const char *site, gr_graph *g, const char *name,
                                        gr_value *x, int64_t n_groups);

/* torch.nn.Embedding: weight [n, d], normal with deviation 1 unless init is given; index of
 * i32 or i64 [..] -> [.., d]. */
#define gr_embedding_layer(g, name, index, n, d, ...) \
    gr_embedding_layer_at(GR_HERE, g, name, index, n, d, __VA_ARGS__)
GR_API gr_value *gr_embedding_layer_at(const char *site, gr_graph *g, const char *name,
                                       gr_value *index, int64_t n, int64_t d, const gr_init *init);
/* With padding_idx: that row starts as zeros, whatever init says, and its gradient is zero. Below 0
 * it counts from the end, as in PyTorch. */
#define gr_embedding_layer_padded(g, name, index, n, d, padding_idx, ...) \
    gr_embedding_layer_padded_at(GR_HERE, g, name, index,                 \
                                 &(gr_embedding_spec){ n, d, padding_idx, __VA_ARGS__ })
typedef struct gr_embedding_spec {
    int64_t n, d, padding_idx;
    const gr_init *init; /* NULL: normal with deviation 1 */
} gr_embedding_spec;
GR_API gr_value *gr_embedding_layer_padded_at(const char *site, gr_graph *g, const char *name,
                                              gr_value *index, const gr_embedding_spec *spec);

/* torch.nn.MultiheadAttention(batch_first=True): in_proj_weight [3 d, d] xavier-uniform,
 * in_proj_bias 0, out_proj.weight, out_proj.bias 0. memory NULL: self-attention; else keys
 * and values come from memory [b, nk, d]. attention->heads is needed. x [b, n, d]. With kv_heads
 * below heads (grouped queries, which PyTorch's module has not) in_proj has the rows of the
 * heads of q, of k, and of v: (heads + 2 kv_heads) d / heads of them. */
#define gr_multihead_attention(g, name, x, memory, ...) \
    gr_multihead_attention_at(GR_HERE, g, name, x, memory, __VA_ARGS__)
GR_API gr_value *gr_multihead_attention_at(const char *site, gr_graph *g, const char *name,
                                           gr_value *x, gr_value *memory,
                                           const gr_attention_opts *attention);

typedef enum gr_activation {
    GR_ACT_RELU,
    GR_ACT_GELU,
    GR_ACT_GELU_TANH,
    GR_ACT_SILU
} gr_activation;

/* torch.nn.TransformerEncoderLayer and DecoderLayer (batch_first=True). */
typedef struct gr_transformer_opts {
    int64_t heads;
    int64_t hidden; /* of the feed-forward part; 0: 4 d */
    gr_activation activation;
    double dropout;        /* of probabilities, each part's result, and the hidden layer */
    bool norm_first;       /* pre-norm */
    bool causal;           /* the self-attention's mask */
    gr_value *key_mask;    /* bool [b, n], true where a token may be seen; or NULL */
    gr_value *bias;        /* added to the self-attention's scores; or NULL */
    gr_value *memory_mask; /* decoder: bool [b, nk]; or NULL */
    bool xavier;           /* linear1, linear2 and out_proj start xavier-uniform with zero biases */
} gr_transformer_opts;

/* x [b, n, d] -> the same shape. Parameters are called as PyTorch does, "<name>.linear1.weight". */
#define gr_encoder_layer(g, name, x, ...) gr_encoder_layer_at(GR_HERE, g, name, x, __VA_ARGS__)
GR_API gr_value *gr_encoder_layer_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                     const gr_transformer_opts *opts);
/* The same with attention to memory [b, nk, d] between the two parts. */
#define gr_decoder_layer(g, name, x, memory, ...) \
    gr_decoder_layer_at(GR_HERE, g, name, x, memory, __VA_ARGS__)
GR_API gr_value *gr_decoder_layer_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                     gr_value *memory, const gr_transformer_opts *opts);

/* A name in the graph's memory: gr_name(g, "layer%d.%d", i, k). NULL after a failure, which
 * layers take for an answer. */
GR_API const char *gr_name(gr_graph *g, const char *fmt, ...) GR_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif

#endif

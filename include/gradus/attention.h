/*
 * Attention and rotary positions: builders like those of ops.h; see graph.h for failures,
 * lifetimes and threads.
 *
 *     o[i] = sum over j of drop(softmax_j(scale q[i]·k[j] + bias[i, j])) v[j]
 *
 * No matrix of queries by keys is ever stored, neither forward nor backward.
 *
 * Layout is token-major, as a projection leaves it: q [b, nq, heads, d], k and v
 * [b, nk, kv_heads, d]; the result is [b, nq, heads, d]. Tensors of three dimensions,
 * [b, n, heads * d], are taken, too, when `heads` says how to cut them; the result then
 * has three dimensions. A projection to q, k and v together is used where it lies
 * (gr_attention_packed, gr_attention_cross), and so is its gradient: nothing is copied.
 */
#ifndef GRADUS_ATTENTION_H
#define GRADUS_ATTENTION_H

#include "gradus/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All 0 is a plain attention; name what differs. */
typedef struct gr_attention_opts {
    int64_t heads;      /* of q; 0: what the shape says */
    int64_t kv_heads;   /* of k and v, a divisor of heads; 0: what the shape says, or heads.
                           Query head i uses key head i / (heads / kv_heads) */
    double scale;       /* 0: 1 / sqrt(d) */
    bool causal;        /* query i sees keys 0 to i only */
    double dropout;     /* of the probabilities, in [0, 1); in a training trace only. Depends on
                           seed, step, node and place in the global batch, not on the rank */
    gr_value *key_mask; /* NULL, or bool [b, nk]: true where a key may be seen */
    gr_value *bias;     /* NULL, or floating, broadcast to [b, heads, nq, nk]; -inf hides.
                           Has a gradient when one is asked for */
    double min_norm;    /* of gr_cosine_attention alone: a query or key shorter than this counts as
                           zero; its cosines are 0 and it has no gradient. 0: none is */
} gr_attention_opts;

/* A query that may see no key gives 0, and no gradient. Sums are f32 for f32, bf16 and f16.
 * opts NULL: all 0. */
#define gr_attention(g, q, k, v, ...) gr_attention_at(GR_HERE, g, q, k, v, __VA_ARGS__)
GR_API gr_value *gr_attention_at(const char *site, gr_graph *g, gr_value *q, gr_value *k,
                                 gr_value *v, const gr_attention_opts *opts);

/* Self-attention of one projection: per token the heads of q, then of k, then of v, that is
 * [b, n, heads + 2 kv_heads, d] or [b, n, (heads + 2 kv_heads) * d]; opts->heads is needed. */
#define gr_attention_packed(g, qkv, ...) gr_attention_packed_at(GR_HERE, g, qkv, __VA_ARGS__)
GR_API gr_value *gr_attention_packed_at(const char *site, gr_graph *g, gr_value *qkv,
                                        const gr_attention_opts *opts);

/* Cross-attention with keys and values of one projection: per token the heads of k, then of
 * v; [b, nk, 2 kv_heads, d] or [b, nk, 2 kv_heads * d]. opts->heads is needed with three
 * dimensions. */
#define gr_attention_cross(g, q, kv, ...) gr_attention_cross_at(GR_HERE, g, q, kv, __VA_ARGS__)
GR_API gr_value *gr_attention_cross_at(const char *site, gr_graph *g, gr_value *q, gr_value *kv,
                                       const gr_attention_opts *opts);

/* softmax_j(q·k / (|q| |k|)) v: queries and keys are divided by their norms and attended with scale
 * 1, unless opts has another. A zero vector gives NaN; with opts->min_norm, 1e-12 say, its cosines
 * are 0. row_mask: NULL, or [b, nq]; rows are multiplied by it. */
#define gr_cosine_attention(g, q, k, v, row_mask, ...) \
    gr_cosine_attention_at(GR_HERE, g, q, k, v, row_mask, __VA_ARGS__)
GR_API gr_value *gr_cosine_attention_at(const char *site, gr_graph *g, gr_value *q, gr_value *k,
                                        gr_value *v, gr_value *row_mask,
                                        const gr_attention_opts *opts);

/* How pairs of numbers of a head are turned by their token's position. */
typedef struct gr_rotary_opts {
    double base;          /* 0: 10000; pair i of a part of size s turns by pos * base^(-2i / s) */
    int axes;             /* 0 or 1: one position per token; 2: two, the first half of a head is
                             turned by the first, the other half by the second */
    bool interleaved;     /* pairs are (2i, 2i + 1); else (i, i + s / 2), as in Llama, NeoX, VGGT */
    int64_t heads;        /* turn the first so many heads, hand on the rest; 0: all. For
                             gr_attention_packed: heads + kv_heads */
    int64_t max_position; /* positions are in [0, this); 0: n, or 4096 with `positions` */
} gr_rotary_opts;

/* x [b, n, h, d] -> the same shape. positions: NULL (token i of every sample is at i; one
 * axis), or i32 or i64 of [n], [b, n], and with two axes [n, 2], [b, n, 2]. A position out of
 * range fails the run and is named. */
#define gr_rotary(g, x, positions, ...) gr_rotary_at(GR_HERE, g, x, positions, __VA_ARGS__)
GR_API gr_value *gr_rotary_at(const char *site, gr_graph *g, gr_value *x, gr_value *positions,
                              const gr_rotary_opts *opts);

#ifdef __cplusplus
}
#endif

#endif

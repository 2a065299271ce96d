/*
 * Attention.
 *   attention       q, k, v [, mask] [, bias] -> o, lse
 *   attention_grad  q, k, v, o, lse, do [, mask] [, bias] -> dq, dk, dv, dbias
 *
 * q is [b, nq, *, d], k and v are [b, nk, *, d]: the heads of each are a window of the third
 * dimension, so that one value can hold them all. lse [b, heads, nq] is the log of the sum of
 * exp over the keys, f32 (f64 for f64), -inf for a query without keys.
 *
 * The gradient of a packed value is one output, the first (dqkv) or second (dkv); outputs that
 * are not needed have no memory.
 */
#ifndef GR_OP_ATTENTION_ATTENTION_H
#define GR_OP_ATTENTION_ATTENTION_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_attention_packing {
    GR_ATTENTION_SEPARATE,
    GR_ATTENTION_KV, /* k and v are one value */
    GR_ATTENTION_QKV /* q, k and v are */
} gr_attention_packing;

typedef struct gr_attention_attr {
    gr_attention_packing packing;
    int64_t heads, kv_heads;
    int64_t first_k, first_v; /* where their windows of heads begin; q's at 0 */
    double scale, dropout;
    bool causal, has_mask, has_bias;
    bool bias_grad;    /* attention_grad: the bias's is wanted */
    gr_dtype dtype;    /* of o; of dq, dk, dv, dbias */
    uint32_t stream;   /* of dropout: the node's id at trace time */
    int64_t n_samples; /* in the batch dimension; 0: it is no batch */
} gr_attention_attr;

/* Where the sources of attention_grad are. */
#define GR_ATTENTION_LSE 4

/* A node of either operator as plain numbers, for kernels. */
typedef struct gr_attention_dims {
    int64_t b, nq, nk, hq, hkv, d;
    int64_t row_q, row_k, row_v; /* elements from token to token */
    int64_t at_q, at_k, at_v;    /* elements from a token's start to its first head */
    int64_t bias_dim[4];         /* 1 or the full one: b, h, nq, nk */
    int64_t bias_step[4];        /* elements; 0 where it is broadcast */
    int mask, bias;              /* which sources; -1: none */
} gr_attention_dims;

GR_API void gr_attention_get_dims(const gr_node *n, gr_attention_dims *d);

extern const gr_op gr_op_attention, gr_op_attention_grad;
extern const gr_kernel gr_attention_cpu[], gr_attention_grad_cpu[];

#ifdef __cplusplus
}
#endif

#endif

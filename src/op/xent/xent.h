/*
 * Softmax cross-entropy per row.
 *   softmax_xent       logits [n, c], labels [n] -> loss [n], lse [n]  (log-sum-exp)
 *   softmax_xent_grad  logits, labels, lse, d_loss [n] -> d_logits [n, c]
 * loss and lse are f32, f64 for f64 logits; d_logits has the type of attr (default: the
 * logits').
 */
#ifndef GR_OP_XENT_XENT_H
#define GR_OP_XENT_XENT_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_xent_grad_attr {
    gr_dtype dtype;
} gr_xent_grad_attr;

extern const gr_op gr_op_softmax_xent, gr_op_softmax_xent_grad;
extern const gr_kernel gr_softmax_xent_cpu[], gr_softmax_xent_grad_cpu[];

#ifdef __cplusplus
}
#endif

#endif

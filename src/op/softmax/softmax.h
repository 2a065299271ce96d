/*
 * Softmax over one dimension.
 *   softmax           x -> y, of the type of attr
 *   softmax_grad      y, dy -> dx, of the type of attr
 *   log_softmax       x -> y, f32 (f64 for f64 x)
 *   log_softmax_grad  y, dy -> dx, of the type of attr
 *   logsumexp         x -> f32 (f64 for f64 x), with 1 in the place of the dimension
 */
#ifndef GR_OP_SOFTMAX_SOFTMAX_H
#define GR_OP_SOFTMAX_SOFTMAX_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_softmax_attr {
    int axis;       /* from 0 */
    gr_dtype dtype; /* of the result */
} gr_softmax_attr;

extern const gr_op gr_op_softmax, gr_op_softmax_grad, gr_op_log_softmax, gr_op_log_softmax_grad,
    gr_op_logsumexp;
extern const gr_kernel gr_softmax_cpu[], gr_softmax_grad_cpu[], gr_log_softmax_cpu[],
    gr_log_softmax_grad_cpu[], gr_logsumexp_cpu[];

#ifdef __cplusplus
}
#endif

#endif

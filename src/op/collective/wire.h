/*
 * Gradients in 16 bits on their way between ranks. They are f32 in their slots before and
 * after, and are added in f32 (comm/reduce.h), so each is rounded twice: when it leaves its
 * rank, and when the sum does. Every rank gets the same bits.
 *
 *   wire_pack    grad... -> one row of bf16 or f16 in the exchange space: the whole stretch of
 *                the bucket, which begins at the first gradient
 *   wire_unpack  row, grad... -> grad..., in place
 */
#ifndef GR_OP_COLLECTIVE_WIRE_H
#define GR_OP_COLLECTIVE_WIRE_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_wire_attr {
    gr_dtype dtype;
    int64_t n_elem;
} gr_wire_attr;

/* A row for n >= 1 gradients that lie side by side; the caller places it. */
gr_value *gr_wire_pack_add(gr_graph *g, const gr_wire_attr *a, gr_value **grads, int n);
/* Fills grads[0..n-1] with what came back. */
gr_status gr_wire_unpack_add(gr_graph *g, const gr_wire_attr *a, gr_value *row, gr_value **grads,
                             int n) GR_MUST_CHECK;

extern const gr_op gr_op_wire_pack, gr_op_wire_unpack;
extern const gr_kernel gr_wire_pack_cpu[], gr_wire_unpack_cpu[];

#ifdef __cplusplus
}
#endif

#endif

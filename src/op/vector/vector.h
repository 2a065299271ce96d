/* Vectors in space, and values that never change. */
#ifndef GR_OP_VECTOR_VECTOR_H
#define GR_OP_VECTOR_VECTOR_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The elements follow it. */
typedef struct gr_constant_attr {
    gr_dtype dtype;
    gr_shape shape;
} gr_constant_attr;

/*
 * cross      a x b over the last dimension, which is 3
 * constant   the elements of its attribute
 */
extern const gr_op gr_op_cross, gr_op_constant;
extern const gr_kernel gr_cross_cpu[], gr_constant_cpu[];

gr_status gr_cross_ref_run(const gr_launch *l) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

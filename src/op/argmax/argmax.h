/*
 * The greatest or least element over one dimension, and where it stands.
 *   arg_reduce   x -> value (x's type), index i64; 1 in the place of the dimension
 *   arg_scatter  index, d -> dx: d where the index points, 0 elsewhere; the gradient
 */
#ifndef GR_OP_ARGMAX_ARGMAX_H
#define GR_OP_ARGMAX_ARGMAX_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_arg_reduce_attr {
    int axis;
    bool is_min;
} gr_arg_reduce_attr;

typedef struct gr_arg_scatter_attr {
    int axis;
    int64_t n; /* length of the dimension in the result */
} gr_arg_scatter_attr;

extern const gr_op gr_op_arg_reduce, gr_op_arg_scatter;
extern const gr_kernel gr_arg_reduce_cpu[], gr_arg_scatter_cpu[];

#ifdef __cplusplus
}
#endif

#endif

/* Matrix products. a [.., m, k] x b [.., k, n] -> [.., m, n]. */
#ifndef GR_OP_MATMUL_MATMUL_H
#define GR_OP_MATMUL_MATMUL_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_matmul_attr {
    bool trans_a, trans_b; /* that operand is stored [.., k, m] / [.., n, k] */
    gr_dtype dtype;        /* of the result, before a fusion's programs */
} gr_matmul_attr;

/* The product as plain numbers, for kernels. With `batch` > 1 operand strides are in
 * elements between matrices (0: the same matrix again). */
typedef struct gr_matmul_dims {
    int64_t batch, m, n, k;
    int64_t stride_a, stride_b, stride_out;
} gr_matmul_dims;

GR_API void gr_matmul_get_dims(const gr_node *n, gr_matmul_dims *d);

extern const gr_op gr_op_matmul;
extern const gr_kernel gr_matmul_cpu[];

#ifdef __cplusplus
}
#endif

#endif

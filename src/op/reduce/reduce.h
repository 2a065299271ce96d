/* Reductions over any set of dimensions. */
#ifndef GR_OP_REDUCE_REDUCE_H
#define GR_OP_REDUCE_REDUCE_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_reduce_fn { GR_SUM, GR_MEAN, GR_MAX } gr_reduce_fn;

typedef struct gr_reduce_attr {
    gr_reduce_fn fn;
    unsigned axes; /* bit i: dimension i is reduced; bits past the rank are clear */
    bool keep;
    gr_dtype dtype; /* of the result: f32 for f16 and bf16 sources, else the source's */
} gr_reduce_attr;

extern const gr_op gr_op_reduce;
extern const gr_kernel gr_reduce_cpu[];

#ifdef __cplusplus
}
#endif

#endif

/* Reshape (a view: runs nothing) and transpose (a copy in another order). */
#ifndef GR_OP_SHAPE_SHAPE_H
#define GR_OP_SHAPE_SHAPE_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_reshape_attr {
    gr_shape shape; /* no -1 left in it */
} gr_reshape_attr;

typedef struct gr_transpose_attr {
    int order[GR_MAX_DIMS];
} gr_transpose_attr;

extern const gr_op gr_op_reshape, gr_op_transpose;
extern const gr_kernel gr_transpose_cpu[];

#ifdef __cplusplus
}
#endif

#endif

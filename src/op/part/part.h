/*
 * Tensors put together and taken apart: concat and split, slice and pad, flip. Copies
 * only; each is the gradient of its partner.
 */
#ifndef GR_OP_PART_PART_H
#define GR_OP_PART_PART_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_concat_attr {
    int axis;
    gr_dtype dtype; /* of the result; floating sources of other types are converted */
} gr_concat_attr;

typedef struct gr_split_attr {
    int axis;
    int n;
    int64_t *size; /* n of them, in the graph's arena; their sum is the dimension */
} gr_split_attr;

/* y[i] = x[start + i * step] in each dimension, count elements. */
typedef struct gr_slice_attr {
    int64_t start[GR_MAX_DIMS], count[GR_MAX_DIMS], step[GR_MAX_DIMS];
} gr_slice_attr;

/* y[lo + i * step] = x[i] in each dimension, `value` elsewhere. The step is 1 but in the
 * gradient of a slice with a step. */
typedef struct gr_pad_attr {
    int64_t lo[GR_MAX_DIMS], hi[GR_MAX_DIMS], step[GR_MAX_DIMS];
    double value;
} gr_pad_attr;

typedef struct gr_flip_attr {
    unsigned axes;
} gr_flip_attr;

extern const gr_op gr_op_concat, gr_op_split, gr_op_slice, gr_op_pad, gr_op_flip;
extern const gr_kernel gr_concat_cpu[], gr_split_cpu[], gr_slice_cpu[], gr_pad_cpu[], gr_flip_cpu[];

/* dim as an index into n_dims dimensions: -1 is the last; -1 when there is none. */
static inline int gr_axis_of(int axis, int n_dims)
{
    axis += axis < 0 ? n_dims : 0;
    return axis >= 0 && axis < n_dims ? axis : -1;
}

#ifdef __cplusplus
}
#endif

#endif

/* The CPU kernels of softmax. */
#ifndef GR_OP_SOFTMAX_KERNELS_H
#define GR_OP_SOFTMAX_KERNELS_H

#include "op/softmax/softmax.h"

#ifdef __cplusplus
extern "C" {
#endif

gr_status gr_softmax_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_softmax_grad_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* A tensor around one dimension: element (o, i, k) lies at (o * n + i) * inner + k. */
typedef struct gr_axis {
    int64_t outer, n, inner;
} gr_axis;

gr_axis gr_axis_of(const gr_shape *s, int axis);

#ifdef __cplusplus
}
#endif

#endif

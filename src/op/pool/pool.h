/* Max pooling over images, and its gradient. The other pools are op/resample. */
#ifndef GR_OP_POOL_POOL_H
#define GR_OP_POOL_POOL_H

#include "gradus/image.h"
#include "graph/op.h"
#include "op/taps.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Windows with nothing left open: strides are set, sizes of both sides known. */
typedef struct gr_pool_attr {
    gr_window window;
    int64_t in[2], out[2];
} gr_pool_attr;

/*
 * max_pool         x -> y, which. `which`: the element of the window that won, counted by
 *                  rows; u8, or i32 when windows have more than 256 elements
 * max_pool_grad    dy, which -> dx
 */
extern const gr_op gr_op_max_pool, gr_op_max_pool_grad;
extern const gr_kernel gr_max_pool_cpu[], gr_max_pool_grad_cpu[];

/* Fills in strides, checks the window and finds out[]; in[] is given. */
gr_status gr_pool_resolve(gr_pool_attr *at) GR_MUST_CHECK;
/* The taps of each window along an axis: places in the image, elements of the window. */
gr_status gr_pool_taps(gr_taps **out, const gr_pool_attr *at, int axis) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

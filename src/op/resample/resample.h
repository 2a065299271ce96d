/*
 * Images by weights along rows and columns: average pooling and resizing are one operator,
 *
 *   y[n, i, j, c] = sum over the taps (p, a) of row i and (q, b) of column j of
 *                   a * b * x[n, p, q, c]
 *
 * and its gradient is the same operator with inverted tables.
 */
#ifndef GR_OP_RESAMPLE_RESAMPLE_H
#define GR_OP_RESAMPLE_RESAMPLE_H

#include "graph/op.h"
#include "op/pool/pool.h"
#include "op/taps.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_resample_kind {
    GR_RESAMPLE_AVERAGE,  /* over gr_pool_attr.window */
    GR_RESAMPLE_ADAPTIVE, /* average of equal parts */
    GR_RESAMPLE_RESIZE    /* by gr_resize_mode */
} gr_resample_kind;

typedef struct gr_resample_attr {
    gr_resample_kind kind;
    gr_resize_mode mode;
    bool is_inverse;   /* the gradient: from out[] back to in[] */
    gr_pool_attr size; /* in[], out[], and the window of averages */
} gr_resample_attr;

extern const gr_op gr_op_resample;
extern const gr_kernel gr_resample_cpu[];

/* The taps of one axis; inverted for the gradient. The caller frees them with gr_free(). */
GR_API gr_status gr_resample_taps(gr_taps **out, const gr_resample_attr *at,
                                  int axis) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

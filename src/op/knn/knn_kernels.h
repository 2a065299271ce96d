/* The CPU kernels of knn. Distances have one value on every path: differences, squares and
 * sums in the order of coordinates, never fused, in f32 (f64 for f64 points). */
#ifndef GR_OP_KNN_KERNELS_H
#define GR_OP_KNN_KERNELS_H

#include "op/knn/knn.h"

gr_status gr_knn_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* Squared distances of one point from points [at, at + n): coordinate c of all `l` points
 * is at cols + c * l, that of the one at p + c * l. */
typedef struct gr_knn_span {
    const float *cols, *p;
    int64_t l, d, at, n;
} gr_knn_span;

#define GR_KNN_SPAN 128 /* points at a time, at most; as keys in op/topk/best.h */

typedef void gr_knn_fn(const gr_knn_span *s, float *out);

extern gr_knn_fn gr_knn_avx512, gr_knn_avx2;

#endif

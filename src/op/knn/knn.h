/*
 * Nearest neighbours: points [b, l, d], perhaps a mask [b, l] -> places i32 [b, l, k] and
 * squared distances [b, l, k] (f32, or f64 for f64 points). See gradus/index.h.
 */
#ifndef GR_OP_KNN_KNN_H
#define GR_OP_KNN_KNN_H

#include "gradus/index.h"
#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const gr_op gr_op_knn; /* attr: gr_knn_config */
extern const gr_kernel gr_knn_cpu[];

#ifdef __cplusplus
}
#endif

#endif

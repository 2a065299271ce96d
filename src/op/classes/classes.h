/*
 * Classes as numbers.
 *   one_hot    labels [..] -> [.., n], 1 at the label
 *   confusion  target [..], predicted [..] -> i64 [n, n] of counts
 * Neither has a gradient: labels are integers.
 */
#ifndef GR_OP_CLASSES_CLASSES_H
#define GR_OP_CLASSES_CLASSES_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_classes_attr {
    int64_t n;
    gr_dtype dtype; /* one_hot */
} gr_classes_attr;

extern const gr_op gr_op_one_hot, gr_op_confusion;
extern const gr_kernel gr_one_hot_cpu[], gr_confusion_cpu[];

#ifdef __cplusplus
}
#endif

#endif

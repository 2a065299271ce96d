/* The k best elements of each row: x [..., n] -> values [..., k], places i32 [..., k]. */
#ifndef GR_OP_TOPK_TOPK_H
#define GR_OP_TOPK_TOPK_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_top_k_attr {
    int64_t k;
    bool is_smallest;
} gr_top_k_attr;

extern const gr_op gr_op_top_k;
extern const gr_kernel gr_top_k_cpu[];

#ifdef __cplusplus
}
#endif

#endif

/*
 * Rows by index, and its gradient. index: i32 or i64, any shape.
 *   gather       table [n, ...], index [i...]        -> [i..., ...]
 *   scatter_add  rows [i..., ...], index [i...]      -> [n_rows, ...], zero where no
 *                index points; rows of one index are added in the order of positions
 */
#ifndef GR_OP_GATHER_GATHER_H
#define GR_OP_GATHER_GATHER_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_gather_attr {
    int64_t padding; /* the row whose gradient stays 0; -1: none */
} gr_gather_attr;

typedef struct gr_scatter_attr {
    int64_t n_rows;
    gr_dtype dtype; /* of the result: f32 for f16 and bf16 rows */
} gr_scatter_attr;

extern const gr_op gr_op_gather, gr_op_scatter_add;
extern const gr_kernel gr_gather_cpu[], gr_scatter_add_cpu[];

#ifdef __cplusplus
}
#endif

#endif

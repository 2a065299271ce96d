/*
 * Elements along an axis by index.
 *   take        x [outer, n, inner], index -> [outer, m, inner]
 *   take_grad   dy [outer, m, inner], index -> [outer, n, inner]: each element added where
 *               it was taken from, in the order of m
 * index is [m], the same for all, or [outer, m, inner], one for each element.
 */
#ifndef GR_OP_TAKE_TAKE_H
#define GR_OP_TAKE_TAKE_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_take_attr {
    int axis;
    bool is_each;   /* an index for each element */
    int64_t n;      /* take_grad: of the result's dimension */
    gr_dtype dtype; /* take_grad: of the result, f32 for f16 and bf16 */
} gr_take_attr;

extern const gr_op gr_op_take, gr_op_take_grad;
extern const gr_kernel gr_take_cpu[], gr_take_grad_cpu[];

/* d (whose last dimension holds elements taken at `index` from n) as a gradient of the
 * whole, of type t. */
gr_value *gr_take_back(const char *site, gr_graph *g, gr_value *d, gr_value *index,
                       const gr_take_attr *like, gr_dtype t);

#ifdef __cplusplus
}
#endif

#endif

/* The CPU kernels of take and take_grad. */
#ifndef GR_OP_TAKE_KERNELS_H
#define GR_OP_TAKE_KERNELS_H

#include "op/fault.h"
#include "op/take/take.h"

/* Both as plain numbers: [outer, n or m, inner]. */
typedef struct gr_taken {
    const gr_launch *launch;
    const void *index;
    bool is_i64, is_each;
    int64_t outer, n, m, inner;
} gr_taken;

/* `whole` is the shape with n along the axis. */
static inline gr_taken gr_taken_of(const gr_launch *l, const gr_shape *whole)
{
    const gr_take_attr *at = (const gr_take_attr *)l->node->attr;
    const gr_value *index = l->node->src[1];
    gr_taken t;

    t.launch = l;
    t.index = l->src[1];
    t.is_each = at->is_each;
    t.is_i64 = index->dtype == GR_I64;
    t.outer = t.inner = 1;
    t.n = whole->dim[at->axis];
    t.m = index->shape.dim[at->is_each ? at->axis : 0];
    for (int d = 0; d < whole->n_dims; d++)
        *(d < at->axis ? &t.outer : &t.inner) *= d == at->axis ? 1 : whole->dim[d];
    return t;
}

/* Where element (o, i, c) of the taken ones comes from along the axis; -1, and a fault,
 * when there is no such place. */
static inline int64_t gr_taken_at(const gr_taken *t, int64_t o, int64_t i, int64_t c)
{
    int64_t e = t->is_each ? (o * t->m + i) * t->inner + c : i;
    int64_t j = t->is_i64 ? ((const int64_t *)t->index)[e] : ((const int32_t *)t->index)[e];

    if (j >= 0 && j < t->n)
        return j;
    gr_fault_set(t->launch, j, t->n, e);
    return -1;
}

gr_status gr_take_ref_run(const gr_launch *l) GR_MUST_CHECK;
size_t gr_take_grad_ref_workspace(const gr_node *n, const void *data);
gr_status gr_take_grad_ref_run(const gr_launch *l) GR_MUST_CHECK;

#endif

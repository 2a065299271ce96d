/* The CPU kernels of softmax_xent and its gradient. */
#ifndef GR_OP_XENT_KERNELS_H
#define GR_OP_XENT_KERNELS_H

#include "op/fault.h"
#include "op/xent/xent.h"

/* What a label says when it is no class. */
enum { GR_XENT_BAD = -1, GR_XENT_IGNORED = -2 };

/* The label of a row; GR_XENT_BAD, and a fault, when there is no such class. */
static inline int64_t gr_xent_label(const gr_launch *l, int64_t row)
{
    const gr_xent_attr *at = (const gr_xent_attr *)l->node->attr;
    int64_t n_classes = l->node->src[0]->shape.dim[1], c;

    if (l->node->src[1]->dtype == GR_I64)
        c = ((const int64_t *)l->src[1])[row];
    else
        c = ((const int32_t *)l->src[1])[row];
    if (at->has_ignore && c == at->ignore)
        return GR_XENT_IGNORED;
    if (c >= 0 && c < n_classes)
        return c;
    gr_fault_set(l, c, n_classes, row);
    return GR_XENT_BAD;
}

gr_status gr_xent_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_xent_grad_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* One row of logits: f32, bf16 or f16. */
typedef struct gr_xent_row {
    const void *x;
    gr_dtype type;
    int64_t n;
} gr_xent_row;

/* Its gradient: f32, bf16 or f16. dx[c] = whole * p - hit * (c == label) - each * w[c] */
typedef struct gr_xent_row_grad {
    void *dx;
    gr_dtype type;
    float lse;
    int64_t label;
    float whole, hit, each;
    const float *w; /* NULL: 1 */
} gr_xent_row_grad;

/* What an instruction set brings. */
typedef struct gr_xent_isa {
    /* Also the sum of w[c] x[c] unless dot is NULL; w NULL: 1. */
    float (*lse)(const gr_xent_row *r, const float *w, float *dot);
    void (*grad)(const gr_xent_row *r, const gr_xent_row_grad *d);
} gr_xent_isa;

extern const gr_xent_isa gr_xent_avx512, gr_xent_avx2;

#endif

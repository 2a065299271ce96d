/*
 * The gated unit of SwiGLU: with a and b the halves of the last dimension
 *   swiglu       x [.., 2 n] -> y [.., n] = silu(a) b
 *   swiglu_grad  x [.., 2 n], dy [.., n] -> dx [.., 2 n]
 * All of x's type; f16 and bf16 are computed in f32.
 */
#ifndef GR_OP_SWIGLU_SWIGLU_H
#define GR_OP_SWIGLU_SWIGLU_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const gr_op gr_op_swiglu, gr_op_swiglu_grad;
extern const gr_kernel gr_swiglu_cpu[], gr_swiglu_grad_cpu[];

gr_status gr_swiglu_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_swiglu_grad_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* What an instruction set brings, over n elements of one row. */
typedef struct gr_swiglu_isa {
    void (*gate)(float *y, const float *a, const float *b, int64_t n);
    void (*grad)(float *da, float *db, const float *dy, const float *a, const float *b, int64_t n);
} gr_swiglu_isa;

extern const gr_swiglu_isa gr_swiglu_avx512, gr_swiglu_avx2;

#ifdef __cplusplus
}
#endif

#endif

/* The CPU kernels of softmax. */
#ifndef GR_OP_SOFTMAX_KERNELS_H
#define GR_OP_SOFTMAX_KERNELS_H

#include "op/softmax/softmax.h"

#ifdef __cplusplus
extern "C" {
#endif

gr_status gr_softmax_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_softmax_grad_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* A tensor around one dimension: element (o, i, k) lies at (o * n + i) * inner + k. */
typedef struct gr_axis {
    int64_t outer, n, inner;
} gr_axis;

gr_axis gr_axis_of(const gr_shape *s, int axis);

/*
 * Lines along the dimension, of `n` elements. Rows: `count` lines one behind the other, each of
 * neighbours. Columns: `count` lines side by side, one vector of them at most, whose elements
 * are `step` apart. src is x, or y for a gradient; all are f32, bf16 or f16.
 */
typedef struct gr_softmax_lines {
    const char *src, *dy;
    char *out;
    gr_dtype src_type, dy_type, out_type;
    int64_t n, step, count;
} gr_softmax_lines;

/* What an instruction set brings: for rows and for columns. */
typedef struct gr_softmax_isa {
    void (*softmax[2])(const gr_softmax_lines *k);
    void (*log_softmax[2])(const gr_softmax_lines *k);
    void (*lse[2])(const gr_softmax_lines *k); /* out: f32, one per line */
    void (*softmax_grad[2])(const gr_softmax_lines *k);
    void (*log_softmax_grad[2])(const gr_softmax_lines *k);
} gr_softmax_isa;

enum { GR_SOFTMAX_ROWS, GR_SOFTMAX_COLUMNS };

extern const gr_softmax_isa gr_softmax_avx512, gr_softmax_avx2;

#ifdef __cplusplus
}
#endif

#endif

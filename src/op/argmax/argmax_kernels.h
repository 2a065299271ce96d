/* The CPU kernels of arg_reduce and arg_scatter. */
#ifndef GR_OP_ARGMAX_KERNELS_H
#define GR_OP_ARGMAX_KERNELS_H

#include "op/argmax/argmax.h"

#ifdef __cplusplus
extern "C" {
#endif

gr_status gr_arg_reduce_ref_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_arg_scatter_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* A tensor around one dimension: element (o, i, k) lies at (o * n + i) * inner + k. */
typedef struct gr_around {
    int64_t outer, n, inner;
} gr_around;

gr_around gr_around_axis(const gr_shape *s, int axis);

/* Lines along the dimension: `count` of them one behind the other (rows), or side by side, one
 * vector at most, with elements `step` apart (columns). f32, bf16 or f16. */
typedef struct gr_arg_lines {
    const char *src;
    gr_dtype type;
    bool is_min;
    int64_t n, step, count;
    int64_t *index; /* out, one per line */
} gr_arg_lines;

typedef struct gr_arg_isa {
    void (*rows)(const gr_arg_lines *k);
    void (*columns)(const gr_arg_lines *k);
} gr_arg_isa;

extern const gr_arg_isa gr_arg_avx512, gr_arg_avx2;

#ifdef __cplusplus
}
#endif

#endif

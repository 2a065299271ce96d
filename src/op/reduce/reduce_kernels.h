/* The CPU kernels of reduce. */
#ifndef GR_OP_REDUCE_KERNELS_H
#define GR_OP_REDUCE_KERNELS_H

#include "op/reduce/reduce.h"

gr_status gr_reduce_ref_run(const gr_launch *l) GR_MUST_CHECK;

/* A source seen as rows; f32, bf16 or f16. */
typedef struct gr_span {
    const void *src;
    gr_dtype type;
    bool is_max; /* else: sum */
    int64_t rows;
    int64_t row_step; /* elements */
    int64_t cols;     /* neighbours */
} gr_span;

/* What an instruction set brings. The order of additions into one result depends on
 * rows and cols of the whole, never on where a caller cut the columns (at multiples
 * of GR_SPAN_COLS). */
typedef struct gr_span_isa {
    /* out[c]: down all rows; starts from what out holds. */
    void (*down)(const gr_span *s, float *out);
    /* Along row 0. */
    float (*along)(const gr_span *s);
} gr_span_isa;

#define GR_SPAN_COLS 256

extern const gr_span_isa gr_reduce_span_avx512, gr_reduce_span_avx2;

#endif

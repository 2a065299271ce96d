/* The fast product: what is fixed when the plan is made, shared by matmul_packed*.c alone. */
#ifndef GR_OP_MATMUL_PACKED_H
#define GR_OP_MATMUL_PACKED_H

#include "op/count.h"
#include "op/epilogue.h"
#include "op/matmul/cpu/matmul_kernels.h"

#define GR_GEMM_TURN 16 /* rows of scratch for a turned tile; none has more */

/* An operand as matrix [i][k] with element steps. */
typedef struct gr_gemm_side {
    int64_t step_i, step_k;
} gr_gemm_side;

typedef struct gr_gemm {
    const gr_tile_isa *isa;
    gr_matmul_dims d;
    int64_t elem; /* bytes of an operand's number, as it is read */
    gr_gemm_side v, s;
    int64_t n_v, n_s; /* length of v and s along their own side of y */
    bool turned;      /* v is a: y is written transposed */
    bool direct;      /* v is read where it lies */
    bool aside;       /* a tile's rows of s are copied, though k are neighbours */
    bool in_slice;    /* sums of a narrow y: a row of tiles at a time, in the slice's workspace */
    int64_t k_block;  /* run of k per pass */
    int64_t v_block;  /* multiple of the width: packed at a time */
    int cuts_batch, cuts_v, cuts_s;
    size_t at_s, at_turn, at_sums; /* in the workspace of a slice, which begins with v */
    size_t slice_bytes;
    size_t at_a, at_b, at_y; /* widened operands and result in the workspace */
    size_t n_bytes;
    gr_dtype type_a, type_b, type_y;
    gr_epilogue_plan *epilogue; /* owned; NULL: none */
    size_t at_epilogue;         /* its scratch in the workspace, one for each slice */
    void *other;                /* prepared for the tile that takes over when numbers do not fit */
} gr_gemm;

/* Words that n_k numbers fill. */
static inline int64_t gr_gemm_words(const gr_gemm *m, int64_t n_k)
{
    return gr_div_up(n_k, m->isa->word);
}

#endif

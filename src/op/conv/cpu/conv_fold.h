/*
 * conv_weight on lines (conv_grid.h): the loops, and what an instruction set brings.
 *
 *     weight[o, i of tap] = sum over result lines q of y[q, o] x[q + shift of the tap, i]
 *
 * y is laid out like the result lines, with zeros where there is no result. Then
 *
 *     for each part, a stretch of chunks, for each chunk of lines:
 *         x and y are copied to dense lines, and packed from there          (threads, by lines)
 *         for each panel of x channels, panel of y channels, tap:
 *             block of sums, added to those of the part's earlier chunks    (threads, dealt)
 *     sums of the parts are added and put into the weight's order
 *
 * Steps in which y or a tap's lines are all zeros are left out. Threads share the blocks of a
 * chunk, never a sum; or, with few threads, each does whole parts alone. What is added to what
 * depends on the shapes only: bits do not depend on the number of threads. Zeros in y meet pixels
 * that are not theirs, so one infinite number in x makes more of the sums NaN than the definition
 * does; none of them is finite in either case.
 */
#ifndef GR_OP_CONV_FOLD_H
#define GR_OP_CONV_FOLD_H

#include "op/conv/cpu/conv_grid.h"

#define GR_FOLD_RUN ((int64_t)32) /* dense lines of x are padded to a multiple of this */

/* From the source to dense lines, `step` elements apart: of each line the elements
 * [from, to) exist, the rest becomes 0. */
typedef struct gr_fold_copy {
    const char *src;  /* of element 0 of the first line, whether it exists or not */
    int64_t src_step; /* elements */
    gr_dtype type;
    int64_t n, from, to;
    char *dst;
    int64_t step;
} gr_fold_copy;

/* From dense lines, [line][step] of f32, or of bf16 with `low`. */
typedef struct gr_fold_pack {
    const char *src; /* of the panel's first channel */
    int64_t step;    /* elements */
    int64_t lo, hi;  /* lines to pack */
    int64_t n_lines; /* of all that are packed, for the layout */
    int n_channels;
    bool low;
    char *dst; /* of the panel */
} gr_fold_pack;

/* out[r][c] (+)= sum over lines k of y[k, r] x[k, c] */
typedef struct gr_fold_block {
    const char *y;   /* packed panel */
    const char *x;   /* packed panel, or dense lines, at the tap's first line */
    int64_t x_step;  /* floats from line to line of dense x */
    int64_t x_lines; /* of a packed panel */
    const int *list; /* n_listed steps of line_unit lines; in the others a side is 0 */
    int n_listed;
    int rows, cols;
    bool low, add;
    float *out;
    int64_t out_step;
    float *sums; /* scratch: 32 x 32, 64-byte aligned */
} gr_fold_block;

typedef struct gr_fold_isa {
    int rows;        /* most channels of y in a panel; of x there are GR_FOLD_RUN */
    int line_unit;   /* lines of a step: chunks are a multiple */
    bool y_by_steps; /* y may be packed step by step; else a panel at a time */
    int64_t ahead;   /* lines that packing x reads beyond its own; < 0: x stays dense */
    int64_t (*y_bytes)(bool low, int64_t n_lines);
    int64_t (*x_bytes)(bool low, int64_t n_lines);
    int64_t (*x_at)(bool low, int64_t line); /* bytes into a packed panel */
    void (*copy)(const gr_fold_copy *c);     /* to f32, or from bf16 to bf16 with `low` */
    bool (*pack_y)(const gr_fold_pack *p);   /* false: numbers that it cannot do */
    bool (*pack_x)(const gr_fold_pack *p);
    void (*begin)(void); /* around a thread's blocks */
    void (*end)(void);
    void (*block)(const gr_fold_block *b);
    /* dst[c][r] = src[r][c]; at most 16 rows and columns. */
    void (*transpose)(const float *src, int64_t src_stride, float *dst, int64_t dst_stride,
                      int rows, int cols);
    /* What sums of f32 are scaled by; false: one is not finite. NULL: they are right as they are.
     */
    bool (*scale_row)(float *row, int64_t n);
    void (*widen)(float *dst, const void *src, gr_dtype t, int64_t n);
    void (*narrow)(void *dst, const float *src, gr_dtype t, int64_t n);
} gr_fold_isa;

extern const gr_fold_isa gr_fold_isa_amx, gr_fold_isa_avx512_bf16, gr_fold_isa_avx512,
    gr_fold_isa_avx2;

/* The kernel with this instruction set; `other` NULL, or the one that takes over. */
gr_status gr_conv_fold_prepare(gr_prepare *p, const gr_fold_isa *isa,
                               const gr_fold_isa *other) GR_MUST_CHECK;
size_t gr_conv_fold_workspace(const gr_node *n, const void *data);
gr_status gr_conv_fold_run(const gr_launch *l) GR_MUST_CHECK;
void gr_conv_fold_release(void *data);

#endif

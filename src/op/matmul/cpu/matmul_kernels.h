/*
 * The CPU kernels of matmul. The fast ones are made of three parts: a plan (which operand
 * is vectorised, blocks, cuts between threads), loops over blocks, and per instruction
 * set the innermost tile. matmul_packed.c has the drawing.
 */
#ifndef GR_OP_MATMUL_KERNELS_H
#define GR_OP_MATMUL_KERNELS_H

#include "op/matmul/matmul.h"

#ifndef GR_HAVE_ONEDNN
#define GR_HAVE_ONEDNN 0
#endif

#define GR_TILE_CHAIN ((int64_t)256) /* f32 numbers that are summed one by one, at most */

/* A stretch of k, which begins so many words after a tile's v, and numbers after its s. */
typedef struct gr_tile_part {
    int64_t v_at, s_at, k;
} gr_tile_part;

/* One tile: out[i][j] (+)= sum over k of s[i][k] * v[k][j], i < rows, j < isa->width. A k is a
 * word: one f32 number, or two neighbours in bf16. */
typedef struct gr_tile {
    const float *v; /* width words at each k */
    const void *s;  /* packed: rows words at each k; else k words at each row */
    float *out;
    int64_t v_step;   /* words from k to k + 1 in v */
    int64_t s_stride; /* numbers from row to row in s; unused when packed */
    int64_t out_stride;
    int64_t k;                 /* one stretch; */
    const gr_tile_part *parts; /* NULL, or n_parts >= 1 of them instead, one after the other */
    int n_parts;
    int rows;
    int cols; /* of out that exist; v is readable to the full width */
    bool s_packed;
    bool add; /* to what out holds */
} gr_tile;

/* What an instruction set brings to matmul_packed.c. */
typedef struct gr_tile_isa {
    int width; /* floats in a tile's row */
    int rows;  /* most rows in a tile */
    int word;  /* k in a word: 1 of f32, or 2 of bf16 */
    void (*tile)(const gr_tile *t);
    /* dst[c][r] = src[r][c]; at most 16 rows and columns. */
    void (*transpose)(const float *src, int64_t src_stride, float *dst, int64_t dst_stride,
                      int rows, int cols);
    /* dst[k][width] from `width` neighbours at each k, src_step apart. */
    void (*pack_panel)(float *dst, const float *src, int64_t src_step, int64_t n_k);
    /* Words of two: dst[word][width] from `cols` lines of n_k numbers, step_i from line to line;
     * what is missing becomes 0. */
    void (*pack_pairs)(float *dst, const uint16_t *src, int64_t step_i, int64_t step_k, int cols,
                       int64_t n_k);
    /* dst[word][rows] from neighbours; may write up to a vector past the end. */
    void (*pack_rows)(float *dst, const void *src, int64_t src_step, int64_t n_k, int rows);
    /* False: among n numbers of bf16 are some that its tile takes for others. NULL: never. */
    bool (*fits)(const uint16_t *src, int64_t n);
    /* Between f32 and bf16 or f16. */
    void (*widen)(float *dst, const void *src, gr_dtype t, int64_t n);
    void (*narrow)(void *dst, const float *src, gr_dtype t, int64_t n);
} gr_tile_isa;

extern const gr_tile_isa gr_matmul_tile_avx512_bf16, gr_matmul_tile_avx512, gr_matmul_tile_avx2;

gr_status gr_matmul_packed_prepare(gr_prepare *p, const gr_tile_isa *isa) GR_MUST_CHECK;
size_t gr_matmul_packed_workspace(const gr_node *n, const void *data);
gr_status gr_matmul_packed_run(const gr_launch *l) GR_MUST_CHECK;
void gr_matmul_packed_release(void *data);

#if GR_HAVE_ONEDNN
const char *gr_matmul_onednn_reject(const gr_node *n);
gr_status gr_matmul_onednn_prepare(gr_prepare *p) GR_MUST_CHECK;
size_t gr_matmul_onednn_workspace(const gr_node *n, const void *data);
gr_status gr_matmul_onednn_run(const gr_launch *l) GR_MUST_CHECK;
void gr_matmul_onednn_release(void *data);
#endif

/* Sums of nothing that an epilogue then goes over: left to the reference. */
bool gr_matmul_is_empty_sum(const gr_node *n);

size_t gr_matmul_ref_workspace(const gr_node *n, const void *data);
gr_status gr_matmul_ref_run(const gr_launch *l) GR_MUST_CHECK;

#endif

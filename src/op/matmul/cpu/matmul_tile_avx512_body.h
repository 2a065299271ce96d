/*
 * The tile for AVX-512: 14 rows of two vectors, 28 sums in registers. Per k it needs two
 * loads of v and 14 broadcasts of s for 28 multiply-adds, half of what the load ports
 * can do, so either side may come from L2.
 *
 * Rows are written out by macros, not by loops: the sums stay in registers with every
 * compiler at every level of optimisation. One function per number of rows, so that the
 * last rows of a matrix cost what they are.
 *
 * Four k a turn: the fewer counters and branches between the multiply-adds, the better,
 * because those take the same two ports.
 *
 * What is multiplied are words of 32 bits: an f32 number, or two of bf16. Who includes this
 * after op/vec_avx512_body.h defines
 *
 *     S_TYPE, S_WORD        what s is made of, and how many of them are a word
 *     WORD_AT(s)            the word at s, in all lanes
 *     MULTIPLY(x, v, sum)   sum + x v
 *     CHAINED               sums begin with 0 and are cut into chains; else with what out holds
 */
#ifndef GR_OP_MATMUL_TILE_AVX512_BODY_H
#define GR_OP_MATMUL_TILE_AVX512_BODY_H

#include "op/matmul/cpu/matmul_kernels.h"
#include "op/transpose_avx512_body.h"
#include "op/unroll_body.h"

#if CHAINED
#include "op/matmul/cpu/matmul_chain_body.h"
#endif

#define WIDTH (2 * LANES)
#define AHEAD 8 /* k steps between the prefetch of v and its use; L1 has 12 ways */

#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)

#define ROW_ZERO(i) \
    if (rows > i)   \
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
#define ROW_LOAD(i)                                         \
    if (rows > i) {                                         \
        sum[i][0] = _mm512_maskz_loadu_ps(m0, out);         \
        sum[i][1] = _mm512_maskz_loadu_ps(m1, out + LANES); \
        out += out_stride;                                  \
    }
#define ROW_JOIN(i)                                                                   \
    if (rows > i) {                                                                   \
        sum[i][0] = _mm512_add_ps(_mm512_maskz_loadu_ps(m0, out), sum[i][0]);         \
        sum[i][1] = _mm512_add_ps(_mm512_maskz_loadu_ps(m1, out + LANES), sum[i][1]); \
        out += out_stride;                                                            \
    }
#define ROW_STORE(i)                                       \
    if (rows > i) {                                        \
        _mm512_mask_storeu_ps(out, m0, sum[i][0]);         \
        _mm512_mask_storeu_ps(out + LANES, m1, sum[i][1]); \
        out += out_stride;                                 \
    }
#define ROW_ADD(i)                                  \
    if (rows > i) {                                 \
        const __m512 x = WORD_AT(s + i * s_stride); \
        sum[i][0] = MULTIPLY(x, v0, sum[i][0]);     \
        sum[i][1] = MULTIPLY(x, v1, sum[i][1]);     \
    }
#define STEP_K                                                        \
    do {                                                              \
        const __m512 v0 = _mm512_loadu_ps(v);                         \
        const __m512 v1 = _mm512_loadu_ps(v + LANES);                 \
        _mm_prefetch((const char *)(v + ahead), _MM_HINT_T0);         \
        _mm_prefetch((const char *)(v + ahead + LANES), _MM_HINT_T0); \
        EACH_ROW(ROW_ADD)                                             \
        v += v_step;                                                  \
        s += s_step;                                                  \
    } while (0)

/* rows and packed are constants where this is expanded. */
INLINE void run_tile(const gr_tile *t, const int rows, const bool packed)
{
    const gr_tile_part one = { 0, 0, t->k }, *part = t->parts ? t->parts : &one;
    const gr_tile_part *const end = part + (t->parts ? t->n_parts : 1);
    float *out = t->out;
    const int64_t v_step = t->v_step, ahead = AHEAD * t->v_step, out_stride = t->out_stride;
    const int64_t s_stride = packed ? S_WORD : t->s_stride;
    const int64_t s_step = packed ? rows * S_WORD : S_WORD;
    const uint32_t cols = t->cols == WIDTH ? ~0u : (1u << t->cols) - 1;
    const __mmask16 m0 = (__mmask16)cols, m1 = (__mmask16)(cols >> LANES);
    __m512 sum[14][2];

    if (!CHAINED && t->add) {
        EACH_ROW(ROW_LOAD)
    } else {
        EACH_ROW(ROW_ZERO)
    }
    do {
        const float *v = t->v + part->v_at;
        const S_TYPE *s = (const S_TYPE *)t->s + part->s_at;
        int64_t k = part->k;

        for (; k >= 4; k -= 4) {
            STEP_K;
            STEP_K;
            STEP_K;
            STEP_K;
        }
        for (; k > 0; k--)
            STEP_K;
    } while (++part < end);
    out = t->out;
    if (CHAINED && t->add) {
        EACH_ROW(ROW_JOIN)
        out = t->out;
    }
    EACH_ROW(ROW_STORE)
}

#define TILE_MAP(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)

#include "op/matmul/cpu/matmul_pick_body.h"

static void tile(const gr_tile *t)
{
#if CHAINED
    each_chain(t, pick_tile(t));
#else
    pick_tile(t)(t);
#endif
}

#endif

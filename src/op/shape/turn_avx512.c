/*
 * Turned planes by AVX-512: tiles of 16 x 16 in registers, partial ones by masks.
 *
 * Four rounds of pairing: numbers, pairs, then quarters of registers twice. Two-byte
 * elements are widened when loaded and narrowed when stored, so that one routine turns
 * both.
 */
#include "op/shape/strided.h"
#include "op/shape/turn_thin_body.h"
#include "op/unroll_body.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

/* Rows and columns of sixteen registers of sixteen numbers change places. */
INLINE void turn_tile(__m512i x[16])
{
    __m512i y[16];

    GR_UNROLL
    for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    GR_UNROLL
    for (int i = 0; i < 16; i += 4) {
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    /* x[4q + k], quarter h: rows 4q .. 4q + 3 of column 4h + k. */
    GR_UNROLL
    for (int k = 0; k < 4; k++) {
        y[k] = _mm512_shuffle_i32x4(x[k], x[4 + k], 0x88);
        y[4 + k] = _mm512_shuffle_i32x4(x[k], x[4 + k], 0xdd);
        y[8 + k] = _mm512_shuffle_i32x4(x[8 + k], x[12 + k], 0x88);
        y[12 + k] = _mm512_shuffle_i32x4(x[8 + k], x[12 + k], 0xdd);
    }
    GR_UNROLL
    for (int k = 0; k < 4; k++) {
        x[k] = _mm512_shuffle_i32x4(y[k], y[8 + k], 0x88);
        x[8 + k] = _mm512_shuffle_i32x4(y[k], y[8 + k], 0xdd);
        x[4 + k] = _mm512_shuffle_i32x4(y[4 + k], y[12 + k], 0x88);
        x[12 + k] = _mm512_shuffle_i32x4(y[4 + k], y[12 + k], 0xdd);
    }
}

INLINE __m512i load(const void *p, __mmask16 m, int bytes)
{
    if (bytes == 4)
        return _mm512_maskz_loadu_epi32(m, p);
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p));
}

INLINE void store(void *p, __mmask16 m, __m512i x, int bytes)
{
    if (bytes == 4)
        _mm512_mask_storeu_epi32(p, m, x);
    else
        _mm512_mask_cvtepi32_storeu_epi16(p, m, x);
}

/* A tile of rows x cols of the result; 16 x 16 when they are constants. */
INLINE void tile(const gr_turn *t, int64_t c, int64_t rows, int64_t cols, int bytes)
{
    const char *src = (const char *)t->src + c * t->src_step * bytes;
    char *dst = (char *)t->dst + c * bytes;
    const __mmask16 row_mask = (__mmask16)((1u << rows) - 1);
    const __mmask16 col_mask = (__mmask16)((1u << cols) - 1);
    __m512i x[16];

    GR_UNROLL
    for (int i = 0; i < 16; i++)
        x[i] = i < cols ? load(src + i * t->src_step * bytes, row_mask, bytes)
                        : _mm512_setzero_si512();
    turn_tile(x);
    GR_UNROLL
    for (int i = 0; i < 16; i++)
        if (i < rows)
            store(dst + i * t->dst_step * bytes, col_mask, x[i], bytes);
}

INLINE void turn(const gr_turn *t, int bytes)
{
    int64_t c = 0;

    for (; t->rows == 16 && c + 16 <= t->cols; c += 16)
        tile(t, c, 16, 16, bytes);
    for (; c < t->cols; c += 16)
        tile(t, c, t->rows, t->cols - c < 16 ? t->cols - c : 16, bytes);
}

static void turn_4(const gr_turn *t)
{
    turn(t, 4);
}

static void turn_2(const gr_turn *t)
{
    turn(t, 2);
}

const gr_turn_isa gr_turn_avx512 = {
    .tiles = { turn_2, turn_4 },
    .weave = { weave_2, weave_4 },
    .unweave = { unweave_2, unweave_4 },
};

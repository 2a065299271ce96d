/*
 * Turned planes by AVX-512: tiles of 16 x 16 in registers, partial ones by masks.
 *
 * Two-byte elements are widened when loaded and narrowed when stored, so that one routine
 * turns both.
 */
#include "op/shape/strided.h"
#include "op/shape/turn_thin_body.h"
#include "op/transpose_avx512_body.h"

#include <immintrin.h>

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
    __m512 x[16];

    GR_UNROLL
    for (int i = 0; i < 16; i++)
        x[i] = _mm512_castsi512_ps(i < cols ? load(src + i * t->src_step * bytes, row_mask, bytes)
                                            : _mm512_setzero_si512());
    transpose_16(x);
    GR_UNROLL
    for (int i = 0; i < 16; i++)
        if (i < rows)
            store(dst + i * t->dst_step * bytes, col_mask, _mm512_castps_si512(x[i]), bytes);
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

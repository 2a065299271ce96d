/*
 * Rows on their way into and out of AMX tiles. Only *_amx.c and *_avx512_bf16.c files include it,
 * the latter for what it says about bf16.
 *
 * (1) An f32 number x is scaled by 2^24 and split into three bf16 numbers,
 *
 *         x 2^24 = h1 + h2 + h3   exactly:
 *         h1 = x 2^24 rounded to 8 bits, h2 the first 8 bits of the rest, h3 the rest.
 *
 *     h1 takes 8 of 24 bits and its error is signed, so 15 bits and a sign are left.
 * (2) AMX reads subnormals as 0 and writes them as 0. After scaling, no part of any f32
 *     number is subnormal (a part is a multiple of 2^-149 2^24), and a product or sum that
 *     is lost is below 2^-126 2^-48: far below what f32 can tell from 0. So tiny numbers
 *     need no care.
 * (3) Of infinities and NaN h2 or h3 is NaN, and sums beyond 2^80 overflow: both are seen
 *     in the results, which are then not finite, and the product is done without AMX.
 * (4) bf16 is taken as it is. Subnormals among it are noticed on the way; products and
 *     sums below 2^-126 become 0, which nothing notices.
 */
#ifndef GR_OP_MATMUL_ROW_BODY_H
#define GR_OP_MATMUL_ROW_BODY_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

#define ROW_SCALE_IN  0x1p24f
#define ROW_SCALE_OUT 0x1p-48f

/* The upper halves of a and b as pairs; the lower halves of b are 0. */
INLINE void row_store_pairs(char *dst, __m512i a, __m512i b)
{
    _mm512_store_si512(dst, _mm512_or_si512(_mm512_srli_epi32(a, 16), b));
}

/* A row of each of the three tiles, `part` bytes apart. */
INLINE void row_split(char *dst, int64_t part, __m512 x0, __m512 x1)
{
    const __m512 scale = _mm512_set1_ps(ROW_SCALE_IN);
    const __m512i half = _mm512_set1_epi32(0x8000), top = _mm512_set1_epi32(-0x10000);
    __m512i h0, h1;

    x0 = _mm512_mul_ps(x0, scale);
    x1 = _mm512_mul_ps(x1, scale);
    h0 = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x0), half), top);
    h1 = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x1), half), top);
    row_store_pairs(dst, h0, h1);
    x0 = _mm512_sub_ps(x0, _mm512_castsi512_ps(h0));
    x1 = _mm512_sub_ps(x1, _mm512_castsi512_ps(h1));
    h0 = _mm512_and_si512(_mm512_castps_si512(x0), top);
    h1 = _mm512_and_si512(_mm512_castps_si512(x1), top);
    row_store_pairs(dst + part, h0, h1);
    h0 = _mm512_castps_si512(_mm512_sub_ps(x0, _mm512_castsi512_ps(h0)));
    h1 = _mm512_castps_si512(_mm512_sub_ps(x1, _mm512_castsi512_ps(h1)));
    row_store_pairs(dst + 2 * part, h0, h1);
}

INLINE void row_put_f32(char *dst, int64_t part, const float *src, int64_t pair)
{
    row_split(dst, part, _mm512_loadu_ps(src), _mm512_loadu_ps(src + pair));
}

/* Sums up 0 for finite x, NaN for others. */
INLINE __m512 row_watch(__m512 x, __m512 sum)
{
    return _mm512_fmadd_ps(x, _mm512_setzero_ps(), sum);
}

INLINE bool row_is_unfit_f32(__m512 sum)
{
    return _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q) != 0;
}

INLINE __m512i row_join_bf16(__m256i x0, __m256i x1)
{
    return _mm512_or_si512(_mm512_cvtepu16_epi32(x0),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(x1), 16));
}

/* Words of number i of x0 and of x1: i < 16, and those from 16 on. */
INLINE void row_words_bf16(__m512i x0, __m512i x1, __m512i *low, __m512i *high)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    /* The second operand's numbers count from 32. */
    const __m512i from = _mm512_add_epi32(_mm512_or_si512(lane, _mm512_slli_epi32(lane, 16)),
                                          _mm512_set1_epi32(32 << 16));

    *low = _mm512_permutex2var_epi16(x0, from, x1);
    *high = _mm512_permutex2var_epi16(x0, _mm512_add_epi16(from, _mm512_set1_epi16(16)), x1);
}

/* Least of 2 |x| - 1 as an unsigned number: from 1 to 253 for subnormals, 65535 for 0. */
INLINE __m512i row_watch_bf16(__m512i x, __m512i low)
{
    return _mm512_min_epu16(low, _mm512_sub_epi16(_mm512_slli_epi16(x, 1), _mm512_set1_epi16(1)));
}

INLINE bool row_is_unfit_bf16(__m512i low)
{
    return _mm512_cmplt_epu16_mask(low, _mm512_set1_epi16(0xff)) != 0;
}

/* Pairs of bf16, scaled like f32: exact, subnormals too, up to 2^104. */
INLINE __m512i row_scaled_bf16(__m512i x)
{
    const __m512 scale = _mm512_set1_ps(ROW_SCALE_IN);
    const __m512i top = _mm512_set1_epi32(-0x10000);
    const __m512 x0 = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
    const __m512 x1 = _mm512_castsi512_ps(_mm512_and_si512(x, top));
    const __m512i y1 = _mm512_castps_si512(_mm512_mul_ps(x1, scale));

    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(_mm512_mul_ps(x0, scale)), 16),
                           _mm512_and_si512(y1, top));
}

/* Most of |x|, before it is scaled, as the least of what it lacks to 0x7fff. */
INLINE __m512i row_watch_scaled(__m512i x, __m512i low)
{
    const __m512i all = _mm512_set1_epi16(0x7fff);

    return _mm512_min_epu16(low, _mm512_andnot_si512(x, all));
}

INLINE bool row_is_unfit_scaled(__m512i low)
{
    return _mm512_cmplt_epu16_mask(low, _mm512_set1_epi16(0x7fff - 0x7380 + 1)) != 0;
}

INLINE __m512i row_put_bf16(char *dst, const uint16_t *src, int64_t pair, __m512i low)
{
    const __m512i x = row_join_bf16(_mm256_loadu_si256((const __m256i *)src),
                                    _mm256_loadu_si256((const __m256i *)(src + pair)));

    _mm512_store_si512(dst, x);
    return row_watch_bf16(x, low);
}

/* Round to nearest even by adding; NaN stays NaN because its quiet bit is set. */
INLINE __m256i row_bf16_of(__m512 x)
{
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i u = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i y = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);

    y = _mm512_mask_or_epi32(y, nan, u, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(y, 16));
}

/* The first n of 32 lanes, or all. */
INLINE __mmask32 row_mask_32(int64_t n)
{
    return n >= 32 ? (__mmask32)-1 : (__mmask32)((1u << (n < 0 ? 0 : n)) - 1);
}

/* The first n lanes. */
INLINE __mmask16 row_mask(int n)
{
    return (__mmask16)((1u << n) - 1);
}

#endif

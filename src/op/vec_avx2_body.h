/* Vectors of 8 floats: the names of vec_avx512_body.h for *_avx2.c files. */
#ifndef GR_OP_VEC_AVX2_BODY_H
#define GR_OP_VEC_AVX2_BODY_H

#include "gradus/tensor.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define LANES  ((int64_t)8)

typedef __m256 vec;
typedef __m256i mask; /* lanes of all ones or zeros */

#define vec_set(x)                _mm256_set1_ps(x)
#define vec_add(a, b)             _mm256_add_ps(a, b)
#define vec_sub(a, b)             _mm256_sub_ps(a, b)
#define vec_mul(a, b)             _mm256_mul_ps(a, b)
#define vec_fma(a, b, c)          _mm256_fmadd_ps(a, b, c) /* a * b + c */
#define vec_load(p)               _mm256_loadu_ps(p)
#define vec_store(p, x)           _mm256_storeu_ps(p, x)
#define vec_load_masked(p, m)     _mm256_maskload_ps(p, m)
#define vec_store_masked(p, m, x) _mm256_maskstore_ps(p, m, x)
#define vec_keep(m, x, otherwise) _mm256_blendv_ps(otherwise, x, _mm256_castsi256_ps(m))
#define vec_round(x)              _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

/* The first n lanes, n < LANES. */
INLINE mask mask_of(int64_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

/* Lane i alone; none when i is no lane. */
INLINE mask mask_lane(int64_t i)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    return _mm256_cmpeq_epi32(_mm256_set1_epi32(i >= 0 && i < LANES ? (int)i : -1), lane);
}

#define vec_div(a, b)    _mm256_div_ps(a, b)
#define mask_equal(a, b) _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_EQ_OQ))

/* Lanes where x is greater than y, or NaN and y is not. */
INLINE mask mask_beats(vec x, vec y)
{
    return _mm256_castps_si256(
        _mm256_and_ps(_mm256_cmp_ps(x, y, _CMP_NLE_UQ), _mm256_cmp_ps(y, y, _CMP_ORD_Q)));
}

/* The first lane of a mask; LANES or more when there is none. */
INLINE int64_t mask_first(mask m)
{
    return __builtin_ctz((unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(m)) | 0x100u);
}

/* x = result * 2^e with the result in [0.75, 1.5), for x > 0 that is not subnormal. */
INLINE vec vec_split(vec x, vec *e)
{
    const __m256i offset = _mm256_set1_epi32(0x3f400000); /* 0.75 */
    const __m256i up = _mm256_sub_epi32(_mm256_castps_si256(x), offset);
    const __m256i n = _mm256_srai_epi32(up, 23);

    *e = _mm256_cvtepi32_ps(n);
    return _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(n, 23)));
}

/* Lanes that are not 0 or less; NaN is one of them. */
INLINE mask mask_above_0(vec x)
{
    return _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_NLE_UQ));
}

/* A NaN on either side wins; the instruction alone would give y when x is one. */
INLINE vec vec_max(vec y, vec x)
{
    return _mm256_blendv_ps(_mm256_max_ps(x, y), x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

INLINE float vec_across_max(vec x)
{
    float lane[LANES], y = -INFINITY;

    _mm256_storeu_ps(lane, x);
    for (int i = 0; i < LANES; i++)
        if (!(lane[i] <= y) && !isnan(y))
            y = lane[i];
    return y;
}

INLINE float vec_across_add(vec x)
{
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));

    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

/* x * 2^n for whole n in [-252, 127], by two factors, since one cannot be subnormal. */
INLINE vec vec_scale(vec x, vec n)
{
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    const __m256i rest = _mm256_sub_epi32(whole, half);
    const vec a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    const vec b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));

    return vec_mul(vec_mul(x, a), b);
}

/* The smaller or greater one, but NaN in x stays. */
#define vec_min_k(x, k) _mm256_min_ps(vec_set(k), x)
#define vec_max_k(x, k) _mm256_max_ps(vec_set(k), x)

/* ---- f32, bf16 and f16 in memory ---- */

INLINE vec vec_of_half(__m128i h, gr_dtype t)
{
    if (t == GR_F16)
        return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

INLINE vec vec_widen(const void *p, gr_dtype t)
{
    if (t == GR_F32)
        return _mm256_loadu_ps(p);
    return vec_of_half(_mm_loadu_si128(p), t);
}

INLINE int mask_count(mask m)
{
    return __builtin_popcount((unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(m)));
}

/* There are no masked loads and stores of 16-bit numbers: those go through memory, and
 * the mask must be the first lanes. */
INLINE vec vec_widen_masked(const void *p, gr_dtype t, mask m)
{
    uint16_t h[LANES] = { 0 };

    if (t == GR_F32)
        return _mm256_maskload_ps(p, m);
    if (mask_count(m) == LANES)
        return vec_widen(p, t);
    memcpy(h, p, (size_t)mask_count(m) * sizeof(h[0]));
    return vec_of_half(_mm_loadu_si128((const void *)h), t);
}

/* To nearest even by adding; NaN stays NaN because its quiet bit is set. */
INLINE __m128i bf16_of_vec(vec x)
{
    const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    const __m256i u = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    const __m256 y = _mm256_blendv_ps(_mm256_castsi256_ps(up), _mm256_castsi256_ps(quiet), nan);
    const __m256i h = _mm256_srli_epi32(_mm256_castps_si256(y), 16);

    return _mm_packus_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}

INLINE void vec_narrow(void *p, gr_dtype t, vec x)
{
    if (t == GR_F32)
        _mm256_storeu_ps(p, x);
    else if (t == GR_F16)
        _mm_storeu_si128(p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    else
        _mm_storeu_si128(p, bf16_of_vec(x));
}

INLINE void vec_narrow_masked(void *p, gr_dtype t, mask m, vec x)
{
    uint16_t h[LANES];

    if (t == GR_F32) {
        _mm256_maskstore_ps(p, m, x);
        return;
    }
    if (mask_count(m) == LANES) {
        vec_narrow(p, t, x);
        return;
    }
    vec_narrow(h, t, x);
    memcpy(p, h, (size_t)mask_count(m) * sizeof(h[0]));
}

#define MASK_ALL _mm256_set1_epi32(-1)

#endif

/*
 * Vectors of 16 floats, for kernels whose loops are written once and compiled per
 * instruction set: vec_avx2_body.h has the same names. Only *_avx512.c files include it.
 */
#ifndef GR_OP_VEC_AVX512_BODY_H
#define GR_OP_VEC_AVX512_BODY_H

#include "gradus/tensor.h"

#include <immintrin.h>
#include <math.h>

#define INLINE static inline __attribute__((always_inline))
#define LANES  ((int64_t)16)

typedef __m512 vec;
typedef __mmask16 mask;

#define vec_set(x)                _mm512_set1_ps(x)
#define vec_add(a, b)             _mm512_add_ps(a, b)
#define vec_sub(a, b)             _mm512_sub_ps(a, b)
#define vec_mul(a, b)             _mm512_mul_ps(a, b)
#define vec_fma(a, b, c)          _mm512_fmadd_ps(a, b, c) /* a * b + c */
#define vec_load(p)               _mm512_loadu_ps(p)
#define vec_store(p, x)           _mm512_storeu_ps(p, x)
#define vec_load_masked(p, m)     _mm512_maskz_loadu_ps(m, p)
#define vec_store_masked(p, m, x) _mm512_mask_storeu_ps(p, m, x)
#define vec_keep(m, x, otherwise) _mm512_mask_blend_ps(m, otherwise, x)
#define vec_round(x)              _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT)
#define vec_across_add(x)         _mm512_reduce_add_ps(x)

/* The first n lanes, n < LANES. */
INLINE mask mask_of(int64_t n)
{
    return (mask)((1u << n) - 1);
}

/* Lane i alone; none when i is no lane. */
INLINE mask mask_lane(int64_t i)
{
    return (mask)(i >= 0 && i < LANES ? 1u << i : 0u);
}

#define vec_div(a, b)    _mm512_div_ps(a, b)
#define mask_equal(a, b) _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ)

/* Lanes where x is greater than y, or NaN and y is not. */
INLINE mask mask_beats(vec x, vec y)
{
    return (mask)(_mm512_cmp_ps_mask(x, y, _CMP_NLE_UQ) & _mm512_cmp_ps_mask(y, y, _CMP_ORD_Q));
}

/* The first lane of a mask; LANES or more when there is none. */
INLINE int64_t mask_first(mask m)
{
    return __builtin_ctz((unsigned)m | 0x10000u);
}

/* x = result * 2^e with the result in [0.75, 1.5), for x > 0 that is not subnormal. */
INLINE vec vec_split(vec x, vec *e)
{
    const vec m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);

    /* getexp is of x itself: one less than e where m was halved into [0.75, 1). */
    *e = _mm512_sub_ps(_mm512_getexp_ps(x), _mm512_getexp_ps(m));
    return m;
}

/* Lanes that are not 0 or less; NaN is one of them. */
INLINE mask mask_above_0(vec x)
{
    return _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NLE_UQ);
}

/* A NaN on either side wins; the instruction alone would give y when x is one. */
INLINE vec vec_max(vec y, vec x)
{
    return _mm512_mask_mov_ps(_mm512_max_ps(x, y), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
}

INLINE float vec_across_max(vec x)
{
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);

    return nan ? NAN : _mm512_reduce_max_ps(x);
}

/* x * 2^n for whole n, down to 0. */
INLINE vec vec_scale(vec x, vec n)
{
    return _mm512_scalef_ps(x, n);
}

/* The smaller one, but NaN in x stays. */
#define vec_min_k(x, k) _mm512_min_ps(vec_set(k), x)
#define vec_max_k(x, k) _mm512_max_ps(vec_set(k), x)

/* ---- f32, bf16 and f16 in memory ---- */

INLINE vec vec_of_half(__m256i h, gr_dtype t)
{
    if (t == GR_F16)
        return _mm512_cvtph_ps(h);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

INLINE vec vec_widen(const void *p, gr_dtype t)
{
    if (t == GR_F32)
        return _mm512_loadu_ps(p);
    return vec_of_half(_mm256_loadu_si256(p), t);
}

INLINE vec vec_widen_masked(const void *p, gr_dtype t, mask m)
{
    if (t == GR_F32)
        return _mm512_maskz_loadu_ps(m, p);
    return vec_of_half(_mm256_maskz_loadu_epi16(m, p), t);
}

/* To nearest even by adding; NaN stays NaN because its quiet bit is set. */
INLINE __m256i bf16_of_vec(vec x)
{
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i u = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i y = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);

    y = _mm512_mask_or_epi32(y, nan, u, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(y, 16));
}

INLINE void vec_narrow(void *p, gr_dtype t, vec x)
{
    if (t == GR_F32)
        _mm512_storeu_ps(p, x);
    else if (t == GR_F16)
        _mm256_storeu_si256(p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    else
        _mm256_storeu_si256(p, bf16_of_vec(x));
}

INLINE void vec_narrow_masked(void *p, gr_dtype t, mask m, vec x)
{
    if (t == GR_F32)
        _mm512_mask_storeu_ps(p, m, x);
    else if (t == GR_F16)
        _mm256_mask_storeu_epi16(p, m, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    else
        _mm256_mask_storeu_epi16(p, m, bf16_of_vec(x));
}

#define MASK_ALL ((mask)0xffff)

#endif

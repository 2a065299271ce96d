/* What attention_soft_body.h needs beside op/vec_avx512_body.h. Only for AVX-512 and AMX. */
#include "op/vec_avx512_body.h"

INLINE vec poly_exp2(vec r);

#define vec_fms(a, b, c)    _mm512_fmsub_ps(a, b, c)
#define vec_greater(x, top) _mm512_max_ps(x, top) /* top where x is NaN: p will be NaN */
#define vec_any_below(a, b) (_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ) != 0)

/* 0 instead of -inf: a query that has seen no key. */
INLINE vec vec_finite(vec x)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, vec_set(-INFINITY), _CMP_NEQ_UQ), x);
}

INLINE vec exp2_of(vec x)
{
    const vec n = vec_round(x);
    const vec y = poly_exp2(vec_sub(x, n));

    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, vec_set(-126), _CMP_NLT_UQ), y, n);
}

typedef __m512i vint;

#define vint_set(x)    _mm512_set1_epi32((int)(x))
#define vint_xor(a, b) _mm512_xor_si512(a, b)
#define vint_low(x)    _mm512_and_si512(x, vint_set(0xffff))
#define vint_high(x)   _mm512_srli_epi32(x, 16)

/* base + (from + lane) * step */
INLINE vint vint_steps(uint32_t base, uint32_t from, uint32_t step)
{
    const vint lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const vint at = _mm512_add_epi32(vint_set(from), lane);

    return _mm512_add_epi32(vint_set(base), _mm512_mullo_epi32(at, vint_set(step)));
}

/* The 64 bits of each product, in halves. */
INLINE void vint_mul(vint x, uint32_t by, vint *hi, vint *lo)
{
    const vint even = _mm512_mul_epu32(x, vint_set(by));
    const vint odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), vint_set(by));

    *lo = _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
    *hi = _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd);
}

/* kept, or 0 where u is below the threshold. */
INLINE vec vint_keep(vint u, uint32_t threshold, vec kept)
{
    return _mm512_maskz_mov_ps(_mm512_cmpge_epu32_mask(u, vint_set(threshold)), kept);
}

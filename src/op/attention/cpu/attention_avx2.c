/* Attention by AVX2: rows of 32 queries are four vectors. */
#include "op/attention/cpu/attention_flash.h"
#include "op/vec_avx2_body.h"

INLINE vec poly_exp2(vec r);

#define vec_fms(a, b, c)    _mm256_fmsub_ps(a, b, c)
#define vec_greater(x, top) _mm256_max_ps(x, top) /* top where x is NaN: p will be NaN */
#define vec_any_below(a, b) (_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ)) != 0)

/* 0 instead of -inf: a query that has seen no key. */
INLINE vec vec_finite(vec x)
{
    return _mm256_and_ps(x, _mm256_cmp_ps(x, vec_set(-INFINITY), _CMP_NEQ_UQ));
}

/* Bounded before n becomes an integer; the mask is of x itself. */
INLINE vec exp2_of(vec x)
{
    const vec bounded = vec_min_k(vec_max_k(x, -127.0f), 128.0f);
    const vec n = vec_round(bounded);
    const vec y = vec_scale(poly_exp2(vec_sub(bounded, n)), n);

    return _mm256_and_ps(y, _mm256_cmp_ps(x, vec_set(-126), _CMP_NLT_UQ));
}

typedef __m256i vint;

#define vint_set(x)    _mm256_set1_epi32((int)(x))
#define vint_xor(a, b) _mm256_xor_si256(a, b)
#define vint_low(x)    _mm256_and_si256(x, vint_set(0xffff))
#define vint_high(x)   _mm256_srli_epi32(x, 16)

/* base + (from + lane) * step */
INLINE vint vint_steps(uint32_t base, uint32_t from, uint32_t step)
{
    const vint lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const vint at = _mm256_add_epi32(vint_set(from), lane);

    return _mm256_add_epi32(vint_set(base), _mm256_mullo_epi32(at, vint_set(step)));
}

/* The 64 bits of each product, in halves. */
INLINE void vint_mul(vint x, uint32_t by, vint *hi, vint *lo)
{
    const vint even = _mm256_mul_epu32(x, vint_set(by));
    const vint odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), vint_set(by));

    *lo = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
    *hi = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

/* kept, or 0 where u is below the threshold; both are below 65536. */
INLINE vec vint_keep(vint u, uint32_t threshold, vec kept)
{
    const vint below = _mm256_cmpgt_epi32(vint_set(threshold), u);

    return _mm256_andnot_ps(_mm256_castsi256_ps(below), kept);
}

#include "op/attention/cpu/attention_soft_body.h"

#include "op/attention/cpu/attention_rows_body.h"

static const gr_flash_soft soft = {
    .forward = rows_forward,
    .backward = rows_backward,
    .finish = soft_finish,
    .dots = soft_dots,
    .drop = soft_drop,
};

const gr_flash_engine gr_flash_avx2 = {
    .soft = &soft,
    .soft_bf16 = &soft,
    .tile = &gr_matmul_tile_avx2,
    .pad = 1,
    .begin = gr_flash_nothing,
    .end = gr_flash_nothing,
    .left_rows = gr_flash_left_rows,
    .left_cols = gr_flash_left_cols,
    .right_rows = gr_flash_right_rows,
    .right_cols = gr_flash_right_cols,
    .product = gr_flash_multiply,
};

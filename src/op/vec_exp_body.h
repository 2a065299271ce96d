/*
 * exp by vectors; the including file brings op/vec_*_body.h.
 *
 * exp(x) = 2^n * e^r with n = round(x / ln 2), |r| <= ln 2 / 2: ln 2 in two parts, so that
 * r is exact enough, and the series of e^r up to r^7 / 7!, whose rest is below 2^-26.
 */
#ifndef GR_OP_VEC_EXP_BODY_H
#define GR_OP_VEC_EXP_BODY_H

#define LOG2_E   1.44269504088896341f
#define LN2_HIGH 0.693359375f /* few bits: n times it is exact */
#define LN2_LOW  -2.12194440e-4f

INLINE vec vec_exp(vec x)
{
    const vec bounded = vec_min_k(vec_max_k(x, -104.0f), 89.0f); /* 0 and infinity outside */
    const vec n = vec_round(vec_mul(bounded, vec_set(LOG2_E)));
    const vec r = vec_fma(n, vec_set(-LN2_LOW), vec_fma(n, vec_set(-LN2_HIGH), bounded));
    vec y = vec_set(1.0f / 5040);

    y = vec_fma(y, r, vec_set(1.0f / 720));
    y = vec_fma(y, r, vec_set(1.0f / 120));
    y = vec_fma(y, r, vec_set(1.0f / 24));
    y = vec_fma(y, r, vec_set(1.0f / 6));
    y = vec_fma(y, r, vec_set(0.5f));
    y = vec_fma(y, r, vec_set(1));
    y = vec_fma(y, r, vec_set(1));
    return vec_scale(y, n);
}

#endif

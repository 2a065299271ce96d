/*
 * exp and log by vectors; the including file brings op/vec_*_body.h.
 *
 * exp(x) = 2^n * e^r with n = round(x / ln 2), |r| <= ln 2 / 2: ln 2 in two parts, so that
 * r is exact enough, and the series of e^r up to r^7 / 7!, whose rest is below 2^-26.
 */
#ifndef GR_OP_VEC_EXP_BODY_H
#define GR_OP_VEC_EXP_BODY_H

#define LOG2_E   1.44269504088896341f
#define LN2_HIGH 0.693359375f /* few bits: n times it is exact */
#define LN2_LOW  -2.12194440e-4f

/* For x in [-104, 89], or NaN. */
INLINE vec vec_exp_inside(vec bounded)
{
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

INLINE vec vec_exp(vec x)
{
    return vec_exp_inside(vec_min_k(vec_max_k(x, -104.0f), 89.0f)); /* 0 and infinity outside */
}

/* For x <= 0, or NaN. */
INLINE vec vec_exp_below(vec x)
{
    return vec_exp_inside(vec_max_k(x, -104.0f));
}

/*
 * log(x) = e ln 2 + log(1 + r) for x = (1 + r) 2^e, r in [-0.25, 0.5), with
 * log(1 + r) = r - r^2 / 2 + r^3 P(r); P was fitted at Chebyshev nodes in double. At most 2 ulp
 * off. x must be 0, NaN, infinite, or positive and normal.
 */
INLINE vec vec_log(vec x)
{
    vec e, y, r = vec_sub(vec_split(x, &e), vec_set(1)), z = vec_mul(r, r);

    y = vec_set(0.0439698584f);
    y = vec_fma(y, r, vec_set(-0.0967441127f));
    y = vec_fma(y, r, vec_set(0.117008075f));
    y = vec_fma(y, r, vec_set(-0.126285076f));
    y = vec_fma(y, r, vec_set(0.142653823f));
    y = vec_fma(y, r, vec_set(-0.166611075f));
    y = vec_fma(y, r, vec_set(0.200002253f));
    y = vec_fma(y, r, vec_set(-0.250000536f));
    y = vec_fma(y, r, vec_set(0.333333313f));
    y = vec_mul(vec_mul(y, r), z);
    y = vec_fma(e, vec_set(LN2_LOW), y);
    y = vec_fma(z, vec_set(-0.5f), y);
    y = vec_fma(e, vec_set(LN2_HIGH), vec_add(r, y));
    y = vec_keep(mask_equal(x, vec_set(0)), vec_set(-INFINITY), y);
    y = vec_keep(mask_equal(x, vec_set(INFINITY)), x, y);
    return vec_keep(mask_equal(x, x), y, x);
}

#endif

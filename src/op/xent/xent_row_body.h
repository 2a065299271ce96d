/*
 * One row of softmax cross-entropy by vectors; the including file brings op/vec_*_body.h.
 */

#include "op/vec_exp_body.h"

INLINE const char *logit(const gr_xent_row *w, int64_t c, const gr_dtype t)
{
    return (const char *)w->x + c * (t == GR_F32 ? 4 : 2);
}

/* The greatest element and, where a dot product is asked for, the sum of w[c] x[c] in the same
 * pass; w NULL: 1. */
INLINE float row_max(const gr_xent_row *r, const gr_dtype t, const float *w, float *dot)
{
    vec top = vec_set(-INFINITY), sum = vec_set(0);
    int64_t c = 0;

    for (; c + LANES <= r->n; c += LANES) {
        const vec x = vec_widen(logit(r, c, t), t);

        top = vec_max(top, x);
        if (dot)
            sum = vec_fma(x, w ? vec_load(w + c) : vec_set(1), sum);
    }
    if (c < r->n) {
        const mask m = mask_of(r->n - c);
        const vec x = vec_widen_masked(logit(r, c, t), t, m);

        top = vec_max(top, vec_keep(m, x, vec_set(-INFINITY)));
        if (dot)
            sum = vec_fma(x, w ? vec_load_masked(w + c, m) : vec_set(1), sum);
    }
    if (dot)
        *dot = vec_across_add(sum);
    return vec_across_max(top);
}

INLINE float lse_as(const gr_xent_row *w, const gr_dtype t, const float *weight, float *dot)
{
    const float top = dot ? row_max(w, t, weight, dot) : row_max(w, t, NULL, NULL);
    vec sum = vec_set(0);
    int64_t c = 0;

    for (; c + LANES <= w->n; c += LANES)
        sum = vec_add(sum, vec_exp(vec_sub(vec_widen(logit(w, c, t), t), vec_set(top))));
    if (c < w->n) {
        const mask m = mask_of(w->n - c);
        const vec x = vec_widen_masked(logit(w, c, t), t, m);

        sum = vec_add(sum, vec_keep(m, vec_exp(vec_sub(x, vec_set(top))), vec_set(0)));
    }
    return top + logf(vec_across_add(sum));
}

INLINE vec grad_of(vec x, vec w, const gr_xent_row_grad *d, int64_t c)
{
    const vec p = vec_exp(vec_sub(x, vec_set(d->lse)));
    const vec hit = vec_keep(mask_lane(d->label - c), vec_set(d->hit), vec_set(0));
    const vec y = vec_sub(vec_mul(p, vec_set(d->whole)), hit);

    return vec_fma(w, vec_set(-d->each), y);
}

INLINE void grad_as(const gr_xent_row *w, const gr_xent_row_grad *d, const gr_dtype t)
{
    const int64_t bytes = d->type == GR_F32 ? 4 : 2;
    char *dx = d->dx;
    int64_t c = 0;

    for (; c + LANES <= w->n; c += LANES)
        vec_narrow_masked(
            dx + c * bytes, d->type, MASK_ALL,
            grad_of(vec_widen(logit(w, c, t), t), d->w ? vec_load(d->w + c) : vec_set(1), d, c));
    if (c < w->n) {
        const mask m = mask_of(w->n - c);

        vec_narrow_masked(dx + c * bytes, d->type, m,
                          grad_of(vec_widen_masked(logit(w, c, t), t, m),
                                  d->w ? vec_load_masked(d->w + c, m) : vec_set(1), d, c));
    }
}

static float row_lse(const gr_xent_row *r, const float *w, float *dot)
{
    if (r->type == GR_F32)
        return lse_as(r, GR_F32, w, dot);
    return r->type == GR_BF16 ? lse_as(r, GR_BF16, w, dot) : lse_as(r, GR_F16, w, dot);
}

static void row_grad(const gr_xent_row *w, const gr_xent_row_grad *d)
{
    if (w->type == GR_F32)
        grad_as(w, d, GR_F32);
    else if (w->type == GR_BF16)
        grad_as(w, d, GR_BF16);
    else
        grad_as(w, d, GR_F16);
}

/*
 * One row of softmax cross-entropy by vectors; the including file brings op/vec_*_body.h.
 */

#include "op/vec_exp_body.h"

INLINE const char *logit(const gr_xent_row *w, int64_t c, const gr_dtype t)
{
    return (const char *)w->x + c * (t == GR_F32 ? 4 : 2);
}

INLINE float row_max(const gr_xent_row *w, const gr_dtype t)
{
    vec y = vec_set(-INFINITY);
    int64_t c = 0;

    for (; c + LANES <= w->n; c += LANES)
        y = vec_max(y, vec_widen(logit(w, c, t), t));
    if (c < w->n) {
        const mask m = mask_of(w->n - c);

        y = vec_max(y, vec_keep(m, vec_widen_masked(logit(w, c, t), t, m), vec_set(-INFINITY)));
    }
    return vec_across_max(y);
}

INLINE float lse_as(const gr_xent_row *w, const gr_dtype t)
{
    const float top = row_max(w, t);
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

INLINE float dot_as(const gr_xent_row *r, const float *w, const gr_dtype t)
{
    vec sum = vec_set(0);
    int64_t c = 0;

    for (; c + LANES <= r->n; c += LANES)
        sum = vec_fma(vec_widen(logit(r, c, t), t), w ? vec_load(w + c) : vec_set(1), sum);
    if (c < r->n) {
        const mask m = mask_of(r->n - c);

        sum = vec_fma(vec_widen_masked(logit(r, c, t), t, m),
                      w ? vec_load_masked(w + c, m) : vec_set(1), sum);
    }
    return vec_across_add(sum);
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

static float row_dot(const gr_xent_row *r, const float *w)
{
    if (r->type == GR_F32)
        return dot_as(r, w, GR_F32);
    return r->type == GR_BF16 ? dot_as(r, w, GR_BF16) : dot_as(r, w, GR_F16);
}

static float row_lse(const gr_xent_row *w)
{
    if (w->type == GR_F32)
        return lse_as(w, GR_F32);
    return w->type == GR_BF16 ? lse_as(w, GR_BF16) : lse_as(w, GR_F16);
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

/*
 * Scores to probabilities and back, by vectors over queries; the including file brings
 * op/vec_*_body.h, exp2_of() and how a row of results is stored.
 *
 * Scores are powers of two: 2^x = 2^n 2^r with n = round(x), |r| <= 1/2, and a polynomial for
 * 2^r whose relative error is below 2^-28. Results below 2^-126 become 0: beside a sum of at
 * least 1 they are nothing, and subnormal numbers are slow.
 */
#include "op/unroll_body.h"

#define N_VEC ((int)(GR_FLASH_COLS / LANES)) /* of a row */

INLINE vec poly_exp2(vec r)
{
    vec y = vec_set(1.5345812e-4f);

    y = vec_fma(y, r, vec_set(1.3399931e-3f));
    y = vec_fma(y, r, vec_set(9.6184890e-3f));
    y = vec_fma(y, r, vec_set(5.5503288e-2f));
    y = vec_fma(y, r, vec_set(2.4022647e-1f));
    y = vec_fma(y, r, vec_set(6.9314721e-1f));
    return vec_fma(y, r, vec_set(1));
}

/* x, but `hidden` where the key lies ahead of the query: lanes below n. */
INLINE vec hide_ahead(vec x, int64_t n)
{
    if (n <= 0)
        return x;
    return n >= LANES ? vec_set(-INFINITY) : vec_keep(mask_of(n), vec_set(-INFINITY), x);
}

/* Vector g of row r. plain: nothing but scale. */
INLINE vec score_of(const gr_flash_scores *w, int64_t r, int g, vec c, const bool plain)
{
    const int64_t at = r * GR_FLASH_COLS + g * LANES;
    vec x = vec_mul(vec_load(w->s + at), c);

    if (plain)
        return x;
    if (w->bias)
        x = vec_fma(vec_load(w->bias + at), vec_set(1.44269504088896341f), x);
    if (w->mask && !w->mask[r])
        x = vec_set(-INFINITY);
    return w->causal ? hide_ahead(x, w->ahead + r - g * LANES) : x;
}

/* Greatest scores so far into top; where they rise, sum and acc shrink. Scores that are not
 * plain are stored, and rows up to n_pad get -inf. */
INLINE void forward_top(const gr_flash_forward *w, const bool plain)
{
    const vec c = vec_set(w->in.c);
    vec top[N_VEC], shrink[N_VEC];
    bool rises = false;

    GR_UNROLL
    for (int g = 0; g < N_VEC; g++)
        top[g] = vec_load(w->top + g * LANES);
    for (int64_t r = 0; r < w->in.n_keys; r++) {
        GR_UNROLL
        for (int g = 0; g < N_VEC; g++) {
            const vec x = score_of(&w->in, r, g, c, plain);

            if (!plain)
                vec_store(w->in.s + r * GR_FLASH_COLS + g * LANES, x);
            top[g] = vec_greater(x, top[g]);
        }
    }
    for (int64_t i = w->in.n_keys * GR_FLASH_COLS; i < w->in.n_pad * GR_FLASH_COLS; i += LANES)
        vec_store(w->in.s + i, vec_set(-INFINITY));
    GR_UNROLL
    for (int g = 0; g < N_VEC; g++) {
        const vec old = vec_load(w->top + g * LANES);

        rises = rises || vec_any_below(old, top[g]);
        shrink[g] = exp2_of(vec_sub(old, vec_finite(top[g])));
        vec_store(w->top + g * LANES, top[g]);
        vec_store(w->sum + g * LANES, vec_mul(vec_load(w->sum + g * LANES), shrink[g]));
    }
    for (int64_t i = 0; rises && i < w->n_acc; i++) {
        float *row = w->acc + i * GR_FLASH_COLS;

        GR_UNROLL
        for (int g = 0; g < N_VEC; g++)
            vec_store(row + g * LANES, vec_mul(vec_load(row + g * LANES), shrink[g]));
    }
}

/* Vector g of row r of p before dropout, from a score whose greatest is top. */
INLINE vec forward_p(const gr_flash_forward *w, int64_t r, int g, vec c, vec top, const bool plain)
{
    const vec s = vec_load(w->in.s + r * GR_FLASH_COLS + g * LANES);

    return exp2_of(plain ? vec_fms(s, c, top) : vec_sub(s, top));
}

INLINE vec dropped(const gr_flash_scores *w, int64_t r, int g, vec p)
{
    return w->keep ? vec_mul(p, vec_load(w->keep + r * GR_FLASH_COLS + g * LANES)) : p;
}

INLINE bool is_plain(const gr_flash_scores *w)
{
    return !w->bias && !w->mask && !w->causal && w->n_keys == w->n_pad;
}

/* p and ds of vector g of row r; dropout is in both. */
typedef struct pair {
    vec p, ds;
} pair;

INLINE pair backward_of(const gr_flash_backward *w, int64_t r, int g, const bool plain)
{
    const int64_t at = r * GR_FLASH_COLS + g * LANES;
    const vec c = vec_set(w->in.c), lse = vec_load(w->lse + g * LANES);
    const vec s = plain ? vec_load(w->in.s + at) : score_of(&w->in, r, g, c, false);
    const vec p = exp2_of(plain ? vec_fms(s, c, lse) : vec_sub(s, lse));
    vec dp = vec_mul(vec_load(w->dp + at), vec_set(w->dp_scale));
    pair y = { .p = p };

    if (w->in.keep) {
        const vec keep = vec_load(w->in.keep + at);

        dp = vec_mul(dp, keep);
        y.p = vec_mul(p, keep);
    }
    y.ds = vec_mul(p, vec_sub(dp, vec_load(w->delta + g * LANES)));
    return y;
}

static bool soft_finish(float *acc, int64_t n, const float *factor)
{
    vec watch[N_VEC];
    float sum = 0;

    GR_UNROLL
    for (int g = 0; g < N_VEC; g++)
        watch[g] = vec_set(0);
    for (int64_t r = 0; r < n; r++) {
        GR_UNROLL
        for (int g = 0; g < N_VEC; g++) {
            float *at = acc + r * GR_FLASH_COLS + g * LANES;
            const vec x = vec_mul(vec_load(at), vec_load(factor + g * LANES));

            watch[g] = vec_fma(x, vec_set(0), watch[g]);
            vec_store(at, x);
        }
    }
    GR_UNROLL
    for (int g = 0; g < N_VEC; g++)
        sum += vec_across_add(watch[g]);
    return sum == 0; /* 0 of finite numbers, NaN of others */
}

INLINE float dot_as(const char *a, const char *b, int64_t d, const gr_dtype t)
{
    const int64_t bytes = t == GR_F32 ? 4 : 2;
    vec sum = vec_set(0);
    int64_t c = 0;

    for (; c + LANES <= d; c += LANES)
        sum = vec_fma(vec_widen(a + c * bytes, t), vec_widen(b + c * bytes, t), sum);
    if (c < d)
        sum = vec_fma(vec_widen_masked(a + c * bytes, t, mask_of(d - c)),
                      vec_widen_masked(b + c * bytes, t, mask_of(d - c)), sum);
    return vec_across_add(sum);
}

static void soft_dots(float *out, const gr_flash_rows *a, const gr_flash_rows *b, int64_t d)
{
    const size_t bytes = gr_dtype_bytes(a->type);
    const char *x = a->src, *y = b->src;

    for (int64_t i = 0; i < a->n; i++) {
        if (a->type == GR_F32)
            out[i] = dot_as(x, y, d, GR_F32);
        else
            out[i] = a->type == GR_BF16 ? dot_as(x, y, d, GR_BF16) : dot_as(x, y, d, GR_F16);
        x += (size_t)a->step * bytes;
        y += (size_t)b->step * bytes;
    }
}

/* ---- dropout: Philox 4x32-10 on LANES queries at a time (attention_drop.h) ---- */

INLINE void philox_rounds(vint x[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
        vint hi0, lo0, hi1, lo1;

        vint_mul(x[0], 0xd2511f53u, &hi0, &lo0);
        vint_mul(x[2], 0xcd9e8d57u, &hi1, &lo1);
        x[0] = vint_xor(vint_xor(hi1, x[1]), vint_set(k0));
        x[1] = lo1;
        x[2] = vint_xor(vint_xor(hi0, x[3]), vint_set(k1));
        x[3] = lo0;
    }
}

static void soft_drop(float *keep, const gr_attention_drop *d, const gr_attention_stream *st,
                      int64_t from, int64_t q, int64_t n)
{
    const vec kept = vec_set((float)d->keep);

    for (int64_t r = 0; r < n; r += 8)
        for (int g = 0; g < N_VEC; g++) {
            float *to = keep + r * GR_FLASH_COLS + g * LANES;
            vint x[4] = { vint_steps(st->first + (uint32_t)((from + r) / 8),
                                     (uint32_t)(q + g * LANES), st->per_query),
                          vint_set(st->rest[0]), vint_set(st->rest[1]), vint_set(st->rest[2]) };

            philox_rounds(x, st->key[0], st->key[1]);
            for (int64_t i = 0; i < 4 && r + 2 * i < n; i++, to += 2 * GR_FLASH_COLS) {
                vec_store(to, vint_keep(vint_low(x[i]), d->threshold, kept));
                if (r + 2 * i + 1 < n)
                    vec_store(to + GR_FLASH_COLS, vint_keep(vint_high(x[i]), d->threshold, kept));
            }
        }
}

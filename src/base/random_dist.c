/*
 * More of PyTorch's CPU streams: f64, integers, choices, cut normals. The rules, as measured
 * against it (tests/base/test_random_dist.c):
 * (1) f64 takes a 64-bit draw per element and uses its low 53 bits, scaled by one fused
 *     multiply-add; normals of 16 elements or
 *     more work on blocks of 16 as those of f32 do, fewer as pairs that wait in the generator;
 * (2) randint is a draw modulo the range, of 32 bits below 2^28, else of 64;
 * (3) bernoulli compares a uniform f64 with p, multinomial looks one up in the running sum.
 */
#include "base/random_impl.h"

#include "base/alloc.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define BLOCK 16
#define PI    3.14159265358979323846

void gr_mt_uniform_f64(gr_mt19937 *r, double *dst, size_t n, double from, double to)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = fma(gr_mt_double(r), to - from, from);
}

static void normal_block(double *d, double mean, double std)
{
    for (int j = 0; j < BLOCK / 2; j++) {
        double radius = sqrt(-2 * log(1 - d[j]));
        double angle = 2 * PI * d[j + BLOCK / 2];

        d[j] = radius * cos(angle) * std + mean;
        d[j + BLOCK / 2] = radius * sin(angle) * std + mean;
    }
}

void gr_mt_normal_f64(gr_mt19937 *r, double *dst, size_t n, double mean, double std)
{
    if (n < BLOCK) {
        for (size_t i = 0; i < n; i++)
            dst[i] = gr_mt_normal_1(r) * std + mean;
        return;
    }
    gr_mt_uniform_f64(r, dst, n, 0, 1);
    for (size_t i = 0; i + BLOCK <= n; i += BLOCK)
        normal_block(dst + i, mean, std);
    if (n % BLOCK != 0) {
        gr_mt_uniform_f64(r, dst + n - BLOCK, BLOCK, 0, 1);
        normal_block(dst + n - BLOCK, mean, std);
    }
}

void gr_mt_randint(gr_mt19937 *r, int64_t *dst, size_t n, int64_t from, int64_t to)
{
    uint64_t range = (uint64_t)to - (uint64_t)from;
    bool wide = range >= (uint64_t)1 << 28;

    GR_BUG_IF(from >= to);
    for (size_t i = 0; i < n; i++) {
        uint64_t x = wide ? gr_mt_u64(r) : gr_mt_u32(r);

        dst[i] = (int64_t)((uint64_t)from + x % range);
    }
}

void gr_mt_bernoulli(gr_mt19937 *r, uint8_t *dst, size_t n, double p)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = gr_mt_double(r) < p;
}

/* ---- choices ---- */

/* The first place whose running sum is at least u. */
static size_t place_of(const double *sum, size_t n, double u)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;

        if (sum[middle] < u)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < n ? lo : n - 1;
}

static gr_status run_up(double *sum, const double *weight, size_t n)
{
    double total = 0;

    for (size_t i = 0; i < n; i++) {
        if (!(weight[i] >= 0) || !isfinite(weight[i]))
            return gr_fail(GR_ERR_ARG, "weight %zu is %g, must be a number from 0 up", i,
                           weight[i]);
        total += weight[i];
        sum[i] = total;
    }
    if (!(total > 0) || !isfinite(total))
        return gr_fail(GR_ERR_ARG, "the %zu weights add up to %g", n, total);
    for (size_t i = 0; i < n; i++)
        sum[i] /= total;
    return GR_OK;
}

gr_status gr_mt_multinomial(gr_mt19937 *r, int64_t *dst, size_t n, const double *weight,
                            size_t n_weights)
{
    double *sum = gr_calloc(n_weights + 1, sizeof(*sum));
    gr_status st;

    if (!sum)
        return GR_ERR_NOMEM;
    st = run_up(sum, weight, n_weights);
    for (size_t i = 0; st == GR_OK && i < n; i++)
        dst[i] = (int64_t)place_of(sum, n_weights, gr_mt_double(r));
    gr_free(sum);
    return st;
}

/* ---- normal numbers cut at both ends ---- */

static double share_below(double x)
{
    return (1 + erf(x / sqrt(2.0))) / 2;
}

/* Normal numbers; while some are outside, as many again, of which those take their places. */
static gr_status draw_again(gr_mt19937 *r, float *dst, size_t n, const gr_mt_cut *c)
{
    const float lo = (float)c->lo, hi = (float)c->hi;
    float *again = NULL;

    gr_mt_normal_f32(r, dst, n, (float)c->mean, (float)c->std);
    for (;;) {
        bool some = false;

        for (size_t i = 0; i < n && !some; i++)
            some = dst[i] < lo || dst[i] > hi;
        if (!some)
            break;
        if (!again)
            again = gr_calloc(n, sizeof(*again));
        if (!again)
            return GR_ERR_NOMEM;
        gr_mt_normal_f32(r, again, n, (float)c->mean, (float)c->std);
        for (size_t i = 0; i < n; i++)
            dst[i] = dst[i] < lo || dst[i] > hi ? again[i] : dst[i];
    }
    gr_free(again);
    return GR_OK;
}

/* A candidate x stays with the probability that the bell has there, its peak within the ends
 * being 1. Every element draws at every turn, as PyTorch's tensors do. */
static gr_status draw_by_chance(gr_mt19937 *r, float *dst, size_t n, const gr_mt_cut *c)
{
    double mode = fmax(c->lo, fmin(c->mean, c->hi));
    float peak = (float)(-0.5 * ((mode - c->mean) / c->std) * ((mode - c->mean) / c->std));
    float *x = gr_calloc(2 * n + 1, sizeof(*x)), *chance = x ? x + n : NULL;
    uint8_t *open = gr_calloc(n + 1, 1);
    size_t n_open = n;
    gr_status st = x && open ? GR_OK : GR_ERR_NOMEM;

    for (size_t i = 0; st == GR_OK && i < n; i++)
        open[i] = 1;
    while (st == GR_OK && n_open > 0) {
        n_open = 0;
        gr_mt_uniform_f32(r, x, n, (float)c->lo, (float)c->hi);
        gr_mt_uniform_f32(r, chance, n, 0, 1);
        for (size_t i = 0; i < n; i++) {
            float z = (x[i] - (float)c->mean) / (float)c->std;

            if (!open[i])
                continue;
            dst[i] = x[i];
            open[i] = logf(chance[i]) > z * z * -0.5f - peak;
            n_open += open[i];
        }
    }
    gr_free(x);
    gr_free(open);
    return st;
}

gr_status gr_mt_trunc_normal_f32(gr_mt19937 *r, float *dst, size_t n, const gr_mt_cut *c)
{
    double inside;

    if (!(c->std > 0) || !(c->lo < c->hi) || !isfinite(c->mean))
        return gr_fail(GR_ERR_ARG, "normal of mean %g and deviation %g between %g and %g", c->mean,
                       c->std, c->lo, c->hi);
    inside = share_below((c->hi - c->mean) / c->std) - share_below((c->lo - c->mean) / c->std);
    if (inside > 0.3)
        return draw_again(r, dst, n, c);
    if (!isfinite(c->lo) || !isfinite(c->hi))
        return gr_fail(GR_ERR_ARG, "nearly nothing of the normal numbers lies between %g and %g",
                       c->lo, c->hi);
    return draw_by_chance(r, dst, n, c);
}

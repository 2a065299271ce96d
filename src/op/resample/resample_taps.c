/*
 * The taps of averages and of resizing along one axis. The formulas are PyTorch's:
 * both kinds of `nearest` multiply in f32 as it does on images whose channels are last, so
 * that the same pixels are picked; positions of the others are computed in f64, which is nearer to
 * the formula than its f32.
 */
#include "op/resample/resample.h"

#include "base/alloc.h"

#include <math.h>

static void put(gr_taps *t, int64_t at, double w)
{
    t->tap[t->first[t->n]++] = (gr_tap){ .at = at, .w = (float)w, .wide = w };
}

/* ---- averages ---- */

static gr_status average_taps(gr_taps **out, const gr_pool_attr *at, int axis)
{
    const gr_window *w = &at->window;
    int64_t end = at->in[axis] + w->padding[axis];
    gr_taps *t;

    GR_TRY(gr_pool_taps(&t, at, axis));
    for (int64_t o = 0; o < t->n; o++) {
        int64_t from = o * w->stride[axis] - w->padding[axis], to = from + w->kernel[axis];
        int64_t n_taps = t->first[o + 1] - t->first[o];
        int64_t size = w->without_padding ? n_taps : (to < end ? to : end) - from;

        for (int64_t k = t->first[o]; k < t->first[o + 1]; k++) {
            t->tap[k].wide = 1.0 / (double)size;
            t->tap[k].w = (float)t->tap[k].wide;
        }
    }
    *out = t;
    return GR_OK;
}

static gr_status adaptive_taps(gr_taps **out, int64_t in, int64_t n)
{
    gr_taps *t;
    int64_t k = 0;

    GR_TRY(gr_taps_create(&t, n, in + 2 * n));
    for (int64_t o = 0; o < n; o++) {
        int64_t from = o * in / n, to = ((o + 1) * in + n - 1) / n;

        for (int64_t i = from; i < to; i++) {
            double w = 1.0 / (double)(to - from);

            t->tap[k++] = (gr_tap){ .at = i, .w = (float)w, .wide = w };
        }
        t->first[o + 1] = k;
    }
    *out = t;
    return GR_OK;
}

/* ---- resizing ---- */

static int64_t clamp(int64_t i, int64_t in)
{
    return i < 0 ? 0 : i > in - 1 ? in - 1 : i;
}

static int64_t nearest(int64_t o, int64_t in, int64_t n, bool is_exact)
{
    const float scale = (float)in / (float)n;

    if (is_exact)
        return clamp((int64_t)floorf(((float)o + 0.5f) * scale), in);
    if (n == in)
        return o;
    if (n == 2 * in)
        return o / 2;
    return clamp((int64_t)floorf((float)o * scale), in);
}

/* Where place o of the result lies in the source. */
static double position(int64_t o, int64_t in, int64_t n, bool by_corners)
{
    if (by_corners)
        return n > 1 ? (double)o * (double)(in - 1) / (double)(n - 1) : 0;
    return ((double)o + 0.5) * (double)in / (double)n - 0.5;
}

static void put_linear(gr_taps *t, double x, int64_t in)
{
    int64_t i;
    double frac;

    x = x < 0 ? 0 : x;
    i = clamp((int64_t)x, in);
    frac = x - (double)i;
    if (i == in - 1) { /* the neighbour would be the same pixel */
        put(t, i, 1);
        return;
    }
    put(t, i, 1 - frac);
    if (frac > 0)
        put(t, i + 1, frac);
}

/* Keys' kernel at distance d, a = -0.75. */
static double cubic(double d)
{
    const double a = -0.75;

    d = fabs(d);
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

static void put_cubic(gr_taps *t, double x, int64_t in)
{
    double whole = floor(x), frac = x - whole;

    for (int k = -1; k <= 2; k++)
        put(t, clamp((int64_t)whole + k, in), cubic(frac - k));
}

static gr_status resize_taps(gr_taps **out, gr_resize_mode mode, int64_t in, int64_t n)
{
    bool by_corners = mode == GR_BILINEAR_CORNERS || mode == GR_BICUBIC_CORNERS;
    gr_taps *t;

    GR_TRY(gr_taps_create(&t, n, 4 * n));
    t->n = 0;
    for (int64_t o = 0; o < n; o++) { /* t->n is the place being filled */
        t->first[++t->n] = t->first[o];
        if (mode == GR_NEAREST || mode == GR_NEAREST_EXACT)
            put(t, nearest(o, in, n, mode == GR_NEAREST_EXACT), 1);
        else if (mode == GR_BILINEAR || mode == GR_BILINEAR_CORNERS)
            put_linear(t, position(o, in, n, by_corners), in);
        else
            put_cubic(t, position(o, in, n, by_corners), in);
    }
    *out = t;
    return GR_OK;
}

gr_status gr_resample_taps(gr_taps **out, const gr_resample_attr *at, int axis)
{
    int64_t in = at->size.in[axis], n = at->size.out[axis];
    gr_taps *t, *inv;
    gr_status st;

    if (at->kind == GR_RESAMPLE_AVERAGE)
        st = average_taps(&t, &at->size, axis);
    else if (at->kind == GR_RESAMPLE_ADAPTIVE)
        st = adaptive_taps(&t, in, n);
    else
        st = resize_taps(&t, at->mode, in, n);
    if (st != GR_OK || !at->is_inverse) {
        if (st == GR_OK)
            *out = t;
        return st;
    }
    st = gr_taps_invert(&inv, t, in);
    gr_free(t);
    if (st == GR_OK)
        *out = inv;
    return st;
}

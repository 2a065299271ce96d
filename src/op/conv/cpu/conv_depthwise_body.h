/*
 * Depthwise convolution, one channel in and one out per group: channels are lanes.
 * conv_depthwise_avx512.c and conv_depthwise_avx2.c include it after their vectors and
 * define NAME(x).
 *
 * The weight is turned to [tap][channel] first, as f32. conv and conv_data take a row of
 * pixels and a few vectors of channels at a time; taps outside the image are skipped.
 * conv_weight gives a vector of channels with all its taps to one thread, and sums each
 * row before it is added to the rows before, so errors stay small and bits do not depend
 * on the thread count.
 */
#include "op/conv/cpu/conv_depthwise.h"

#include <string.h>

typedef struct depthwise {
    const gr_launch *l;
    gr_conv_dims d;
    gr_dtype type[3]; /* of the sources and the result */
    int64_t n_taps;
    float *w; /* [tap][channel] */
} depthwise;

INLINE vec load_n(const void *mem, gr_dtype t, int64_t at, int64_t n)
{
    const char *p = (const char *)mem + (size_t)at * gr_dtype_bytes(t);

    return n >= LANES ? vec_widen(p, t) : vec_widen_masked(p, t, mask_of(n));
}

INLINE void store_n(void *mem, gr_dtype t, int64_t at, int64_t n, vec x)
{
    char *p = (char *)mem + (size_t)at * gr_dtype_bytes(t);

    vec_narrow_masked(p, t, n >= LANES ? MASK_ALL : mask_of(n), x);
}

static depthwise open_depthwise(const gr_launch *l)
{
    depthwise v = { .l = l, .w = l->work };

    gr_conv_get_dims(l->node, &v.d);
    v.type[0] = l->node->src[0]->dtype;
    v.type[1] = l->node->src[1]->dtype;
    v.type[2] = l->node->out[0].dtype;
    v.n_taps = v.d.k[0] * v.d.k[1];
    return v;
}

static void turn_weight(const depthwise *v)
{
    for (int64_t c = 0; c < v->d.ci; c++)
        for (int64_t t = 0; t < v->n_taps; t++)
            v->w[t * v->d.ci + c] =
                (float)gr_element_f64(v->l->src[1], v->type[1], c * v->n_taps + t);
}

/* Which source pixel of an axis result pixel `at` meets at tap k; -1: none. */
INLINE int64_t meets(const gr_conv_dims *d, int axis, int64_t at, int64_t k, bool is_data)
{
    int64_t i;

    if (!is_data) {
        i = at * d->stride[axis] + k * d->dilation[axis] - d->pad[axis];
        return i < d->in[axis] ? i : -1;
    }
    i = at + d->pad[axis] - k * d->dilation[axis];
    if (i < 0 || i % d->stride[axis] != 0)
        return -1;
    return i / d->stride[axis] < d->out[axis] ? i / d->stride[axis] : -1;
}

#define VECTORS 4 /* of channels at a time */

/* One result pixel, channels [c, c + n), n <= VECTORS * LANES. */
INLINE void sweep_pixel(const depthwise *v, int64_t row, int64_t x, int64_t c, int64_t n,
                        const bool is_data)
{
    const gr_conv_dims *d = &v->d;
    const int64_t *src = is_data ? d->out : d->in, *res = is_data ? d->in : d->out;
    const int64_t image = row / res[0], y = row % res[0];
    vec sum[VECTORS];

    for (int i = 0; i < VECTORS; i++)
        sum[i] = vec_set(0);
    for (int64_t ky = 0; ky < d->k[0]; ky++) {
        const int64_t sy = meets(d, 0, y, ky, is_data);

        for (int64_t kx = 0; kx < d->k[1] && sy >= 0; kx++) {
            const int64_t sx = meets(d, 1, x, kx, is_data);
            const int64_t at = ((image * src[0] + sy) * src[1] + sx) * d->ci + c;
            const float *w = v->w + (ky * d->k[1] + kx) * d->ci + c;

            for (int i = 0; i < VECTORS && i * LANES < n && sx >= 0; i++)
                sum[i] = vec_fma(load_n(v->l->src[0], v->type[0], at + i * LANES, n - i * LANES),
                                 load_n(w, GR_F32, i * LANES, n - i * LANES), sum[i]);
        }
    }
    for (int i = 0; i < VECTORS && i * LANES < n; i++)
        store_n(v->l->out[0], v->type[2], (row * res[1] + x) * d->ci + c + i * LANES, n - i * LANES,
                sum[i]);
}

INLINE void sweep_rows(const depthwise *v, int slice, int n_slices, const bool is_data)
{
    const int64_t *res = is_data ? v->d.in : v->d.out, many = VECTORS * LANES;
    int64_t lo, hi;

    gr_pool_cut(v->d.n * res[0], 1, slice, n_slices, &lo, &hi);
    for (int64_t row = lo; row < hi; row++)
        for (int64_t c = 0; c < v->d.ci; c += many)
            for (int64_t x = 0; x < res[1]; x++)
                sweep_pixel(v, row, x, c, v->d.ci - c < many ? v->d.ci - c : many, is_data);
}

static void conv_slice(void *arg, int slice, int n_slices)
{
    sweep_rows(arg, slice, n_slices, false);
}

static void data_slice(void *arg, int slice, int n_slices)
{
    sweep_rows(arg, slice, n_slices, true);
}

gr_status NAME(sweep)(const gr_launch *l)
{
    depthwise v = open_depthwise(l);
    const bool is_data = l->node->op == &gr_op_conv_data;

    turn_weight(&v);
    gr_pool_run(l->pool, is_data ? data_slice : conv_slice, &v, gr_pool_size(l->pool));
    return GR_OK;
}

/* ---- conv_weight ---- */

/* Sum over a row of results. */
INLINE vec fold_row(const depthwise *v, int64_t row, int64_t sy, int64_t kx, int64_t c)
{
    const gr_conv_dims *d = &v->d;
    const int64_t n = d->ci - c;
    vec sum = vec_set(0);

    for (int64_t x = 0; x < d->out[1]; x++) {
        const int64_t sx = meets(d, 1, x, kx, false);

        if (sx >= 0)
            sum = vec_fma(
                load_n(v->l->src[0], v->type[0],
                       ((row / d->out[0] * d->in[0] + sy) * d->in[1] + sx) * d->ci + c, n),
                load_n(v->l->src[1], v->type[1], (row * d->out[1] + x) * d->ci + c, n), sum);
    }
    return sum;
}

static void fold_slice(void *arg, int slice, int n_slices)
{
    const depthwise *v = arg;
    const gr_conv_dims *d = &v->d;
    int64_t lo, hi;

    gr_pool_cut((d->ci + LANES - 1) / LANES, 1, slice, n_slices, &lo, &hi);
    for (int64_t c = lo * LANES; c < hi * LANES && c < d->ci; c += LANES)
        for (int64_t t = 0; t < v->n_taps; t++) {
            const int64_t n = d->ci - c < LANES ? d->ci - c : LANES;
            float lane[LANES];
            vec sum = vec_set(0);

            for (int64_t row = 0; row < d->n * d->out[0]; row++) {
                const int64_t sy = meets(d, 0, row % d->out[0], t / d->k[1], false);

                if (sy >= 0)
                    sum = vec_add(sum, fold_row(v, row, sy, t % d->k[1], c));
            }
            vec_store(lane, sum);
            for (int64_t i = 0; i < n; i++)
                gr_element_put_f64(v->l->out[0], v->type[2], (c + i) * v->n_taps + t,
                                   (double)lane[i]);
        }
}

gr_status NAME(fold)(const gr_launch *l)
{
    depthwise v = open_depthwise(l);

    gr_pool_run(l->pool, fold_slice, &v, gr_pool_size(l->pool));
    return GR_OK;
}

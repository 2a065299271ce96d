/*
 * Max pooling on the GPU. A thread takes N neighbouring channels of one pixel of the result: of y,
 * whose window it walks, or of dx, where it asks every window that covers the pixel. Nothing is
 * scattered, so the order of each sum is fixed.
 *
 * Kernels have a template argument W: W by W elements (or windows) are loaded before any is looked
 * at, so that their loads are under way together; 0: any number, one after the other.
 */
#include "op/pool/pool.h"

#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/pack.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

#include <math.h>

typedef struct axis {
    int64_t kernel, stride, dilation, padding;
    int64_t in, out; /* of x, of y */
    gr_divider by_stride;
} axis;

/* The result, walked with channels in packs innermost. */
typedef struct pool_args {
    axis row, col;
    gr_divider packs, width, height;
    int64_t n_channels, count; /* of packs */
} pool_args;

typedef struct place {
    int64_t image, row, col, channel;
} place;

static __device__ __forceinline__ place place_of(const pool_args &p, int64_t i, int n)
{
    int64_t pixel = gr_divide(&p.packs, i), line = gr_divide(&p.width, pixel);
    place at;

    at.channel = (i - pixel * p.packs.n) * n;
    at.col = pixel - line * p.width.n;
    at.image = gr_divide(&p.height, line);
    at.row = line - at.image * p.height.n;
    return at;
}

/* ---- forward ---- */

/* The first element of a window that lies in the image, and where the window begins. */
static __device__ __forceinline__ int64_t first_in(const axis &a, int64_t o, int64_t *begin)
{
    *begin = o * a.stride - a.padding;
    if (*begin >= 0)
        return 0;
    return a.dilation == 1 ? -*begin : (-*begin + a.dilation - 1) / a.dilation;
}

template <class C, class T, int N>
static __device__ __forceinline__ gr_pack<C, N> widen(const gr_pack<T, N> &x)
{
    gr_pack<C, N> y;

#pragma unroll
    for (int j = 0; j < N; j++)
        y.v[j] = gr_as<C>(x.v[j]);
    return y;
}

/* The greatest so far of N channels, and which element of the window it is. -1: none. */
template <class C, int N> struct winners {
    C best[N];
    int32_t which[N];
};

/* NaN wins; among equals the first, among NaN the last. */
template <class C, int N>
static __device__ __forceinline__ void compete(winners<C, N> *w, const gr_pack<C, N> &x,
                                               int32_t code)
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        bool wins = w->which[j] < 0 || x.v[j] > w->best[j] || x.v[j] != x.v[j];

        w->best[j] = wins ? x.v[j] : w->best[j];
        w->which[j] = wins ? code : w->which[j];
    }
}

/* Windows of W by W elements. */
template <int W, int N, class C, class T>
static __device__ __forceinline__ void walk_all(winners<C, N> *w, const T *x, const pool_args &p,
                                                const place &at)
{
    int64_t top = at.row * p.row.stride - p.row.padding;
    int64_t left = at.col * p.col.stride - p.col.padding;
    gr_pack<T, N> v[W * W];
    bool is_in[W * W];

#pragma unroll
    for (int k = 0; k < W * W; k++) {
        int64_t r = top + k / W * p.row.dilation, c = left + k % W * p.col.dilation;
        int64_t from = ((at.image * p.row.in + r) * p.col.in + c) * p.n_channels + at.channel;

        is_in[k] = r >= 0 && r < p.row.in && c >= 0 && c < p.col.in;
        if (is_in[k])
            v[k] = gr_pack_load<T, N>(x + from);
    }
#pragma unroll
    for (int k = 0; k < W * W; k++)
        if (is_in[k])
            compete(w, widen<C>(v[k]), k);
}

/* Any windows. */
template <int N, class C, class T>
static __device__ __forceinline__ void walk_each(winners<C, N> *w, const T *x, const pool_args &p,
                                                 const place &at)
{
    int64_t top, left, e0 = first_in(p.row, at.row, &top), f0 = first_in(p.col, at.col, &left);

    for (int64_t e = e0; e < p.row.kernel && top + e * p.row.dilation < p.row.in; e++) {
        int64_t line = (at.image * p.row.in + top + e * p.row.dilation) * p.col.in;

        for (int64_t f = f0; f < p.col.kernel && left + f * p.col.dilation < p.col.in; f++) {
            int64_t from = (line + left + f * p.col.dilation) * p.n_channels + at.channel;

            compete(w, gr_pack_load<C, N>(x + from), (int32_t)(e * p.col.kernel + f));
        }
    }
}

template <class T, class I, int N, int W>
static __global__ void max_pool(T *y, I *which, const T *x, const __grid_constant__ pool_args p)
{
    typedef typename gr_compute<T>::type C;

    GR_CUDA_EACH(i, p.count)
    {
        place at = place_of(p, i, N);
        winners<C, N> w;
        gr_pack<C, N> best;
        gr_pack<I, N> code;

#pragma unroll
        for (int j = 0; j < N; j++) {
            w.best[j] = -(C)INFINITY; /* of a window over padding only */
            w.which[j] = -1;
        }
        if constexpr (W > 0)
            walk_all<W>(&w, x, p, at);
        else
            walk_each(&w, x, p, at);
#pragma unroll
        for (int j = 0; j < N; j++) {
            best.v[j] = w.best[j];
            code.v[j] = (I)(w.which[j] < 0 ? 0 : w.which[j]);
        }
        gr_pack_store(y + i * N, best);
        gr_pack_store(which + i * N, code);
    }
}

/* ---- the gradient ---- */

/* Windows [*lo, *hi] may cover pixel i. */
static __device__ __forceinline__ void windows_over(const axis &a, int64_t i, int64_t *lo,
                                                    int64_t *hi)
{
    int64_t at = i + a.padding, span = a.dilation * (a.kernel - 1);

    *lo = at > span ? gr_divide(&a.by_stride, at - span + a.stride - 1) : 0;
    *hi = gr_divide(&a.by_stride, at);
    *hi = *hi < a.out ? *hi : a.out - 1;
}

/* Which element of window o pixel i is; -1: it lies between two. */
static __device__ __forceinline__ int64_t element_of(const axis &a, int64_t i, int64_t o)
{
    int64_t d = i + a.padding - o * a.stride;

    if (a.dilation == 1)
        return d;
    return d % a.dilation == 0 ? d / a.dilation : -1;
}

/* Where both axes have at most W windows over a pixel, and no dilation. */
template <int W, int N, class C, class T, class I>
static __device__ __forceinline__ void add_all(gr_pack<C, N> *sum, const T *dy, const I *which,
                                               const pool_args &p, const place &at)
{
    int64_t top, bottom, left, right;
    gr_pack<T, N> d[W * W];
    gr_pack<I, N> code[W * W];
    int element[W * W]; /* that the pixel is in this window; -1: no window */

    windows_over(p.row, at.row, &top, &bottom);
    windows_over(p.col, at.col, &left, &right);
#pragma unroll
    for (int k = 0; k < W * W; k++) {
        int64_t r = top + k / W, c = left + k % W;
        int64_t from = ((at.image * p.row.out + r) * p.col.out + c) * p.n_channels + at.channel;

        element[k] = -1;
        if (r > bottom || c > right)
            continue;
        element[k] =
            (int)(element_of(p.row, at.row, r) * p.col.kernel + element_of(p.col, at.col, c));
        d[k] = gr_pack_load<T, N>(dy + from);
        code[k] = gr_pack_load<I, N>(which + from);
    }
#pragma unroll
    for (int k = 0; k < W * W; k++)
#pragma unroll
        for (int j = 0; j < N; j++)
            if (element[k] >= 0 && (int)code[k].v[j] == element[k])
                sum->v[j] += gr_as<C>(d[k].v[j]);
}

template <int N, class C, class T, class I>
static __device__ __forceinline__ void add_each(gr_pack<C, N> *sum, const T *dy, const I *which,
                                                const pool_args &p, const place &at)
{
    int64_t top, bottom, left, right;

    windows_over(p.row, at.row, &top, &bottom);
    windows_over(p.col, at.col, &left, &right);
    for (int64_t r = top; r <= bottom; r++) {
        int64_t e = element_of(p.row, at.row, r);

        for (int64_t c = left; e >= 0 && c <= right; c++) {
            int64_t f = element_of(p.col, at.col, c);
            int64_t from = ((at.image * p.row.out + r) * p.col.out + c) * p.n_channels;

            if (f < 0)
                continue;
            gr_pack<C, N> d = gr_pack_load<C, N>(dy + from + at.channel);
            gr_pack<int32_t, N> code = gr_pack_load<int32_t, N>(which + from + at.channel);

#pragma unroll
            for (int j = 0; j < N; j++)
                sum->v[j] += code.v[j] == e * p.col.kernel + f ? d.v[j] : (C)0;
        }
    }
}

template <class T, class I, int N, int W>
static __global__ void max_pool_grad(T *dx, const T *dy, const I *which,
                                     const __grid_constant__ pool_args p)
{
    typedef typename gr_compute<T>::type C;

    GR_CUDA_EACH(i, p.count)
    {
        place at = place_of(p, i, N);
        gr_pack<C, N> sum = {};

        if constexpr (W > 0)
            add_all<W>(&sum, dy, which, p, at);
        else
            add_each(&sum, dy, which, p, at);
        gr_pack_store(dx + i * N, sum);
    }
}

/* ---- launch ---- */

static axis axis_of(const gr_pool_attr *at, int a)
{
    const gr_window *w = &at->window;
    axis x = { w->kernel[a],
               w->stride[a],
               w->dilation[a],
               w->padding[a],
               at->in[a],
               at->out[a],
               gr_divider_of(w->stride[a]) };

    return x;
}

/* `n`: channels in a pack. */
static pool_args args_of(const gr_node *node, int n)
{
    const gr_pool_attr *at = (const gr_pool_attr *)node->attr;
    const int64_t *dim = node->out[0].shape.dim;
    int64_t packs = dim[3] / n;
    pool_args p;

    p.row = axis_of(at, 0);
    p.col = axis_of(at, 1);
    p.packs = gr_divider_of(packs > 0 ? packs : 1);
    p.width = gr_divider_of(dim[2]);
    p.height = gr_divider_of(dim[1]);
    p.n_channels = dim[3];
    p.count = dim[0] * dim[1] * dim[2] * packs;
    return p;
}

template <class T, class I, int N, int W> static gr_status launch_max(const gr_launch *l)
{
    pool_args p = args_of(l->node, N);

    return gr_cuda_launch("max_pool launch", gr_cuda_grid_for(p.count), gr_cuda_stream(l->stream),
                          max_pool<T, I, N, W>, (T *)l->out[0], (I *)l->out[1],
                          (const T *)l->src[0], p);
}

template <class T, class I, int N, int W> static gr_status launch_grad(const gr_launch *l)
{
    pool_args p = args_of(l->node, N);

    return gr_cuda_launch("max_pool_grad launch", gr_cuda_grid_for(p.count),
                          gr_cuda_stream(l->stream), max_pool_grad<T, I, N, W>, (T *)l->out[0],
                          (const T *)l->src[0], (const I *)l->src[1], p);
}

/* In packs: channels of a number that allows it, all memory aligned, windows of u8 codes. */
static bool takes_packs(const gr_launch *l, const void *which, gr_dtype codes)
{
    const gr_value *y = &l->node->out[0];
    int64_t lanes = 16 / (int64_t)gr_dtype_bytes(y->dtype);

    return codes == GR_U8 && y->shape.dim[3] % lanes == 0 &&
           gr_pack_is_aligned(l->src[0], l->out[0], which);
}

template <class T> static gr_status run_max(const gr_launch *l)
{
    const gr_window *w = &((const gr_pool_attr *)l->node->attr)->window;
    const int N = gr_pack_lanes<T>();
    bool is_square = w->kernel[0] == w->kernel[1];

    if (takes_packs(l, l->out[1], l->node->out[1].dtype)) {
        if (is_square && w->kernel[0] == 3)
            return launch_max<T, uint8_t, N, 3>(l);
        if (is_square && w->kernel[0] == 2)
            return launch_max<T, uint8_t, N, 2>(l);
        return launch_max<T, uint8_t, N, 0>(l);
    }
    if (l->node->out[1].dtype == GR_U8)
        return launch_max<T, uint8_t, 1, 0>(l);
    return launch_max<T, int32_t, 1, 0>(l);
}

/* At most so many windows lie over a pixel, along each axis; 0: dilated. */
static int64_t windows_at_most(const gr_window *w)
{
    int64_t rows = (w->kernel[0] - 1) / w->stride[0] + 1;
    int64_t cols = (w->kernel[1] - 1) / w->stride[1] + 1;

    if (w->dilation[0] != 1 || w->dilation[1] != 1)
        return 0;
    return rows > cols ? rows : cols;
}

template <class T> static gr_status run_grad(const gr_launch *l)
{
    const int N = gr_pack_lanes<T>();
    int64_t most = windows_at_most(&((const gr_pool_attr *)l->node->attr)->window);

    if (takes_packs(l, l->src[1], l->node->src[1]->dtype)) {
        if (most == 1)
            return launch_grad<T, uint8_t, N, 1>(l);
        if (most == 2)
            return launch_grad<T, uint8_t, N, 2>(l);
        return launch_grad<T, uint8_t, N, 0>(l);
    }
    if (l->node->src[1]->dtype == GR_U8)
        return launch_grad<T, uint8_t, 1, 0>(l);
    return launch_grad<T, int32_t, 1, 0>(l);
}

static gr_status max_run(const gr_launch *l)
{
    GR_CUDA_FLOATS(l->node->src[0]->dtype, T, return run_max<T>(l))
}

static gr_status grad_run(const gr_launch *l)
{
    GR_CUDA_FLOATS(l->node->src[0]->dtype, T, return run_grad<T>(l))
}

const gr_kernel gr_max_pool_cuda[] = {
    { .name = "windows", .run = max_run },
    {},
};

const gr_kernel gr_max_pool_grad_cuda[] = {
    { .name = "windows", .run = grad_run },
    {},
};

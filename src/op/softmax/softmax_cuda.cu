/*
 * Softmax and its kin on the GPU. A line is what is summed over: n elements, `inner` apart.
 *
 *   rows   the lines lie side by side (inner 1): a warp takes one of up to WARP_COLS elements, a
 *          block a longer one, by accesses of 16 bytes where rows begin aligned
 *   lines  any other: a thread takes a line, neighbours lie side by side
 *
 * Either reads a line twice or three times, from the cache after the first, sums in f32 (f64 for
 * f64) in an order that the shape fixes.
 */
#include "op/softmax/softmax.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/pack.cuh"
#include "backend/cuda/reduce.cuh"
#include "op/module_cuda.h"

#define WARP_COLS   1024
#define ROW_THREADS 256

static __device__ __forceinline__ float exp_of(float x)
{
    return expf(x);
}
static __device__ __forceinline__ double exp_of(double x)
{
    return exp(x);
}
static __device__ __forceinline__ float log_of(float x)
{
    return logf(x);
}
static __device__ __forceinline__ double log_of(double x)
{
    return log(x);
}

/* What is made of a line. */
typedef enum softmax_what { SHARES, LOGARITHMS, ONE_SUM } softmax_what;

typedef struct softmax_args {
    const void *x; /* of the gradients: y */
    const void *dy;
    void *out;
    int64_t n_lines, n;
    gr_divider inner;
    gr_dtype type, dy_type, out_type; /* type: of x */
    softmax_what what;
} softmax_args;

/* The logarithm of the sum, as two parts of which neither overflows: top + log(sum). */
template <class C> struct log_sum {
    C top, sum;

    __device__ __forceinline__ C value() const
    {
        return top == -(C)INFINITY ? top : top + log_of(sum);
    }
    /* Of one element. Where all are -inf none has a share. f64 rounds as the reference does; f32
     * keeps what top + log(sum) would lose where top is large. */
    __device__ __forceinline__ C of(C x, softmax_what what) const
    {
        C y;

        if (top == -(C)INFINITY)
            return what == SHARES ? (C)0 : top;
        if (sizeof(C) == sizeof(double)) {
            y = x - value();
            return what == SHARES ? exp_of(y) : y;
        }
        return what == SHARES ? exp_of(x - top) / sum : x - top - log_of(sum);
    }
};

/* f(j, pack of N elements) for the elements of a row that are this thread's. */
template <class C, int N, int THREADS, class T, class F>
static __device__ __forceinline__ void each_of_row(const T *x, int64_t n, F f)
{
    for (int64_t j = (int64_t)threadIdx.x * N; j < n; j += THREADS * N)
        f(j, gr_pack_load<C, N>(x + j));
}

/* n % N == 0, and rows begin aligned for N. */
template <class T, int N, int THREADS> static __global__ void softmax_rows(softmax_args p)
{
    typedef typename gr_compute<T>::type C;
    int64_t row = gr_cuda_row();

    if (row >= p.n_lines)
        return;
    const T *x = (const T *)p.x + row * p.n;
    log_sum<C> s = { -(C)INFINITY, 0 };

    each_of_row<C, N, THREADS>(x, p.n, [&](int64_t, const gr_pack<C, N> &v) {
        for (int j = 0; j < N; j++)
            s.top = gr_greater()(s.top, v.v[j]);
    });
    s.top = gr_team_join<THREADS>(s.top, gr_greater());
    each_of_row<C, N, THREADS>(x, p.n, [&](int64_t, const gr_pack<C, N> &v) {
        for (int j = 0; j < N; j++)
            s.sum += exp_of(v.v[j] - s.top);
    });
    s.sum = gr_team_join<THREADS>(s.sum, gr_plus());
    if (p.what == ONE_SUM) {
        if (threadIdx.x == 0)
            gr_store_f64(p.out, row, p.out_type, (double)s.value());
        return;
    }
    each_of_row<C, N, THREADS>(x, p.n, [&](int64_t i, gr_pack<C, N> v) {
        for (int j = 0; j < N; j++)
            v.v[j] = s.of(v.v[j], p.what);
        if (p.out_type == p.type) {
            gr_pack_store((T *)p.out + row * p.n + i, v);
            return;
        }
        for (int j = 0; j < N; j++)
            gr_store_f64(p.out, row * p.n + i + j, p.out_type, (double)v.v[j]);
    });
}

template <class T> static __global__ void softmax_lines(const __grid_constant__ softmax_args p)
{
    typedef typename gr_compute<T>::type C;

    GR_CUDA_EACH(line, p.n_lines)
    {
        int64_t outer = gr_divide(&p.inner, line);
        int64_t first = outer * p.n * p.inner.n + (line - outer * p.inner.n);
        const T *x = (const T *)p.x + first;
        log_sum<C> s = { -(C)INFINITY, 0 };

        for (int64_t j = 0; j < p.n; j++)
            s.top = gr_greater()(s.top, gr_as<C>(x[j * p.inner.n]));
        for (int64_t j = 0; j < p.n; j++)
            s.sum += exp_of(gr_as<C>(x[j * p.inner.n]) - s.top);
        if (p.what == ONE_SUM)
            gr_store_f64(p.out, line, p.out_type, (double)s.value());
        for (int64_t j = 0; j < p.n && p.what != ONE_SUM; j++)
            gr_store_f64(p.out, first + j * p.inner.n, p.out_type,
                         (double)s.of(gr_as<C>(x[j * p.inner.n]), p.what));
    }
}

/* ---- gradients, from y ---- */

template <class C> static __device__ __forceinline__ C summand(C y, C dy, softmax_what what)
{
    return what == LOGARITHMS ? dy : y * dy;
}

template <class C> static __device__ __forceinline__ C slope(C y, C dy, C sum, softmax_what what)
{
    return what == LOGARITHMS ? dy - exp_of(y) * sum : y * (dy - sum);
}

/* y, dy and dx of one type; n % N == 0, and rows begin aligned for N. */
template <class T, int N, int THREADS> static __global__ void softmax_grad_rows(softmax_args p)
{
    typedef typename gr_compute<T>::type C;
    int64_t row = gr_cuda_row();

    if (row >= p.n_lines)
        return;
    const T *y = (const T *)p.x + row * p.n, *dy = (const T *)p.dy + row * p.n;
    C sum = 0;

    each_of_row<C, N, THREADS>(y, p.n, [&](int64_t i, const gr_pack<C, N> &v) {
        gr_pack<C, N> d = gr_pack_load<C, N>(dy + i);

        for (int j = 0; j < N; j++)
            sum += summand(v.v[j], d.v[j], p.what);
    });
    sum = gr_team_join<THREADS>(sum, gr_plus());
    each_of_row<C, N, THREADS>(y, p.n, [&](int64_t i, const gr_pack<C, N> &v) {
        gr_pack<C, N> d = gr_pack_load<C, N>(dy + i);

        for (int j = 0; j < N; j++)
            d.v[j] = slope(v.v[j], d.v[j], sum, p.what);
        gr_pack_store((T *)p.out + row * p.n + i, d);
    });
}

/* Any types; T is y's. */
template <class T> static __global__ void softmax_grad_lines(const __grid_constant__ softmax_args p)
{
    typedef typename gr_compute<T>::type C;

    GR_CUDA_EACH(line, p.n_lines)
    {
        int64_t outer = gr_divide(&p.inner, line);
        int64_t first = outer * p.n * p.inner.n + (line - outer * p.inner.n);
        const T *y = (const T *)p.x;
        C sum = 0;

        for (int64_t j = 0; j < p.n; j++) {
            int64_t at = first + j * p.inner.n;

            sum += summand(gr_as<C>(y[at]), (C)gr_load_f64(p.dy, at, p.dy_type), p.what);
        }
        for (int64_t j = 0; j < p.n; j++) {
            int64_t at = first + j * p.inner.n;
            C d = (C)gr_load_f64(p.dy, at, p.dy_type);

            gr_store_f64(p.out, at, p.out_type, (double)slope(gr_as<C>(y[at]), d, sum, p.what));
        }
    }
}

/* ---- launching ---- */

/* Rows of N elements an access, a warp or a block each. */
template <class T, int N> static gr_status launch_rows(const softmax_args &p, cudaStream_t s)
{
    bool is_short = p.n <= WARP_COLS;
    gr_cuda_grid g =
        is_short ? gr_cuda_grid_rows<32>(p.n_lines) : gr_cuda_grid_rows<ROW_THREADS>(p.n_lines);

    if (p.dy)
        return gr_cuda_launch(
            "softmax_grad launch", g, s,
            is_short ? softmax_grad_rows<T, N, 32> : softmax_grad_rows<T, N, ROW_THREADS>, p);
    return gr_cuda_launch("softmax launch", g, s,
                          is_short ? softmax_rows<T, N, 32> : softmax_rows<T, N, ROW_THREADS>, p);
}

template <class T> static gr_status launch(const softmax_args &p, cudaStream_t s)
{
    const int lanes = gr_pack_lanes<T>();
    bool is_mixed = p.dy && (p.dy_type != p.type || p.out_type != p.type);

    if (p.inner.n > 1 || is_mixed)
        return gr_cuda_launch("softmax launch", gr_cuda_grid_for(p.n_lines), s,
                              p.dy ? softmax_grad_lines<T> : softmax_lines<T>, p);
    if (p.n % lanes == 0 && gr_pack_is_aligned((const char *)p.x, (const char *)p.dy) &&
        (p.out_type != p.type || gr_pack_is_aligned((const char *)p.out)))
        return launch_rows<T, lanes>(p, s);
    return launch_rows<T, 1>(p, s);
}

static int64_t count_of(const gr_shape *s, int from, int to)
{
    int64_t n = 1;

    for (int d = from; d < to; d++)
        n *= s->dim[d];
    return n;
}

static gr_status run_as(const gr_launch *l, softmax_what what)
{
    const gr_node *n = l->node;
    const gr_shape *shape = &n->src[0]->shape;
    int axis = ((const gr_softmax_attr *)n->attr)->axis;
    int64_t inner = count_of(shape, axis + 1, shape->n_dims);
    softmax_args p;

    p.x = l->src[0];
    p.dy = n->n_src > 1 ? l->src[1] : NULL;
    p.out = l->out[0];
    p.n_lines = count_of(shape, 0, axis) * inner;
    p.n = shape->dim[axis];
    p.inner = gr_divider_of(inner > 0 ? inner : 1);
    p.type = n->src[0]->dtype;
    p.dy_type = n->n_src > 1 ? n->src[1]->dtype : p.type;
    p.out_type = n->out[0].dtype;
    p.what = what;
    if (p.n == 0 && p.what != ONE_SUM) /* there may be lines, but none has an element */
        return GR_OK;
    GR_CUDA_FLOATS(p.type, T, return launch<T>(p, gr_cuda_stream(l->stream)))
}

#define KERNELS(op, what)                         \
    static gr_status op##_run(const gr_launch *l) \
    {                                             \
        return run_as(l, what);                   \
    }                                             \
    const gr_kernel gr_##op##_cuda[] = { { .name = "rows", .run = op##_run }, { .name = NULL } }
KERNELS(softmax, SHARES);
KERNELS(softmax_grad, SHARES);
KERNELS(log_softmax, LOGARITHMS);
KERNELS(log_softmax_grad, LOGARITHMS);
KERNELS(logsumexp, ONE_SUM);

/*
 * layer_norm and rms_norm on the GPU: a warp or a block takes a row. Rows of up to MAX_HELD
 * elements are read once and held in registers; longer ones are read again, from the cache.
 * Variances are taken in two passes.
 */
#include "op/module_cuda.h"
#include "op/norm/norm_rows.cuh"

#define HELD     32 /* elements of a row in a thread's registers */
#define MAX_HELD (HELD * 256)

template <class X, class W, class Y> struct rows_args {
    gr_norm_rows_args p;
    X x;
    W weight, bias; /* mem NULL: none */
    Y y;
    void *mean, *rstd; /* mean NULL: rms_norm */
    gr_dtype type;     /* of both */
};

static __device__ __forceinline__ float root(float x)
{
    return sqrtf(x);
}
static __device__ __forceinline__ double root(double x)
{
    return sqrt(x);
}

/* `squares`: their mean. */
template <class C>
static __device__ __forceinline__ C rstd_of(const gr_norm_rows_args &p, C squares)
{
    C rms = root(squares);

    if (!p.clamped)
        return (C)1 / root(squares + (C)p.eps);
    if (squares != squares)
        return squares;
    return rms > (C)p.eps ? (C)1 / rms : (C)p.most;
}

template <int THREADS, int N, int K, class C, class X, class W, class Y>
static __global__ void norm_rows(const __grid_constant__ rows_args<X, W, Y> a)
{
    int64_t row = gr_cuda_row(), c = a.p.c, first = row * c;
    gr_pack<C, N> held[K > 0 ? K : 1];
    C sum = 0, squares = 0, count = c > 0 ? (C)c : (C)1, mean = 0, rstd;
    Y y = a.y;

    if (row >= a.p.n)
        return;
    gr_norm_each<THREADS, N, K>(c, [&](int k, int64_t i) {
        gr_pack<C, N> x = a.x.template get<C, N>(first + i);

        if (K > 0)
            held[k] = x;
#pragma unroll
        for (int j = 0; j < N; j++)
            sum += x.v[j];
    });
    if (a.p.centred)
        mean = gr_team_join<THREADS>(sum, gr_plus()) / count;
    gr_norm_each<THREADS, N, K>(c, [&](int k, int64_t i) {
        gr_pack<C, N> x = K > 0 ? held[k] : a.x.template get<C, N>(first + i);

#pragma unroll
        for (int j = 0; j < N; j++)
            squares += (x.v[j] - mean) * (x.v[j] - mean);
    });
    rstd = rstd_of(a.p, gr_team_join<THREADS>(squares, gr_plus()) / count);
    gr_norm_each<THREADS, N, K>(c, [&](int k, int64_t i) {
        gr_pack<C, N> x = K > 0 ? held[k] : a.x.template get<C, N>(first + i);
        gr_pack<C, N> w = gr_norm_vector_at<C, N>(a.weight, i, (C)1);
        gr_pack<C, N> b = gr_norm_vector_at<C, N>(a.bias, i, (C)0);

#pragma unroll
        for (int j = 0; j < N; j++)
            x.v[j] = (x.v[j] - mean) * rstd * w.v[j] + b.v[j];
        y.put(first + i, x);
    });
    if (threadIdx.x != 0)
        return;
    if (a.mean)
        gr_store_f64(a.mean, row, a.type, (double)mean);
    gr_store_f64(a.rstd, row, a.type, (double)rstd);
}

/* ---- launch ---- */

template <int THREADS, int N, int K, class C, class X, class W, class Y>
static gr_status launch(const gr_launch *l, const rows_args<X, W, Y> &a)
{
    return gr_cuda_launch("row norm launch", gr_cuda_grid_rows<THREADS>(a.p.n),
                          gr_cuda_stream(l->stream), norm_rows<THREADS, N, K, C, X, W, Y>, a);
}

template <class X, class W, class Y>
static rows_args<X, W, Y> args_of(const gr_launch *l, X x, W weight, W bias, Y y)
{
    bool centred = l->node->n_out == 3;
    rows_args<X, W, Y> a = { gr_norm_rows_of(l->node),
                             x,
                             weight,
                             bias,
                             y,
                             centred ? l->out[1] : NULL,
                             l->out[centred ? 2 : 1],
                             l->node->out[1].dtype };

    return a;
}

template <class T> static gr_status launch_fast(const gr_launch *l)
{
    const gr_row_norm_attr *at = (const gr_row_norm_attr *)l->node->attr;
    const int N = gr_pack_lanes<T>();
    gr_norm_typed<T> x = { (const T *)l->src[0] };
    gr_norm_typed<float> w = { at->has_weight ? (const float *)l->src[1] : NULL };
    gr_norm_typed<float> b = { at->has_bias ? (const float *)l->src[1 + at->has_weight] : NULL };
    gr_norm_typed_out<T> y = { (T *)l->out[0] };
    auto a = args_of(l, x, w, b, y);
    int64_t c = a.p.c;

    if (c % N != 0 || !gr_pack_is_aligned(x.mem, y.mem, w.mem, b.mem))
        return c <= 1024 ? launch<32, 1, 0, float>(l, a) : launch<256, 1, 0, float>(l, a);
    if (c <= 32 * N)
        return launch<32, N, 1, float>(l, a);
    if (c <= 32 * HELD)
        return launch<32, N, HELD / N, float>(l, a);
    if (c <= 128 * HELD)
        return launch<128, N, HELD / N, float>(l, a);
    if (c <= MAX_HELD)
        return launch<256, N, HELD / N, float>(l, a);
    return launch<256, N, 0, float>(l, a);
}

static const char *fast_reject(const gr_node *n)
{
    return gr_norm_rows_reject(n, 1);
}

static gr_status fast_run(const gr_launch *l)
{
    switch (l->node->src[0]->dtype) {
    case GR_F32: return launch_fast<float>(l);
    case GR_BF16: return launch_fast<__nv_bfloat16>(l);
    default: return launch_fast<__half>(l);
    }
}

/* Any types, in double. */
static gr_status plain_run(const gr_launch *l)
{
    const gr_row_norm_attr *at = (const gr_row_norm_attr *)l->node->attr;
    gr_norm_any none = { NULL, GR_F32 };
    gr_norm_any_out y = { l->out[0], l->node->out[0].dtype };

    return launch<32, 1, 0, double>(
        l, args_of(l, gr_norm_source(l, 0), at->has_weight ? gr_norm_source(l, 1) : none,
                   at->has_bias ? gr_norm_source(l, 1 + at->has_weight) : none, y));
}

#define KERNELS(table)             \
    const gr_kernel table[] = {    \
        {                          \
            .name = "rows",        \
            .reject = fast_reject, \
            .prepare = NULL,       \
            .workspace = NULL,     \
            .run = fast_run,       \
            .release = NULL,       \
            .no_capture = false,   \
            .in_place = false,     \
        },                         \
        {                          \
            .name = "plain",       \
            .reject = NULL,        \
            .prepare = NULL,       \
            .workspace = NULL,     \
            .run = plain_run,      \
            .release = NULL,       \
            .no_capture = false,   \
            .in_place = false,     \
        },                         \
        {},                        \
    }

KERNELS(gr_layer_norm_cuda);
KERNELS(gr_rms_norm_cuda);

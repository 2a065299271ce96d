/* batch_norm_sums on the GPU, in the two stages of norm_columns.cuh. */
#include "op/module_cuda.h"
#include "op/norm/norm.h"
#include "op/norm/norm_columns.cuh"

#define AT_ONCE 2 /* rows of a thread whose loads are under way together */

/* x and dy are of X, vectors of V. */
template <class X, class V> struct sums_args {
    X x, dy;
    V mean, scale, shift; /* scale and shift: of the gate */
    gr_norm_cut k;
};

template <class C, int N> struct channels {
    gr_pack<C, N> mean, scale, shift;
};

/* Adds dy and dy (x - mean) to *a, where the gate is open; NaN does not close it. */
template <bool GATED, int N, class C, class P>
static __device__ __forceinline__ void add_row(gr_norm_pair<C, N> *a, const channels<C, N> &c,
                                               const P &x, const P &dy)
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        bool shut = GATED && x.v[j] * c.scale.v[j] + c.shift.v[j] <= 0;
        C d = shut ? (C)0 : dy.v[j];

        a->first[j] += d;
        a->second[j] += d * (x.v[j] - c.mean.v[j]);
    }
}

template <bool GATED, int N, class C, class X, class V>
static __device__ __forceinline__ gr_norm_pair<C, N> walk(const sums_args<X, V> &s,
                                                          const gr_norm_place &p)
{
    gr_norm_pair<C, N> a = {};
    channels<C, N> c = {};
    int64_t vector = p.sample * s.k.n_channels + p.channel;
    int64_t row = p.lo + threadIdx.y, step = blockDim.y;

    c.mean = s.mean.template get<C, N>(vector);
    if (GATED) {
        c.scale = s.scale.template get<C, N>(vector);
        c.shift = s.shift.template get<C, N>(vector);
    }
    for (; row + (AT_ONCE - 1) * step < p.hi; row += AT_ONCE * step) {
        gr_pack<C, N> x[AT_ONCE], dy[AT_ONCE];

#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            x[u] = s.x.template get<C, N>(p.base + (row + u * step) * s.k.n_channels);
            dy[u] = s.dy.template get<C, N>(p.base + (row + u * step) * s.k.n_channels);
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            add_row<GATED, N>(&a, c, x[u], dy[u]);
    }
    for (; row < p.hi; row += step)
        add_row<GATED, N>(&a, c, s.x.template get<C, N>(p.base + row * s.k.n_channels),
                          s.dy.template get<C, N>(p.base + row * s.k.n_channels));
    return a;
}

template <bool GATED, int N, class C, class X, class V>
static __global__ void __launch_bounds__(GR_NORM_BLOCK)
    sums_parts(C *work, const __grid_constant__ sums_args<X, V> s)
{
    gr_norm_place p = gr_norm_place_of<N>(s.k);
    gr_norm_pair<C, N> a = {};

    if (p.is_in)
        a = walk<GATED, N, C>(s, p);
    gr_norm_keep(work, s.k, p, a, gr_norm_sum());
}

/* ---- launch ---- */

static const char launch_text[] = "batch_norm_sums launch";

template <int N, class C, class X, class V>
static gr_status launch(const gr_launch *l, const sums_args<X, V> &a)
{
    bool gated = ((const gr_channel_attr *)l->node->attr)->gated;
    gr_norm_sink to = { l->out[0], l->out[1], l->node->out[0].dtype, gr_norm_source(l, 3) };
    cudaStream_t s = gr_cuda_stream(l->stream);

    GR_TRY(gr_cuda_launch(launch_text, gr_norm_first_grid(&a.k, N), s,
                          gated ? sums_parts<true, N, C, X, V> : sums_parts<false, N, C, X, V>,
                          (C *)l->work, a));
    return gr_cuda_launch(launch_text, gr_norm_second_grid(&a.k), s, gr_norm_finish_sums<C>, to,
                          (const C *)l->work, a.k);
}

static gr_norm_cut cut_of(const gr_node *n, int lanes)
{
    return gr_norm_cut_node(n, ((const gr_channel_attr *)n->attr)->per_sample, lanes);
}

static size_t workspace_of(const gr_node *n, int lanes, size_t element)
{
    gr_norm_cut k = cut_of(n, lanes);

    return gr_norm_cut_bytes(&k, element);
}

/* ---- x and dy of one type that is computed in f32 ---- */

static const char *fast_reject(const gr_node *n)
{
    if (n->src[0]->dtype != n->src[1]->dtype)
        return "x and the gradient must have one type";
    return n->src[0]->dtype == GR_F64 ? "f64 is left to the plain kernel" : NULL;
}

template <class T> static gr_status launch_fast(const gr_launch *l)
{
    typedef gr_norm_typed<T> X;
    typedef gr_norm_typed<float> V;
    const int N = gr_pack_lanes<T>(), last = l->node->n_src - 1;
    sums_args<X, V> a;

    a.x.mem = (const T *)l->src[0];
    a.dy.mem = (const T *)l->src[1];
    a.mean.mem = (const float *)l->src[2];
    a.scale.mem = last == 5 ? (const float *)l->src[4] : NULL;
    a.shift.mem = last == 5 ? (const float *)l->src[5] : NULL;
    a.k = cut_of(l->node, N);
    if (a.k.n_channels % N == 0 &&
        gr_pack_is_aligned(a.x.mem, a.dy.mem, a.mean.mem, a.scale.mem, a.shift.mem))
        return launch<N, float>(l, a);
    return launch<1, float>(l, a);
}

static gr_status fast_run(const gr_launch *l)
{
    switch (l->node->src[0]->dtype) {
    case GR_F32: return launch_fast<float>(l);
    case GR_BF16: return launch_fast<__nv_bfloat16>(l);
    default: return launch_fast<__half>(l);
    }
}

static size_t fast_workspace(const gr_node *n, const void *data)
{
    (void)data;
    return workspace_of(n, 16 / (int)gr_dtype_bytes(n->src[0]->dtype), sizeof(float));
}

/* ---- any types ---- */

static gr_status plain_run(const gr_launch *l)
{
    sums_args<gr_norm_any, gr_norm_any> a;
    bool gated = l->node->n_src == 6;

    a.x = gr_norm_source(l, 0);
    a.dy = gr_norm_source(l, 1);
    a.mean = gr_norm_source(l, 2);
    a.scale = gr_norm_source(l, gated ? 4 : 2);
    a.shift = gr_norm_source(l, gated ? 5 : 2);
    a.k = cut_of(l->node, 1);
    return launch<1, double>(l, a);
}

static size_t plain_workspace(const gr_node *n, const void *data)
{
    (void)data;
    return workspace_of(n, 1, sizeof(double));
}

const gr_kernel gr_batch_norm_sums_cuda[] = {
    {
        .name = "columns",
        .reject = fast_reject,
        .prepare = NULL,
        .workspace = fast_workspace,
        .run = fast_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {
        .name = "plain",
        .reject = NULL,
        .prepare = NULL,
        .workspace = plain_workspace,
        .run = plain_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

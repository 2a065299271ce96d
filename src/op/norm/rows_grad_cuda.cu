/*
 * Gradients of layer_norm and rms_norm on the GPU.
 *
 * Rows of up to MAX_HELD elements: a team, a warp or a block, walks every n-th row, holds it in
 * registers for dx, and adds what it gives to dw and db, of which each thread owns its columns. A
 * block's sums go to the workspace and are joined as in norm_columns.cuh. x and dy are read once.
 *
 * Longer and unaligned rows: dx by rows, then dw and db down the columns in the two stages of
 * norm_columns.cuh, which read x and dy a second time.
 */
#include "op/module_cuda.h"
#include "op/norm/norm_rows.cuh"

#define HELD     16 /* elements of each of x and dy in a thread's registers */
#define MAX_HELD (HELD * 512)
#define AT_ONCE  2 /* rows of a thread whose loads are under way together */

/* x and dy are of X, numbers per row of V, the weight of W. */
template <class X, class V, class W, class Y> struct grad_args {
    gr_norm_rows_args p;
    X x, dy;
    V mean, rstd; /* mean.mem NULL: rms_norm */
    W weight;     /* mem NULL: none */
    Y dx;
    gr_norm_cut k; /* of the sums */
};

template <class C> struct row_stats {
    C mean, rstd;
};

template <class C, class V>
static __device__ __forceinline__ row_stats<C> stats_at(const V &mean, const V &rstd, int64_t row)
{
    row_stats<C> s = { mean.mem ? mean.template get<C, 1>(row).v[0] : (C)0,
                       rstd.template get<C, 1>(row).v[0] };

    return s;
}

/* ---- a row ---- */

/* N elements of a row: x normalised, and q = dy w. */
template <class C, int N> struct elements {
    gr_pack<C, N> xhat, dy, q;
};

template <int N, class C, class A>
static __device__ __forceinline__ elements<C, N> elements_at(const A &a, row_stats<C> s,
                                                             int64_t first, int64_t i)
{
    gr_pack<C, N> w = gr_norm_vector_at<C, N>(a.weight, i, (C)1);
    elements<C, N> e;

    e.xhat = a.x.template get<C, N>(first + i);
    e.dy = a.dy.template get<C, N>(first + i);
#pragma unroll
    for (int j = 0; j < N; j++) {
        e.xhat.v[j] = (e.xhat.v[j] - s.mean) * s.rstd;
        e.q.v[j] = e.dy.v[j] * w.v[j];
    }
    return e;
}

/* Sums of q and of q xhat over a row. */
template <class C> struct row_sums {
    C sum, dot;
};

template <class C, int N>
static __device__ __forceinline__ void add_sums(row_sums<C> *t, const elements<C, N> &e)
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        t->sum += e.q.v[j];
        t->dot += e.q.v[j] * e.xhat.v[j];
    }
}

/* The means of both over the row, or 0: of q in rms_norm, of the other where the clamp holds
 * rstd. */
template <int THREADS, class C>
static __device__ __forceinline__ row_sums<C> means_of(const gr_norm_rows_args &p, row_stats<C> s,
                                                       row_sums<C> t)
{
    t.sum = gr_team_join<THREADS>(t.sum, gr_plus()) / (C)p.c;
    t.dot = gr_team_join<THREADS>(t.dot, gr_plus()) / (C)p.c;
    t.sum = p.centred ? t.sum : (C)0;
    t.dot = p.clamped && s.rstd >= (C)p.most ? (C)0 : t.dot;
    return t;
}

/* rstd (q - mean(q) - xhat mean(q xhat)) */
template <class C, int N>
static __device__ __forceinline__ gr_pack<C, N> dx_of(row_stats<C> s, row_sums<C> means,
                                                      const elements<C, N> &e)
{
    gr_pack<C, N> dx;

#pragma unroll
    for (int j = 0; j < N; j++)
        dx.v[j] = s.rstd * (e.q.v[j] - means.sum - e.xhat.v[j] * means.dot);
    return dx;
}

/* ---- all at once ---- */

/* Sums of a block's teams, into those of the first; with one team they are there already. */
template <int K, class P> static __device__ __forceinline__ void join_teams(P *sums)
{
    __shared__ P slots[K][32];

    for (unsigned y = blockDim.y - 1; y > 0; y--) {
        if (threadIdx.y == y)
#pragma unroll
            for (int k = 0; k < K; k++)
                slots[k][threadIdx.x] = sums[k];
        __syncthreads();
        if (threadIdx.y == 0)
#pragma unroll
            for (int k = 0; k < K; k++)
                sums[k] = gr_norm_sum()(sums[k], slots[k][threadIdx.x]);
        __syncthreads();
    }
}

/* work [blocks, 2, c]: sums of dy and of dy xhat; NULL: not wanted. */
template <int THREADS, int N, int K, class C, class X, class V, class W, class Y>
static __global__ void grad_held(C *work, const __grid_constant__ grad_args<X, V, W, Y> a)
{
    int64_t c = a.p.c, step = (int64_t)gridDim.x * blockDim.y;
    gr_norm_pair<C, N> sums[K] = {};
    Y dx = a.dx;

    for (int64_t row = gr_cuda_row(); row < a.p.n; row += step) {
        row_stats<C> s = stats_at<C>(a.mean, a.rstd, row);
        row_sums<C> t = {};
        elements<C, N> e[K];

        gr_norm_each<THREADS, N, K>(c, [&](int k, int64_t i) {
            e[k] = elements_at<N>(a, s, row * c, i);
            add_sums(&t, e[k]);
#pragma unroll
            for (int j = 0; j < N; j++) {
                sums[k].first[j] += e[k].dy.v[j];
                sums[k].second[j] += e[k].dy.v[j] * e[k].xhat.v[j];
            }
        });
        t = means_of<THREADS>(a.p, s, t);
        gr_norm_each<THREADS, N, K>(
            c, [&](int k, int64_t i) { dx.put(row * c + i, dx_of(s, t, e[k])); });
    }
    if (!work)
        return;
    if constexpr (THREADS == 32)
        join_teams<K>(sums);
    if (threadIdx.y == 0)
        gr_norm_each<THREADS, N, K>(c, [&](int k, int64_t i) {
            gr_norm_put<N>(work + (int64_t)blockIdx.x * 2 * c + i, c, sums[k]);
        });
}

/* ---- dx alone ---- */

template <int THREADS, int N, class C, class X, class V, class W, class Y>
static __global__ void grad_rows(const __grid_constant__ grad_args<X, V, W, Y> a)
{
    int64_t row = gr_cuda_row(), c = a.p.c;
    row_sums<C> t = {};
    Y dx = a.dx;

    if (row >= a.p.n)
        return;

    row_stats<C> s = stats_at<C>(a.mean, a.rstd, row);

    gr_norm_each<THREADS, N, 0>(
        c, [&](int, int64_t i) { add_sums(&t, elements_at<N>(a, s, row * c, i)); });
    t = means_of<THREADS>(a.p, s, t);
    gr_norm_each<THREADS, N, 0>(c, [&](int, int64_t i) {
        dx.put(row * c + i, dx_of(s, t, elements_at<N>(a, s, row * c, i)));
    });
}

/* ---- dw and db alone ---- */

/* Adds dy and dy xhat to *a. */
template <class C, int N>
static __device__ __forceinline__ void add_row(gr_norm_pair<C, N> *a, row_stats<C> s,
                                               const gr_pack<C, N> &x, const gr_pack<C, N> &dy)
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        a->first[j] += dy.v[j];
        a->second[j] += dy.v[j] * (x.v[j] - s.mean) * s.rstd;
    }
}

template <int N, class C, class X, class V, class W, class Y>
static __global__ void __launch_bounds__(GR_NORM_BLOCK)
    grad_columns(C *work, const __grid_constant__ grad_args<X, V, W, Y> g)
{
    gr_norm_place p = gr_norm_place_of<N>(g.k);
    gr_norm_pair<C, N> a = {};
    int64_t step = blockDim.y, end = p.is_in ? p.hi : 0, row = p.lo + threadIdx.y;

    for (; row + (AT_ONCE - 1) * step < end; row += AT_ONCE * step) {
        gr_pack<C, N> x[AT_ONCE], dy[AT_ONCE];

#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            x[u] = g.x.template get<C, N>(p.base + (row + u * step) * g.k.n_channels);
            dy[u] = g.dy.template get<C, N>(p.base + (row + u * step) * g.k.n_channels);
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            add_row(&a, stats_at<C>(g.mean, g.rstd, row + u * step), x[u], dy[u]);
    }
    for (; row < end; row += step)
        add_row(&a, stats_at<C>(g.mean, g.rstd, row),
                g.x.template get<C, N>(p.base + row * g.k.n_channels),
                g.dy.template get<C, N>(p.base + row * g.k.n_channels));
    gr_norm_keep(work, g.k, p, a, gr_norm_sum());
}

/* ---- launch ---- */

static const char launch_text[] = "row norm gradient launch";

static bool has_vectors(const gr_node *n)
{
    const gr_row_norm_attr *at = (const gr_row_norm_attr *)n->attr;

    return at->has_weight || at->has_bias;
}

/* From the parts in the workspace. */
template <class C> static gr_status launch_finish(const gr_launch *l, const gr_norm_cut &k)
{
    const gr_row_norm_attr *at = (const gr_row_norm_attr *)l->node->attr;
    gr_norm_sink to = { at->has_bias ? l->out[2] : NULL,
                        at->has_weight ? l->out[1] : NULL,
                        l->node->out[1].dtype,
                        { NULL, GR_F32 } };

    return gr_cuda_launch(launch_text, gr_norm_second_grid(&k), gr_cuda_stream(l->stream),
                          gr_norm_finish_sums<C>, to, (const C *)l->work, k);
}

/* Blocks of grad_held for teams of so many threads. */
static int64_t held_blocks(int64_t n_rows, int threads)
{
    int64_t blocks = gr_ceil_div(n_rows, threads == 32 ? 4 : 1);

    return blocks < GR_NORM_BLOCKS ? blocks : GR_NORM_BLOCKS;
}

template <int THREADS, int N, int K, class X, class V, class W, class Y>
static gr_status launch_held(const gr_launch *l, const grad_args<X, V, W, Y> &a)
{
    gr_cuda_grid g = gr_cuda_grid_rows<THREADS>(a.p.n);
    gr_norm_cut k = { 1, a.p.n, a.p.c, 1, held_blocks(a.p.n, THREADS) };
    float *work = has_vectors(l->node) ? (float *)l->work : NULL;

    g.x = k.n_parts;
    GR_TRY(gr_cuda_launch(launch_text, g, gr_cuda_stream(l->stream),
                          grad_held<THREADS, N, K, float, X, V, W, Y>, work, a));
    return work ? launch_finish<float>(l, k) : GR_OK;
}

template <int THREADS, int N, class C, class X, class V, class W, class Y>
static gr_status launch_apart(const gr_launch *l, const grad_args<X, V, W, Y> &a)
{
    cudaStream_t s = gr_cuda_stream(l->stream);

    if (a.p.c == 0)
        return GR_OK;
    GR_TRY(gr_cuda_launch(launch_text, gr_cuda_grid_rows<THREADS>(a.p.n), s,
                          grad_rows<THREADS, N, C, X, V, W, Y>, a));
    if (!has_vectors(l->node))
        return GR_OK;
    GR_TRY(gr_cuda_launch(launch_text, gr_norm_first_grid(&a.k, N), s,
                          grad_columns<N, C, X, V, W, Y>, (C *)l->work, a));
    return launch_finish<C>(l, a.k);
}

template <class T> static gr_status launch_fast(const gr_launch *l)
{
    const gr_row_norm_attr *at = (const gr_row_norm_attr *)l->node->attr;
    const int N = gr_pack_lanes<T>();
    bool centred = l->node->n_out == 3;
    grad_args<gr_norm_typed<T>, gr_norm_typed<float>, gr_norm_typed<float>, gr_norm_typed_out<T>> a;
    int64_t c;

    a.p = gr_norm_rows_of(l->node);
    a.x.mem = (const T *)l->src[0];
    a.dy.mem = (const T *)l->src[1];
    a.mean.mem = centred ? (const float *)l->src[2] : NULL;
    a.rstd.mem = (const float *)l->src[centred ? 3 : 2];
    a.weight.mem = at->has_weight ? (const float *)l->src[centred ? 4 : 3] : NULL;
    a.dx.mem = (T *)l->out[0];
    a.k = gr_norm_cut_node(l->node, false, N);
    c = a.p.c;
    if (c % N != 0 || !gr_pack_is_aligned(a.x.mem, a.dy.mem, a.weight.mem, a.dx.mem))
        return c <= 1024 ? launch_apart<32, 1, float>(l, a) : launch_apart<256, 1, float>(l, a);
    if (c == 0 || c > MAX_HELD)
        return launch_apart<256, N, float>(l, a);
    if (c <= 32 * N)
        return launch_held<32, N, 1>(l, a);
    if (c <= 32 * HELD)
        return launch_held<32, N, HELD / N>(l, a);
    if (c <= 128 * N)
        return launch_held<128, N, 1>(l, a);
    if (c <= 128 * HELD)
        return launch_held<128, N, HELD / N>(l, a);
    return launch_held<512, N, HELD / N>(l, a);
}

static const char *fast_reject(const gr_node *n)
{
    return gr_norm_rows_reject(n, n->n_out == 3 ? 4 : 3);
}

static gr_status fast_run(const gr_launch *l)
{
    switch (l->node->src[0]->dtype) {
    case GR_F32: return launch_fast<float>(l);
    case GR_BF16: return launch_fast<__nv_bfloat16>(l);
    default: return launch_fast<__half>(l);
    }
}

/* Of the way that needs more: which one it is follows from addresses, too. */
static size_t fast_workspace(const gr_node *n, const void *data)
{
    gr_norm_rows_args p = gr_norm_rows_of(n);
    gr_norm_cut k = gr_norm_cut_node(n, false, 16 / (int)gr_dtype_bytes(n->src[0]->dtype));
    int64_t blocks = held_blocks(p.n, 128);

    (void)data;
    k.n_parts = k.n_parts > blocks ? k.n_parts : blocks;
    return has_vectors(n) ? gr_norm_cut_bytes(&k, sizeof(float)) : 0;
}

/* ---- any types, in double ---- */

static gr_status plain_run(const gr_launch *l)
{
    const gr_row_norm_attr *at = (const gr_row_norm_attr *)l->node->attr;
    bool centred = l->node->n_out == 3;
    gr_norm_any none = { NULL, GR_F32 };
    grad_args<gr_norm_any, gr_norm_any, gr_norm_any, gr_norm_any_out> a;

    a.p = gr_norm_rows_of(l->node);
    a.x = gr_norm_source(l, 0);
    a.dy = gr_norm_source(l, 1);
    a.mean = centred ? gr_norm_source(l, 2) : none;
    a.rstd = gr_norm_source(l, centred ? 3 : 2);
    a.weight = at->has_weight ? gr_norm_source(l, centred ? 4 : 3) : none;
    a.dx.mem = l->out[0];
    a.dx.type = l->node->out[0].dtype;
    a.k = gr_norm_cut_node(l->node, false, 1);
    return launch_apart<32, 1, double>(l, a);
}

static size_t plain_workspace(const gr_node *n, const void *data)
{
    gr_norm_cut k = gr_norm_cut_node(n, false, 1);

    (void)data;
    return has_vectors(n) ? gr_norm_cut_bytes(&k, sizeof(double)) : 0;
}

#define KERNELS(table)                    \
    const gr_kernel table[] = {           \
        {                                 \
            .name = "rows",               \
            .reject = fast_reject,        \
            .prepare = NULL,              \
            .workspace = fast_workspace,  \
            .run = fast_run,              \
            .release = NULL,              \
            .no_capture = false,          \
            .in_place = false,            \
        },                                \
        {                                 \
            .name = "plain",              \
            .reject = NULL,               \
            .prepare = NULL,              \
            .workspace = plain_workspace, \
            .run = plain_run,             \
            .release = NULL,              \
            .no_capture = false,          \
            .in_place = false,            \
        },                                \
        {},                               \
    }

KERNELS(gr_layer_norm_grad_cuda);
KERNELS(gr_rms_norm_grad_cuda);

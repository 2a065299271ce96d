/*
 * Gradients of layer_norm and rms_norm on the GPU. dx: a warp or a block takes a row, as forward.
 * dw and db: sums down the rows in the two stages of norm_columns.cuh, which read x and dy a
 * second time.
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

/* ---- dx ---- */

/* With q = dy w: rstd (q - mean(q) - xhat mean(q xhat)); without a mean of q in rms_norm, and
 * without the other where rstd was held by the clamp. */
template <int THREADS, int N, int K, class C, class X, class V, class W, class Y>
static __global__ void grad_rows(const __grid_constant__ grad_args<X, V, W, Y> a)
{
    int64_t row = gr_cuda_row(), c = a.p.c, first = row * c;
    gr_pack<C, N> held_x[K > 0 ? K : 1], held_q[K > 0 ? K : 1];
    C sum = 0, dot = 0;
    Y dx = a.dx;

    if (row >= a.p.n)
        return;

    row_stats<C> s = stats_at<C>(a.mean, a.rstd, row);
    auto load = [&](int64_t i, gr_pack<C, N> *xhat, gr_pack<C, N> *q) {
        gr_pack<C, N> w = gr_norm_vector_at<C, N>(a.weight, i, (C)1);

        *xhat = a.x.template get<C, N>(first + i);
        *q = a.dy.template get<C, N>(first + i);
#pragma unroll
        for (int j = 0; j < N; j++) {
            xhat->v[j] = (xhat->v[j] - s.mean) * s.rstd;
            q->v[j] *= w.v[j];
        }
    };

    gr_norm_each<THREADS, N, K>(c, [&](int k, int64_t i) {
        load(i, &held_x[k], &held_q[k]);
#pragma unroll
        for (int j = 0; j < N; j++) {
            sum += held_q[k].v[j];
            dot += held_q[k].v[j] * held_x[k].v[j];
        }
    });
    sum = gr_team_join<THREADS>(sum, gr_plus()) / (C)c;
    dot = gr_team_join<THREADS>(dot, gr_plus()) / (C)c;
    sum = a.p.centred ? sum : (C)0;
    dot = a.p.clamped && s.rstd >= (C)a.p.most ? (C)0 : dot;
    gr_norm_each<THREADS, N, K>(c, [&](int k, int64_t i) {
        if (K == 0)
            load(i, &held_x[0], &held_q[0]);
#pragma unroll
        for (int j = 0; j < N; j++)
            held_q[k].v[j] = s.rstd * (held_q[k].v[j] - sum - held_x[k].v[j] * dot);
        dx.put(first + i, held_q[k]);
    });
}

/* ---- dw and db ---- */

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

template <int N, class C, class X, class V, class W, class Y>
static gr_status launch_sums(const gr_launch *l, const grad_args<X, V, W, Y> &a)
{
    const gr_row_norm_attr *at = (const gr_row_norm_attr *)l->node->attr;
    cudaStream_t s = gr_cuda_stream(l->stream);
    gr_norm_sink to = { at->has_bias && a.p.centred ? l->out[2] : NULL,
                        at->has_weight ? l->out[1] : NULL,
                        l->node->out[1].dtype,
                        { NULL, GR_F32 } };

    if (!to.sum && !to.dot)
        return GR_OK;
    GR_TRY(gr_cuda_launch(launch_text, gr_norm_first_grid(&a.k, N), s,
                          grad_columns<N, C, X, V, W, Y>, (C *)l->work, a));
    return gr_cuda_launch(launch_text, gr_norm_second_grid(&a.k), s, gr_norm_finish_sums<C>, to,
                          (const C *)l->work, a.k);
}

template <int THREADS, int N, int K, class C, class X, class V, class W, class Y>
static gr_status launch(const gr_launch *l, const grad_args<X, V, W, Y> &a)
{
    if (a.p.c > 0)
        GR_TRY(gr_cuda_launch(launch_text, gr_cuda_grid_rows<THREADS>(a.p.n),
                              gr_cuda_stream(l->stream), grad_rows<THREADS, N, K, C, X, V, W, Y>,
                              a));
    return launch_sums<N, C>(l, a);
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
        return c <= 1024 ? launch<32, 1, 0, float>(l, a) : launch<256, 1, 0, float>(l, a);
    if (c <= 32 * N)
        return launch<32, N, 1, float>(l, a);
    if (c <= 32 * HELD)
        return launch<32, N, HELD / N, float>(l, a);
    if (c <= 128 * HELD)
        return launch<128, N, HELD / N, float>(l, a);
    if (c <= MAX_HELD)
        return launch<512, N, HELD / N, float>(l, a);
    return launch<256, N, 0, float>(l, a);
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

static size_t workspace_of(const gr_node *n, int lanes, size_t element)
{
    const gr_row_norm_attr *at = (const gr_row_norm_attr *)n->attr;
    gr_norm_cut k = gr_norm_cut_node(n, false, lanes);

    return at->has_weight || at->has_bias ? gr_norm_cut_bytes(&k, element) : 0;
}

static size_t fast_workspace(const gr_node *n, const void *data)
{
    (void)data;
    return workspace_of(n, 16 / (int)gr_dtype_bytes(n->src[0]->dtype), sizeof(float));
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
    return launch<32, 1, 0, double>(l, a);
}

static size_t plain_workspace(const gr_node *n, const void *data)
{
    (void)data;
    return workspace_of(n, 1, sizeof(double));
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

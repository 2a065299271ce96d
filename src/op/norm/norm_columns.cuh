/*
 * Two numbers for each channel of x [sample, row, channel], in two stages without atomics.
 *
 * The rows of a sample are cut into parts, whose length follows from the shape alone. A block
 * (X, Y) of the first stage takes some channels of one part: a thread owns N neighbouring
 * channels and walks every Y-th row, the threads of a column are joined in a fixed tree, and the
 * results go to the workspace, [sample, part, 2, channel]. The second stage joins the parts, in
 * double. x is read once.
 */
#ifndef GR_OP_NORM_COLUMNS_CUH
#define GR_OP_NORM_COLUMNS_CUH

#include "backend/cuda/launch.cuh"
#include "backend/cuda/pack.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/types.cuh"
#include "graph/op.h"

#define GR_NORM_BLOCK  256
#define GR_NORM_BLOCKS 528 /* of the first stage, if there are rows for them: four per SM */
#define GR_NORM_ROWS   8   /* per thread, at least, before a sample is cut */

/* The second stage: vectors per block, and threads that share the parts of one. */
#define GR_NORM_X 8
#define GR_NORM_Y 32

typedef struct gr_norm_cut {
    int64_t n_samples, n_rows, n_channels;
    int64_t part_rows, n_parts;
} gr_norm_cut;

/* Threads along the channels, for packs of `lanes`. */
static inline int gr_norm_width(int64_t n_channels, int lanes)
{
    int x = 1;

    while (x < 32 && (int64_t)x * lanes < n_channels)
        x *= 2;
    return x;
}

/* `lanes`: of the widest access that the type allows; what is used may be less. */
static inline gr_norm_cut gr_norm_cut_of(int64_t n_samples, int64_t n_rows, int64_t n_channels,
                                         int lanes)
{
    gr_norm_cut k = { n_samples, n_rows, n_channels, 1, 1 };
    int x = gr_norm_width(n_channels, lanes);
    int64_t columns = gr_ceil_div(n_channels, (int64_t)x * lanes) * n_samples;
    int64_t wanted = n_rows / (GR_NORM_BLOCK / x * GR_NORM_ROWS);
    int64_t most = GR_NORM_BLOCKS / (columns > 0 ? columns : 1);
    int64_t n = wanted < most ? wanted : most;

    if (n_rows == 0)
        return k;
    k.part_rows = gr_ceil_div(n_rows, n > 1 ? n : 1);
    k.n_parts = gr_ceil_div(n_rows, k.part_rows);
    return k;
}

/* x [n, .., c]: all rows together, or those of each sample (of the first dimension). */
static inline gr_norm_cut gr_norm_cut_node(const gr_node *n, bool per_sample, int lanes)
{
    const gr_shape *s = &n->src[0]->shape;
    int64_t samples = 1, rows = 1, channels = s->dim[s->n_dims - 1];

    for (int d = 0; d < s->n_dims - 1; d++)
        *(d == 0 && per_sample ? &samples : &rows) *= s->dim[d];
    if (channels % lanes != 0)
        lanes = 1;
    return gr_norm_cut_of(samples, rows, channels, lanes);
}

static inline size_t gr_norm_cut_bytes(const gr_norm_cut *k, size_t element)
{
    return (size_t)(k->n_samples * k->n_parts * 2 * k->n_channels) * element;
}

static inline gr_cuda_grid gr_norm_first_grid(const gr_norm_cut *k, int lanes)
{
    int x = gr_norm_width(k->n_channels, lanes);
    int64_t columns = gr_ceil_div(k->n_channels, (int64_t)x * lanes);

    return gr_cuda_grid_of(columns * k->n_parts * k->n_samples, 1, dim3(x, GR_NORM_BLOCK / x));
}

/* At least one block, also where there is no channel. */
static inline gr_cuda_grid gr_norm_second_grid(const gr_norm_cut *k)
{
    int64_t blocks = gr_ceil_div(k->n_samples * k->n_channels, GR_NORM_X);

    return gr_cuda_grid_of(blocks > 0 ? blocks : 1, 1, dim3(GR_NORM_X, GR_NORM_Y));
}

/* ---- sources ---- */

/* Of a type that is known, in packs. */
template <class T> struct gr_norm_typed {
    const T *mem;

    template <class C, int N> __device__ __forceinline__ gr_pack<C, N> get(int64_t i) const
    {
        return gr_pack_load<C, N>(mem + i);
    }
};

/* Of any type, one by one. */
struct gr_norm_any {
    const void *mem;
    gr_dtype type;

    template <class C, int N> __device__ __forceinline__ gr_pack<C, N> get(int64_t i) const
    {
        gr_pack<C, N> p;

#pragma unroll
        for (int j = 0; j < N; j++)
            p.v[j] = (C)gr_load_f64(mem, i + j, type);
        return p;
    }
};

static inline gr_norm_any gr_norm_source(const gr_launch *l, int s)
{
    gr_norm_any a = { l->src[s], l->node->src[s]->dtype };

    return a;
}

/* ---- the first stage ---- */

/* What one thread has to do: rows lo + threadIdx.y, + blockDim.y .. below hi. */
typedef struct gr_norm_place {
    bool is_in;
    int64_t sample, channel;
    int64_t lo, hi;
    int64_t base; /* of element [sample, 0, channel] */
    int64_t to;   /* of the first result, in the workspace */
} gr_norm_place;

template <int N>
static __device__ __forceinline__ gr_norm_place gr_norm_place_of(const gr_norm_cut &k)
{
    int64_t width = (int64_t)blockDim.x * N;
    int64_t columns = (k.n_channels + width - 1) / width;
    int64_t unit = (int64_t)blockIdx.x / columns;
    int64_t part = unit % k.n_parts;
    gr_norm_place p;

    p.sample = unit / k.n_parts;
    p.channel = ((int64_t)blockIdx.x - unit * columns) * width + (int64_t)threadIdx.x * N;
    p.is_in = p.channel < k.n_channels;
    p.lo = part * k.part_rows;
    p.hi = p.lo + k.part_rows < k.n_rows ? p.lo + k.part_rows : k.n_rows;
    p.base = p.sample * k.n_rows * k.n_channels + p.channel;
    p.to = unit * 2 * k.n_channels + p.channel;
    return p;
}

/* Two numbers of each of N channels. n: how many values they are made of, where that matters;
 * it also makes the number of words odd, so that threads meet different banks. */
template <class C, int N> struct gr_norm_pair {
    C first[N], second[N];
    C n;
};

struct gr_norm_sum {
    template <class C, int N>
    __device__ __forceinline__ gr_norm_pair<C, N> operator()(gr_norm_pair<C, N> a,
                                                             const gr_norm_pair<C, N> &b) const
    {
#pragma unroll
        for (int j = 0; j < N; j++) {
            a.first[j] += b.first[j];
            a.second[j] += b.second[j];
        }
        return a;
    }
};

/* Threads of a column, into the one with threadIdx.y = 0; all threads of the block call. */
template <class P, class Op> static __device__ __forceinline__ P gr_norm_tree(P a, Op op)
{
    __shared__ P slots[GR_NORM_BLOCK / 2];

    for (unsigned d = blockDim.y / 2; d > 0; d /= 2) {
        if (threadIdx.y >= d && threadIdx.y < 2 * d)
            slots[(threadIdx.y - d) * blockDim.x + threadIdx.x] = a;
        __syncthreads();
        if (threadIdx.y < d)
            a = op(a, slots[threadIdx.y * blockDim.x + threadIdx.x]);
        __syncthreads();
    }
    return a;
}

/* Both numbers of N channels, `apart` elements from one to the other. */
template <int N, class C>
static __device__ __forceinline__ void gr_norm_put(C *to, int64_t apart,
                                                   const gr_norm_pair<C, N> &a)
{
    gr_pack<C, N> first, second;

#pragma unroll
    for (int j = 0; j < N; j++) {
        first.v[j] = a.first[j];
        second.v[j] = a.second[j];
    }
    gr_pack_store(to, first);
    gr_pack_store(to + apart, second);
}

/* The end of the first stage. */
template <int N, class C, class Op>
static __device__ __forceinline__ void
gr_norm_keep(C *work, const gr_norm_cut &k, const gr_norm_place &p, gr_norm_pair<C, N> a, Op op)
{
    a = gr_norm_tree(a, op);
    if (threadIdx.y == 0 && p.is_in)
        gr_norm_put<N>(work + p.to, k.n_channels, a);
}

/* ---- the second stage ---- */

/* The vector of this thread; n_samples * n_channels or more: none. */
static __device__ __forceinline__ int64_t gr_norm_vector()
{
    return (int64_t)blockIdx.x * GR_NORM_X + threadIdx.x;
}

/* A vector's numbers in a part, and how many rows that has. */
template <class C>
static __device__ __forceinline__ gr_norm_pair<double, 1>
gr_norm_part(const C *work, const gr_norm_cut &k, int64_t vector, int64_t part)
{
    int64_t sample = vector / k.n_channels, left = k.n_rows - part * k.part_rows;
    int64_t at = (sample * k.n_parts + part) * 2 * k.n_channels + vector - sample * k.n_channels;
    gr_norm_pair<double, 1> p;

    p.first[0] = (double)work[at];
    p.second[0] = (double)work[at + k.n_channels];
    p.n = (double)(left < k.part_rows ? left : k.part_rows);
    return p;
}

/* All parts, for threads with threadIdx.y = 0; all threads of the block call. */
template <class C, class Op>
static __device__ __forceinline__ gr_norm_pair<double, 1> gr_norm_parts(const C *work,
                                                                        const gr_norm_cut &k, Op op)
{
    int64_t vector = gr_norm_vector();
    gr_norm_pair<double, 1> a = {};

    if (vector < k.n_samples * k.n_channels)
#pragma unroll 4
        for (int64_t part = threadIdx.y; part < k.n_parts; part += GR_NORM_Y)
            a = op(a, gr_norm_part(work, k, vector, part));
    return gr_columns_join<GR_NORM_X, GR_NORM_Y>(a, op);
}

/* Where the two sums go: NULL is not wanted. */
typedef struct gr_norm_sink {
    void *sum, *dot;
    gr_dtype type;
    gr_norm_any factor; /* of each dot; mem NULL: 1 */
} gr_norm_sink;

template <class C>
static __global__ void gr_norm_finish_sums(const __grid_constant__ gr_norm_sink to, const C *work,
                                           const __grid_constant__ gr_norm_cut k)
{
    int64_t vector = gr_norm_vector();
    gr_norm_pair<double, 1> a = gr_norm_parts(work, k, gr_norm_sum());

    if (threadIdx.y != 0 || vector >= k.n_samples * k.n_channels)
        return;
    if (to.factor.mem)
        a.second[0] *= gr_load_f64(to.factor.mem, vector, to.factor.type);
    if (to.sum)
        gr_store_f64(to.sum, vector, to.type, a.first[0]);
    if (to.dot)
        gr_store_f64(to.dot, vector, to.type, a.second[0]);
}

#endif

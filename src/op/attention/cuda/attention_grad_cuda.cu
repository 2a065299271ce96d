/*
 * The gradients of attention on the GPU, all from probabilities that are computed again out of
 * the log-sum-exp, a tile of 64 queries and 64 keys at a time:
 *
 *   dq      a block has 64 queries of a head and goes through the keys
 *   dk, dv  a block has 64 keys of a key head and goes through its query heads and queries
 *   dbias   a block has a tile of the bias and goes through all pairs that share it
 *
 * Each block owns what it writes and adds in ascending order, so there are no atomics. dq and
 * dk, dv take several blocks for head sizes beyond 128 (64 in f64).
 */
#include "op/attention/cuda/attention_fma.cuh"

#include "backend/cuda/reduce.cuh"
#include "op/module_cuda.h"

#define TILE GR_ATTENTION_TILE

/* ---- o · do ---- */

/* delta [b, hq, nq]; a warp to a query, grid-stride. */
template <class C>
static __global__ void sum_deltas(const __grid_constant__ gr_attention_args p, int64_t n)
{
    for (int64_t i = gr_cuda_row(); i < n; i += (int64_t)gridDim.x * blockDim.y) {
        int64_t bh = i / p.d.nq, q = i - bh * p.d.nq, b = bh / p.d.hq;
        int64_t from = gr_attention_o_at(p.d, b, bh - b * p.d.hq, q);
        C sum = 0;

        for (int64_t c = threadIdx.x; c < p.d.d; c += 32)
            sum += (C)gr_load_f64(p.o, from + c, p.o_type) *
                   (C)gr_load_f64(p.d_o, from + c, p.d_o_type);
        sum = gr_warp_join(sum, gr_plus());
        if (threadIdx.x == 0)
            ((C *)p.delta)[i] = sum;
    }
}

/* ---- pairs ---- */

/* One head's queries and keys whose pairs are computed. */
typedef struct span {
    int64_t b, h, g; /* g: the key head */
    int64_t q, k;    /* where the tile begins */
} span;

static __device__ __forceinline__ gr_fma_rows grads_of(const gr_attention_args &p, const span &s,
                                                       gr_dtype own)
{
    return { p.d_o,
             p.d_o_type,
             p.d_o_type != own,
             gr_attention_o_at(p.d, s.b, s.h, s.q),
             p.d.hq * p.d.d,
             p.d.nq - s.q,
             p.d.d,
             NULL };
}

template <class T> static __device__ __forceinline__ gr_dtype type_of(T);
template <> __device__ __forceinline__ gr_dtype type_of(float)
{
    return GR_F32;
}
template <> __device__ __forceinline__ gr_dtype type_of(double)
{
    return GR_F64;
}
template <> __device__ __forceinline__ gr_dtype type_of(__nv_bfloat16)
{
    return GR_BF16;
}
template <> __device__ __forceinline__ gr_dtype type_of(__half)
{
    return GR_F16;
}

/* Of thread's pairs: what multiplies do in dv, and the gradient of the score. */
template <class C> struct pair_grads {
    C p[4][4], ds[4][4];
};

/* From scores and do · v to gradients. BY_KEYS: rows of the tile are keys. */
template <bool BY_KEYS, class C>
static __device__ __forceinline__ void finish_pairs(pair_grads<C> &w, const gr_attention_args &p,
                                                    const span &s, const gr_attention_drop &drop,
                                                    const gr_attention_bits *bits)
{
    const int64_t at = (s.b * p.d.hq + s.h) * p.d.nq + s.q;

    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int row = (int)threadIdx.x / 16 + 16 * i, col = (int)threadIdx.x % 16 + 16 * j;
            const int q = BY_KEYS ? col : row, k = BY_KEYS ? row : col;
            C score = w.p[i][j] * (C)p.scale, dp = w.ds[i][j], keep = 1, lse;

            w.p[i][j] = w.ds[i][j] = 0;
            if (!gr_attention_sees(p, s.b, s.q + q, s.k + k))
                continue;
            lse = ((const C *)p.lse)[at + q];
            if (lse == -(C)INFINITY)
                continue;
            if (p.bias)
                score += gr_attention_bias<C>(p, s.b, s.h, s.q + q, s.k + k);
            if (drop.threshold > 0)
                keep = gr_attention_is_kept(bits, q, k) ? (C)drop.keep : (C)0;
            score = gr_fma_exp(score - lse);
            w.p[i][j] = keep * score;
            w.ds[i][j] = score * (keep * dp - ((const C *)p.delta)[at + q]);
        }
}

template <class T, bool BY_KEYS, class C>
static __device__ __forceinline__ void compute_pairs(pair_grads<C> &w, gr_fma_room<C> *room,
                                                     const gr_attention_args &p, const span &s,
                                                     const gr_attention_drop &drop)
{
    const gr_fma_rows q = gr_fma_queries(p, s.b, s.h, s.q), k = gr_fma_keys(p, s.b, s.g, s.k);
    const gr_fma_rows d_o = grads_of(p, s, type_of(T())), v = gr_fma_values(p, s.b, s.g, s.k);

    gr_fma_dots<T>(w.p, room->stage, BY_KEYS ? k : q, BY_KEYS ? q : k);
    gr_fma_dots<T>(w.ds, room->stage, BY_KEYS ? v : d_o, BY_KEYS ? d_o : v);
    if (drop.threshold > 0) {
        gr_attention_spot at = { s.b, s.h, s.q };

        __syncthreads();
        gr_attention_draw<TILE>(&room->bits, drop, at, s.q, s.k);
        __syncthreads();
    }
    finish_pairs<BY_KEYS>(w, p, s, drop, &room->bits);
}

/* To where gr_fma_sums() reads them. */
template <class C>
static __device__ __forceinline__ void put_pairs(gr_fma_room<C> *room, const C (&x)[4][4])
{
    __syncthreads();
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            room->pairs[gr_fma_pair<C>(i, j)] = x[i][j];
}

/* ---- dq ---- */

/* Grid (tiles of queries of all heads, stretches of 16 N columns). */
template <class T, int N>
static __global__ void __launch_bounds__(GR_FMA_THREADS)
    grad_q(const __grid_constant__ gr_attention_args p)
{
    typedef typename gr_compute<T>::type C;
    extern __shared__ __align__(16) char shared[];
    gr_fma_room<C> *room = (gr_fma_room<C> *)shared;
    const gr_attention_spot at = gr_attention_spot_of(p, p.d.hq, TILE);
    const int64_t c0 = (int64_t)blockIdx.y * 16 * N;
    const int64_t seen = p.causal ? at.first + TILE : p.d.nk;
    const int64_t n_keys = seen < p.d.nk ? seen : p.d.nk;
    span s = { at.b, at.h, at.h / (p.d.hq / p.d.hkv), at.first, 0 };
    gr_attention_drop drop = p.drop;
    C dq[4][N] = {};

    gr_attention_drop_bind(&drop, p.scalars);
    for (; s.k < n_keys; s.k += TILE) {
        pair_grads<C> w;

        compute_pairs<T, false>(w, room, p, s, drop);
        put_pairs(room, w.ds);
        gr_fma_sums<T>(dq, room->pairs, room->stage, gr_fma_keys(p, s.b, s.g, s.k), c0);
    }
    for (int i = 0; i < 4; i++)
        for (int u = 0; u < N; u++) {
            int64_t q = at.first + threadIdx.x / 16 + 16 * i, c = c0 + gr_fma_col<C>(u);

            if (q < p.d.nq && c < p.d.d)
                gr_store_f64(p.dq, gr_attention_q_at(p.d, s.b, s.h, q) + c, p.out_type,
                             (double)(dq[i][u] * (C)p.scale));
        }
}

/* ---- dk, dv ---- */

template <class C, int N>
static __device__ __forceinline__ void put_keys(const gr_attention_args &p, const span &s,
                                                int64_t c0, const C (&dk)[4][N],
                                                const C (&dv)[4][N])
{
    for (int i = 0; i < 4; i++)
        for (int u = 0; u < N; u++) {
            int64_t k = s.k + threadIdx.x / 16 + 16 * i, c = c0 + gr_fma_col<C>(u);

            if (k >= p.d.nk || c >= p.d.d)
                continue;
            gr_store_f64(p.dk, gr_attention_k_at(p.d, s.b, s.g, k) + c, p.out_type,
                         (double)(dk[i][u] * (C)p.scale));
            gr_store_f64(p.dv, gr_attention_v_at(p.d, s.b, s.g, k) + c, p.out_type,
                         (double)dv[i][u]);
        }
}

/* Grid (tiles of keys of all key heads, stretches of 16 N columns). */
template <class T, int N>
static __global__ void __launch_bounds__(GR_FMA_THREADS)
    grad_kv(const __grid_constant__ gr_attention_args p)
{
    typedef typename gr_compute<T>::type C;
    extern __shared__ __align__(16) char shared[];
    gr_fma_room<C> *room = (gr_fma_room<C> *)shared;
    const gr_attention_spot at = gr_attention_spot_of(p, p.d.hkv, TILE);
    const int64_t c0 = (int64_t)blockIdx.y * 16 * N, per_group = p.d.hq / p.d.hkv;
    span s = { at.b, 0, at.h, 0, at.first };
    gr_attention_drop drop = p.drop;
    C dk[4][N] = {}, dv[4][N] = {};

    gr_attention_drop_bind(&drop, p.scalars);
    for (s.h = at.h * per_group; s.h < (at.h + 1) * per_group; s.h++)
        for (s.q = p.causal ? at.first : 0; s.q < p.d.nq; s.q += TILE) {
            pair_grads<C> w;

            compute_pairs<T, true>(w, room, p, s, drop);
            put_pairs(room, w.p);
            gr_fma_sums<T>(dv, room->pairs, room->stage, grads_of(p, s, type_of(T())), c0);
            put_pairs(room, w.ds);
            gr_fma_sums<T>(dk, room->pairs, room->stage, gr_fma_queries(p, s.b, s.h, s.q), c0);
        }
    put_keys(p, s, c0, dk, dv);
}

/* ---- dbias ---- */

/* A dimension of the pairs as a tile of the bias goes through it: its own part, or all where
 * the bias is stretched over it. */
typedef struct range {
    int64_t lo, hi;
} range;

static __device__ __forceinline__ range range_of(int64_t n_bias, int64_t n, int64_t at,
                                                 int64_t size)
{
    range r = { at * size, (at + 1) * size < n ? (at + 1) * size : n };

    if (n_bias == 1) {
        r.lo = 0;
        r.hi = n;
    }
    return r;
}

/* Tiles of the bias in dimension 2 or 3. */
static __host__ __device__ __forceinline__ int64_t bias_tiles(const gr_attention_dims &d, int i)
{
    return gr_ceil_div(d.bias_dim[i], TILE);
}

/* Adds up a tile's rows, columns or both where the bias has one: into row 0, column 0. */
template <class C>
static __device__ __forceinline__ void fold_tile(const gr_attention_args &p, C *tile)
{
    const int ld = gr_fma<C>::ld_pairs, t = (int)threadIdx.x;

    __syncthreads();
    if (p.d.bias_dim[3] == 1 && t < TILE)
        for (int c = 1; c < TILE; c++)
            tile[t * ld] += tile[t * ld + c];
    __syncthreads();
    if (p.d.bias_dim[2] == 1 && t < TILE)
        for (int r = 1; r < TILE; r++)
            tile[t] += tile[r * ld + t];
    __syncthreads();
}

/* Of all pairs of a head that share the tile. */
template <class T, class C>
static __device__ __forceinline__ void add_head(C (&sum)[4][4], gr_fma_room<C> *room,
                                                const gr_attention_args &p, span s, range rq,
                                                range rk, const gr_attention_drop &drop)
{
    for (s.q = rq.lo; s.q < rq.hi; s.q += TILE)
        for (s.k = rk.lo; s.k < rk.hi && !(p.causal && s.k >= s.q + TILE); s.k += TILE) {
            pair_grads<C> w;

            compute_pairs<T, false>(w, room, p, s, drop);
            for (int i = 0; i < 16; i++)
                sum[i / 4][i % 4] += w.ds[i / 4][i % 4];
        }
}

/* Grid of the tiles of the bias. */
template <class T>
static __global__ void __launch_bounds__(GR_FMA_THREADS)
    grad_bias(const __grid_constant__ gr_attention_args p)
{
    typedef typename gr_compute<T>::type C;
    extern __shared__ __align__(16) char shared[];
    gr_fma_room<C> *room = (gr_fma_room<C> *)shared;
    const int64_t n_q = bias_tiles(p.d, 2), n_k = bias_tiles(p.d, 3);
    const int64_t at_k = blockIdx.x % n_k, at_q = blockIdx.x / n_k % n_q;
    const int64_t at_h = blockIdx.x / (n_k * n_q) % p.d.bias_dim[1];
    const int64_t at_b = blockIdx.x / (n_k * n_q) / p.d.bias_dim[1];
    const range rb = range_of(p.d.bias_dim[0], p.d.b, at_b, 1);
    const range rh = range_of(p.d.bias_dim[1], p.d.hq, at_h, 1);
    const range rq = range_of(p.d.bias_dim[2], p.d.nq, at_q, TILE);
    const range rk = range_of(p.d.bias_dim[3], p.d.nk, at_k, TILE);
    gr_attention_drop drop = p.drop;
    C sum[4][4] = {};
    span s = {};

    gr_attention_drop_bind(&drop, p.scalars);
    for (s.b = rb.lo; s.b < rb.hi; s.b++)
        for (s.h = rh.lo; s.h < rh.hi; s.h++) {
            s.g = s.h / (p.d.hq / p.d.hkv);
            add_head<T>(sum, room, p, s, rq, rk, drop);
        }
    put_pairs(room, sum);
    fold_tile(p, room->pairs);
    for (int i = threadIdx.x; i < TILE * TILE; i += GR_FMA_THREADS) {
        int64_t q = at_q * TILE + i / TILE, k = at_k * TILE + i % TILE;

        if (q < p.d.bias_dim[2] && k < p.d.bias_dim[3])
            gr_store_f64(p.dbias, gr_attention_bias_at(p.d, at_b, at_h, q, k), p.out_type,
                         (double)room->pairs[i / TILE * gr_fma<C>::ld_pairs + i % TILE]);
    }
}

/* ---- launching ---- */

template <class T, int N> static gr_status launch_columns(gr_attention_args p, cudaStream_t s)
{
    typedef typename gr_compute<T>::type C;
    const int64_t n_parts = gr_ceil_div(p.d.d, 16 * N);
    gr_cuda_grid grid;

    p.n_tiles = gr_ceil_div(p.d.nq, TILE);
    grid = gr_cuda_grid_of(p.d.b * p.d.hq * p.n_tiles, n_parts, GR_FMA_THREADS);
    grid.shared_bytes = sizeof(gr_fma_room<C>);
    GR_TRY(gr_cuda_launch("attention_grad launch of dq", grid, s, grad_q<T, N>, p));
    p.n_tiles = gr_ceil_div(p.d.nk, TILE);
    grid.x = p.d.b * p.d.hkv * p.n_tiles;
    return gr_cuda_launch("attention_grad launch of dk, dv", grid, s, grad_kv<T, N>, p);
}

template <class T> static gr_status launch_bias(const gr_attention_args &p, cudaStream_t s)
{
    gr_cuda_grid grid =
        gr_cuda_grid_of(p.d.bias_dim[0] * p.d.bias_dim[1] * bias_tiles(p.d, 2) * bias_tiles(p.d, 3),
                        1, GR_FMA_THREADS);

    grid.shared_bytes = sizeof(gr_fma_room<typename gr_compute<T>::type>);
    return gr_cuda_launch("attention_grad launch of dbias", grid, s, grad_bias<T>, p);
}

template <class T> static gr_status launch(const gr_attention_args &p, cudaStream_t s)
{
    typedef typename gr_compute<T>::type C;
    const int most = gr_fma<C>::most_cols;
    const int64_t n_rows = p.d.b * p.d.hq * p.d.nq;
    gr_cuda_grid grid = gr_cuda_grid_rows<32>(n_rows);

    grid.x = grid.x < GR_CUDA_MOST_BLOCKS ? grid.x : GR_CUDA_MOST_BLOCKS;
    GR_TRY(gr_cuda_launch("attention_grad launch of o do", grid, s, sum_deltas<C>, p, n_rows));
    if (p.d.d <= most / 2)
        GR_TRY((launch_columns<T, most / 32>(p, s)));
    else
        GR_TRY((launch_columns<T, most / 16>(p, s)));
    return p.dbias ? launch_bias<T>(p, s) : GR_OK;
}

gr_status gr_attention_fma_grad_run(const gr_launch *l)
{
    const gr_attention_args p = gr_attention_grad_args_of(l);

    GR_CUDA_FLOATS(l->node->src[0]->dtype, T, return launch<T>(p, gr_cuda_stream(l->stream)))
}

gr_status gr_attention_fma_grad_bias(const gr_attention_args &p, gr_dtype type, cudaStream_t s)
{
    GR_CUDA_FLOATS(type, T, return launch_bias<T>(p, s))
}

static size_t tiles_workspace(const gr_node *n, const void *data)
{
    const gr_value *lse = n->src[GR_ATTENTION_LSE];

    (void)data;
    return (size_t)gr_shape_count(&lse->shape) * gr_dtype_bytes(lse->dtype);
}

static const char *mma_reject(const gr_node *n)
{
    const gr_dtype t = n->src[0]->dtype;

    if (n->src[3]->dtype != t || n->src[5]->dtype != t)
        return "takes o and its gradient in the type of q, k and v";
    return gr_attention_mma_reject(n);
}

const gr_kernel gr_attention_grad_cuda[] = {
    {
        .name = "mma",
        .reject = mma_reject,
        .takes = NULL,
        .variants = NULL,
        .prepare = gr_attention_mma_grad_prepare,
        .workspace = tiles_workspace,
        .run = gr_attention_mma_grad_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {
        .name = "tiles",
        .reject = NULL,
        .takes = NULL,
        .variants = NULL,
        .prepare = NULL,
        .workspace = tiles_workspace,
        .run = gr_attention_fma_grad_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

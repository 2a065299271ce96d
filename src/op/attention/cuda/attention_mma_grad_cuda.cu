/*
 * The gradients of attention on tensor cores: what attention_grad_cuda.cu does, for 16-bit floats
 * and head sizes up to 128. Probabilities and the gradients of scores are rounded to the type
 * for the products that they go into.
 */
#include "op/attention/cuda/attention_mma.cuh"

#include "backend/cuda/reduce.cuh"

#define TILE GR_ATTENTION_TILE

/* ---- o · do ---- */

/* delta [b, hq, nq]; 16 lanes to a query, 8 columns to a lane. */
template <class T>
static __global__ void sum_deltas_mma(const __grid_constant__ gr_attention_args p, int64_t n)
{
    const int c = (int)threadIdx.x % 16 * 8;
    const int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 16;
    const int64_t bh = i < n ? i / p.d.nq : 0, b = bh / p.d.hq;
    const int64_t from = gr_attention_o_at(p.d, b, bh - b * p.d.hq, i - bh * p.d.nq) + c;
    float sum = 0;

    if (i < n && c < p.d.d) {
        gr_pack<float, 8> o = gr_pack_load<float, 8>((const T *)p.o + from);
        gr_pack<float, 8> g = gr_pack_load<float, 8>((const T *)p.d_o + from);

        for (int j = 0; j < 8; j++)
            sum += o.v[j] * g.v[j];
    }
    sum = gr_warp_join<16>(sum, gr_plus());
    if (i < n && c == 0)
        ((float *)p.delta)[i] = sum;
}

/* ---- pairs ---- */

/* The log-sum-exp of a query as scores are, and +inf, which makes all its probabilities 0, for
 * one that is not there or sees nothing. */
static __device__ __forceinline__ float shift_of(const gr_attention_args &p, int64_t b, int64_t h,
                                                 int64_t q)
{
    float lse = q < p.d.nq ? ((const float *)p.lse)[(b * p.d.hq + h) * p.d.nq + q] : -INFINITY;

    return lse == -INFINITY ? INFINITY : lse * GR_MMA_LOG2_E;
}

static __device__ __forceinline__ float delta_of(const gr_attention_args &p, int64_t b, int64_t h,
                                                 int64_t q)
{
    return q < p.d.nq ? ((const float *)p.delta)[(b * p.d.hq + h) * p.d.nq + q] : 0.0f;
}

template <class T>
static __device__ __forceinline__ gr_mma_rows<T> grads_of(const gr_attention_args &p, int64_t b,
                                                          int64_t h, int64_t q)
{
    return { (const T *)p.d_o + gr_attention_o_at(p.d, b, h, q), p.d.hq * p.d.d, p.d.nq - q, NULL };
}

/* ---- dq ---- */

template <class T, int D> struct q_room {
    gr_mma_tile<T, D, TILE> q, d_o, k[2], v[2];
    gr_attention_bits bits;
};

/* Of a thread's two queries. */
template <int D> struct q_state {
    float shift[2], delta[2], dq[1][D / 8][4];
};

template <class T, int D>
static __device__ __forceinline__ void fill_keys(q_room<T, D> *r, int at, const gr_mma_task &t,
                                                 int64_t k)
{
    const gr_attention_dims &d = t.p.d;
    const int64_t g = t.spot.h / (d.hq / d.hkv);

    gr_mma_fill(&r->k[at], gr_mma_keys<T>(t.p, t.spot.b, g, k), (int)d.d);
    gr_mma_fill(&r->v[at], gr_mma_values<T>(t.p, t.spot.b, g, k), (int)d.d);
}

/* The tile of keys from k on, in buffer `at`. */
template <class T, int D>
static __device__ __forceinline__ void add_keys(q_state<D> &w, q_room<T, D> *r, int at,
                                                const gr_mma_task &t, int64_t k)
{
    const int row = (int)threadIdx.x / 32 * 16;
    const uint64_t seen = gr_mma_seen(t.p, t.spot.b, k);
    const bool is_plain = t.is_plain(t.spot.first, k, seen);
    const float by = (float)t.p.scale * GR_MMA_LOG2_E;
    float s[1][TILE / 8][4], ds[1][TILE / 8][4];

    if (t.drop.threshold > 0) {
        gr_attention_draw<TILE>(&r->bits, t.drop, t.spot, t.spot.first, k);
        __syncthreads();
    }
    gr_mma_dots(s, &r->q, row, r->k[at]);
    gr_mma_dots(ds, &r->d_o, row, r->v[at]);
    for (int i = 0; i < 2; i++) {
        const int q = row + gr_mma_row(2 * i);
        const int reach = is_plain ? TILE : gr_mma_reach(t.p, t.spot.first + q, k);

#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
            for (int e = 0; e < 2; e++) {
                const int col = 8 * n + gr_mma_col(e);
                const float dot = s[0][n][2 * i + e];
                float score = is_plain ? dot * by
                                       : t.score(dot, t.spot.first + q, k + col,
                                                 (seen >> col & 1) && col < reach);
                float &d = ds[0][n][2 * i + e], keep = (float)t.drop.keep;

                if (t.drop.threshold > 0 && !gr_attention_is_kept(&r->bits, q, col))
                    keep = 0;
                d = gr_power_of_2(score - w.shift[i]) * (keep * d - w.delta[i]);
            }
    }
    gr_mma_sums(w.dq, ds, r->k[at]);
}

/* Grid of the tiles of queries of all heads. */
template <class T, int D>
static __global__ void __launch_bounds__(GR_MMA_THREADS)
    grad_q_mma(const __grid_constant__ gr_attention_args p)
{
    if (!GR_MMA_IS_THERE)
        return;
    extern __shared__ __align__(16) char shared[];
    q_room<T, D> *r = (q_room<T, D> *)shared;
    const gr_mma_task t(p, p.d.hq, TILE);
    const gr_attention_spot &spot = t.spot;
    const int64_t n_seen = p.causal ? spot.first + TILE : p.d.nk;
    const int64_t n_keys = n_seen < p.d.nk ? n_seen : p.d.nk;
    const int64_t first = spot.first + threadIdx.x / 32 * 16;
    const float by[2] = { (float)p.scale, (float)p.scale };
    q_state<D> w = {};
    int at = 0;

    for (int i = 0; i < 2; i++) {
        w.shift[i] = shift_of(p, spot.b, spot.h, first + gr_mma_row(2 * i));
        w.delta[i] = delta_of(p, spot.b, spot.h, first + gr_mma_row(2 * i));
    }
    gr_mma_fill(&r->q, gr_mma_queries<T>(p, spot.b, spot.h, spot.first), (int)p.d.d);
    gr_mma_fill(&r->d_o, grads_of<T>(p, spot.b, spot.h, spot.first), (int)p.d.d);
    if (n_keys > 0)
        fill_keys(r, 0, t, 0);
    gr_copy_close();
    for (int64_t k = 0; k < n_keys; k += TILE, at = 1 - at) {
        if (k + TILE < n_keys)
            fill_keys(r, 1 - at, t, k + TILE);
        gr_copy_close();
        gr_copy_wait<1>();
        __syncthreads();
        add_keys(w, r, at, t, k);
        __syncthreads(); /* the buffer and the bits have been read */
    }
    gr_mma_put<T, D>((T *)p.dq + gr_attention_q_at(p.d, spot.b, spot.h, first), p.d.row_q,
                     p.d.nq - first, (int)p.d.d, w.dq[0], by);
}

/* ---- dk, dv ---- */

/* Queries at a time: what a thread has of pairs and of two results fits in its registers. */
template <int D> static __host__ __device__ constexpr int queries_for()
{
    return D > 64 ? 32 : 64;
}

template <class T, int D> struct kv_room {
    gr_mma_tile<T, D, TILE> k, v;
    gr_mma_tile<T, D, queries_for<D>()> q[2], d_o[2];
    float shift[2][TILE], delta[2][TILE];
    gr_attention_bits bits;
};

/* Of a warp's 16 keys. */
template <int D> struct kv_state {
    float dk[1][D / 8][4], dv[1][D / 8][4];
    uint64_t seen; /* gr_mma_seen() of the tile */
};

template <class T, int D>
static __device__ __forceinline__ void
fill_queries(kv_room<T, D> *r, int at, const gr_attention_args &p, int64_t b, int64_t h, int64_t q)
{
    const int i = (int)threadIdx.x;

    gr_mma_fill(&r->q[at], gr_mma_queries<T>(p, b, h, q), (int)p.d.d);
    gr_mma_fill(&r->d_o[at], grads_of<T>(p, b, h, q), (int)p.d.d);
    if (i < queries_for<D>()) {
        r->shift[at][i] = shift_of(p, b, h, q + i);
        r->delta[at][i] = delta_of(p, b, h, q + i);
    }
}

/* The tile of queries from q on of head t.spot.h, in buffer `at`; rows of the pairs are keys. */
template <class T, int D>
static __device__ __forceinline__ void add_queries(kv_state<D> &w, kv_room<T, D> *r, int at,
                                                   const gr_mma_task &t, int64_t q)
{
    const int queries = queries_for<D>(), row = (int)threadIdx.x / 32 * 16;
    const bool is_plain = t.is_plain(q, t.spot.first, w.seen);
    const float by = (float)t.p.scale * GR_MMA_LOG2_E;
    float s[1][queries / 8][4], ds[1][queries / 8][4];

    if (t.drop.threshold > 0) {
        gr_attention_draw<queries>(&r->bits, t.drop, t.spot, q, t.spot.first);
        __syncthreads();
    }
    gr_mma_dots(s, &r->k, row, r->q[at]);
    gr_mma_dots(ds, &r->v, row, r->d_o[at]);
#pragma unroll
    for (int n = 0; n < queries / 8; n++)
        for (int e = 0; e < 4; e++) {
            const int col = 8 * n + gr_mma_col(e), k = row + gr_mma_row(e);
            bool is_seen = (w.seen >> k & 1) && (!t.p.causal || t.spot.first + k <= q + col);
            float score = is_plain ? s[0][n][e] * by
                                   : t.score(s[0][n][e], q + col, t.spot.first + k, is_seen);
            float prob = gr_power_of_2(score - r->shift[at][col]), keep = (float)t.drop.keep;

            if (t.drop.threshold > 0 && !gr_attention_is_kept(&r->bits, col, k))
                keep = 0;
            s[0][n][e] = keep == 0 ? 0.0f : prob; /* dv is multiplied by keep in the end */
            ds[0][n][e] = prob * (keep * ds[0][n][e] - r->delta[at][col]);
        }
    gr_mma_sums(w.dv, s, r->d_o[at]);
    gr_mma_sums(w.dk, ds, r->q[at]);
}

/* The tile after (h, q): further on in the head, or the first of the next. */
static __device__ __forceinline__ void step_on(int64_t *h, int64_t *q, int64_t nq, int64_t first,
                                               int queries)
{
    *q += queries;
    if (*q >= nq) {
        *q = first;
        ++*h;
    }
}

template <class T, int D>
static __device__ __forceinline__ void put_keys(const kv_state<D> &w, const gr_attention_args &p,
                                                const gr_attention_spot &spot, float keep)
{
    const int64_t first = spot.first + threadIdx.x / 32 * 16, n = p.d.nk - first;
    const float by_k[2] = { (float)p.scale, (float)p.scale }, by_v[2] = { keep, keep };

    gr_mma_put<T, D>((T *)p.dk + gr_attention_k_at(p.d, spot.b, spot.h, first), p.d.row_k, n,
                     (int)p.d.d, w.dk[0], by_k);
    gr_mma_put<T, D>((T *)p.dv + gr_attention_v_at(p.d, spot.b, spot.h, first), p.d.row_v, n,
                     (int)p.d.d, w.dv[0], by_v);
}

/* Grid of the tiles of keys of all key heads. */
template <class T, int D>
static __global__ void __launch_bounds__(GR_MMA_THREADS)
    grad_kv_mma(const __grid_constant__ gr_attention_args p)
{
    if (!GR_MMA_IS_THERE)
        return;
    extern __shared__ __align__(16) char shared[];
    kv_room<T, D> *r = (kv_room<T, D> *)shared;
    gr_mma_task t(p, p.d.hkv, TILE); /* its head becomes the query head */
    const gr_attention_spot spot = t.spot;
    const int queries = queries_for<D>();
    const int64_t per_group = p.d.hq / p.d.hkv, end = (spot.h + 1) * per_group;
    const int64_t first = p.causal ? spot.first : 0;
    int64_t h = first < p.d.nq ? spot.h * per_group : end, q = first;
    kv_state<D> w = {};
    int at = 0;

    w.seen = gr_mma_seen(p, spot.b, spot.first);
    gr_mma_fill(&r->k, gr_mma_keys<T>(p, spot.b, spot.h, spot.first), (int)p.d.d);
    gr_mma_fill(&r->v, gr_mma_values<T>(p, spot.b, spot.h, spot.first), (int)p.d.d);
    if (h < end)
        fill_queries(r, 0, p, spot.b, h, q);
    gr_copy_close();
    for (; h < end; at = 1 - at) {
        int64_t next_h = h, next_q = q;

        step_on(&next_h, &next_q, p.d.nq, first, queries);
        if (next_h < end)
            fill_queries(r, 1 - at, p, spot.b, next_h, next_q);
        gr_copy_close();
        gr_copy_wait<1>();
        __syncthreads();
        t.spot.h = h;
        add_queries(w, r, at, t, q);
        __syncthreads(); /* the buffer and the bits have been read */
        h = next_h;
        q = next_q;
    }
    put_keys<T, D>(w, p, spot, (float)t.drop.keep);
}

/* ---- launching ---- */

template <class T, int D> static gr_status launch(gr_attention_args p, cudaStream_t s)
{
    const int64_t n = p.d.b * p.d.hq * p.d.nq;
    gr_cuda_grid grid = gr_cuda_grid_of(gr_ceil_div(n, GR_CUDA_BLOCK / 16), 1, GR_CUDA_BLOCK);

    GR_TRY(gr_cuda_launch("attention_grad launch of o do", grid, s, sum_deltas_mma<T>, p, n));
    p.n_tiles = gr_ceil_div(p.d.nq, TILE);
    grid = gr_cuda_grid_of(p.d.b * p.d.hq * p.n_tiles, 1, GR_MMA_THREADS);
    grid.shared_bytes = sizeof(q_room<T, D>);
    GR_TRY(gr_cuda_launch("attention_grad launch of dq", grid, s, grad_q_mma<T, D>, p));
    p.n_tiles = gr_ceil_div(p.d.nk, TILE);
    grid.x = p.d.b * p.d.hkv * p.n_tiles;
    grid.shared_bytes = sizeof(kv_room<T, D>);
    return gr_cuda_launch("attention_grad launch of dk, dv", grid, s, grad_kv_mma<T, D>, p);
}

template <class T> static gr_status launch_for(const gr_attention_args &p, cudaStream_t s)
{
    return p.d.d <= 32   ? launch<T, 32>(p, s)
           : p.d.d <= 64 ? launch<T, 64>(p, s)
                         : launch<T, 128>(p, s);
}

gr_status gr_attention_mma_grad_prepare(gr_prepare *p)
{
    return gr_attention_mma_fits(p, p->node->src[0]->shape.dim[3] > 64
                                        ? sizeof(q_room<__half, 128>)
                                        : sizeof(q_room<__half, 64>));
}

gr_status gr_attention_mma_grad_run(const gr_launch *l)
{
    gr_attention_args p = gr_attention_grad_args_of(l);
    cudaStream_t s = gr_cuda_stream(l->stream);

    if (!gr_pack_is_aligned(p.q, p.k, p.v, p.o, p.d_o, p.dq, p.dk, p.dv))
        return gr_attention_fma_grad_run(l);
    if (p.out_type == GR_BF16)
        GR_TRY(launch_for<__nv_bfloat16>(p, s));
    else
        GR_TRY(launch_for<__half>(p, s));
    return p.dbias ? gr_attention_fma_grad_bias(p, l->node->src[0]->dtype, s) : GR_OK;
}

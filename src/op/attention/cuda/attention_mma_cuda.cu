/*
 * Attention on tensor cores: what attention_cuda.cu does, for 16-bit floats and head sizes up to
 * 128. A warp has 16 queries, whose scores, probabilities and results stay in its registers; the
 * next keys and values are on their way while it computes.
 */
#include "op/attention/cuda/attention_mma.cuh"

#include "backend/cuda/reduce.cuh"

#define TILE GR_ATTENTION_TILE

/* What a block has in shared memory. */
template <class T, int D> struct room {
    gr_mma_tile<T, D, TILE> q, k[2], v[2];
    gr_attention_bits bits;
};

/* Of a thread's two queries. */
template <int D> struct running {
    float top[2], sum[2], o[D / 8][4];
};

/* s becomes the probabilities, up to what they are divided by in the end. */
template <int D>
static __device__ __forceinline__ void soften(running<D> &w, float (&s)[TILE / 8][4])
{
    for (int i = 0; i < 2; i++) {
        float top = w.top[i], sum = 0, shift, factor;

#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
            top = gr_greater()(gr_greater()(top, s[n][2 * i]), s[n][2 * i + 1]);
        top = gr_warp_join<4>(top, gr_greater());
        shift = top == -INFINITY ? 0.0f : top; /* nothing seen yet: all are 2^-inf */
        factor = exp2f(w.top[i] - shift);
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
            for (int e = 2 * i; e < 2 * i + 2; e++) {
                s[n][e] = exp2f(s[n][e] - shift);
                sum += s[n][e];
            }
        w.sum[i] = w.sum[i] * factor + gr_warp_join<4>(sum, gr_plus());
        w.top[i] = top;
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            w.o[n][2 * i] *= factor;
            w.o[n][2 * i + 1] *= factor;
        }
    }
}

/* What is kept is divided by the probability of that when the result is written. */
static __device__ __forceinline__ void drop_some(float (&s)[TILE / 8][4],
                                                 const gr_attention_bits &bits, int row)
{
    for (int i = 0; i < 2; i++) {
        const uint64_t kept = *(const uint64_t *)bits.of[row + gr_mma_row(2 * i)] >> gr_mma_col(0);

#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
            for (int e = 0; e < 2; e++)
                if (!(kept >> (8 * n + e) & 1))
                    s[n][2 * i + e] = 0;
    }
}

template <class T, int D>
static __device__ __forceinline__ void fill_keys(room<T, D> *r, int at, const gr_mma_task &t,
                                                 int64_t k)
{
    const gr_attention_dims &d = t.p.d;
    const int64_t g = t.spot.h / (d.hq / d.hkv);

    gr_mma_fill(&r->k[at], gr_mma_keys<T>(t.p, t.spot.b, g, k), (int)d.d);
    gr_mma_fill(&r->v[at], gr_mma_values<T>(t.p, t.spot.b, g, k), (int)d.d);
}

/* The tile of keys from k on, in buffer `at`. */
template <class T, int D>
static __device__ __forceinline__ void add_tile(running<D> &w, room<T, D> *r, int at,
                                                const gr_mma_task &t, int64_t k)
{
    const int row = (int)threadIdx.x / 32 * 16;
    const uint64_t seen = gr_mma_seen(t.p, t.spot.b, k) >> gr_mma_col(0);
    float s[TILE / 8][4];

    gr_mma_dots(s, r->q, row, r->k[at]);
    for (int i = 0; i < 2; i++) {
        const int64_t q = t.spot.first + row + gr_mma_row(2 * i);
        const int reach = gr_mma_reach(t.p, q, k) - gr_mma_col(0);

#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
            for (int e = 0; e < 2; e++) {
                bool is_seen = (seen >> (8 * n + e) & 1) && 8 * n + e < reach;

                s[n][2 * i + e] = t.score(s[n][2 * i + e], q, k + 8 * n + gr_mma_col(e), is_seen);
            }
    }
    soften(w, s);
    if (t.drop.threshold > 0) {
        gr_attention_draw<TILE>(&r->bits, t.drop, t.spot, t.spot.first, k);
        __syncthreads();
        drop_some(s, r->bits, row);
    }
    gr_mma_sums<T, D, TILE>(w.o, s, r->v[at]);
}

template <class T, int D>
static __device__ __forceinline__ void put_results(const running<D> &w, const gr_attention_args &p,
                                                   const gr_attention_spot &at, float keep)
{
    const int64_t first = at.first + threadIdx.x / 32 * 16;
    float by[2];

    for (int i = 0; i < 2; i++) {
        int64_t q = first + gr_mma_row(2 * i);

        by[i] = w.sum[i] == 0 ? 0.0f : keep / w.sum[i];
        if (threadIdx.x % 4 == 0 && q < p.d.nq)
            ((float *)p.lse_out)[(at.b * p.d.hq + at.h) * p.d.nq + q] =
                (w.top[i] + log2f(w.sum[i])) * GR_MMA_LN_2;
    }
    gr_mma_put<T, D>((T *)p.out + gr_attention_o_at(p.d, at.b, at.h, first), p.d.hq * p.d.d,
                     p.d.nq - first, (int)p.d.d, w.o, by);
}

/* Grid of the tiles of queries of all heads. */
template <class T, int D>
static __global__ void __launch_bounds__(GR_MMA_THREADS)
    attend_mma(const __grid_constant__ gr_attention_args p)
{
    extern __shared__ __align__(16) char shared[];
    room<T, D> *r = (room<T, D> *)shared;
    const gr_mma_task t(p, p.d.hq);
    const gr_attention_spot &spot = t.spot;
    const int64_t seen = p.causal ? spot.first + TILE : p.d.nk;
    const int64_t n_keys = seen < p.d.nk ? seen : p.d.nk;
    running<D> w = {};
    int at = 0;

    w.top[0] = w.top[1] = -INFINITY;
    gr_mma_fill(&r->q, gr_mma_queries<T>(p, spot.b, spot.h, spot.first), (int)p.d.d);
    if (n_keys > 0)
        fill_keys(r, 0, t, 0);
    gr_copy_close();
    for (int64_t k = 0; k < n_keys; k += TILE, at = 1 - at) {
        if (k + TILE < n_keys)
            fill_keys(r, 1 - at, t, k + TILE);
        gr_copy_close();
        gr_copy_wait<1>();
        __syncthreads();
        add_tile(w, r, at, t, k);
        __syncthreads(); /* the buffer and the bits have been read */
    }
    put_results<T, D>(w, p, spot, (float)t.drop.keep);
}

template <class T, int D> static gr_status launch(const gr_attention_args &p, cudaStream_t s)
{
    gr_cuda_grid grid = gr_cuda_grid_of(p.d.b * p.d.hq * p.n_tiles, 1, GR_MMA_THREADS);

    grid.shared_bytes = sizeof(room<T, D>);
    return gr_cuda_launch("attention launch", grid, s, attend_mma<T, D>, p);
}

template <class T> static gr_status launch_for(const gr_attention_args &p, cudaStream_t s)
{
    return p.d.d <= 32   ? launch<T, 32>(p, s)
           : p.d.d <= 64 ? launch<T, 64>(p, s)
                         : launch<T, 128>(p, s);
}

gr_status gr_attention_mma_run(const gr_launch *l)
{
    gr_attention_args p = gr_attention_args_of(l);
    cudaStream_t s = gr_cuda_stream(l->stream);

    if (!gr_pack_is_aligned(p.q, p.k, p.v, l->out[0]))
        return gr_attention_fma_run(l);
    p.out = l->out[0];
    p.lse_out = l->out[1];
    p.n_tiles = gr_ceil_div(p.d.nq, TILE);
    return p.out_type == GR_BF16 ? launch_for<__nv_bfloat16>(p, s) : launch_for<__half>(p, s);
}

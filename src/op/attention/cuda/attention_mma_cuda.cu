/*
 * Attention on tensor cores: what attention_cuda.cu does, for 16-bit floats and head sizes up to
 * 128. A warp has 16 queries, whose scores, probabilities and results stay in its registers; the
 * next keys and values are on their way while it computes.
 */
#include "op/attention/cuda/attention_mma.cuh"

#include "backend/cuda/reduce.cuh"

#define TILE GR_ATTENTION_TILE

/* What a block has in shared memory: M tiles of queries, of each of which a warp has 16 rows. */
template <class T, int D, int M> struct room {
    typedef T type;
    gr_mma_tile<T, D, TILE> q[M], k[2], v[2];
    gr_attention_bits bits[M];
};

/* Of a thread's queries, two in each tile. */
template <int D, int M> struct running {
    float top[M][2], sum[M][2], o[M][D / 8][4];
};

/* s becomes the probabilities, up to what they are divided by in the end. A score that is NaN
 * makes the sum NaN. */
template <int D, int M>
static __device__ __forceinline__ void soften(running<D, M> &w, int m, int i,
                                              float (&s)[TILE / 8][4])
{
    float top = w.top[m][i], sum = 0, shift, factor;

#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
        top = fmaxf(top, fmaxf(s[n][2 * i], s[n][2 * i + 1]));
    top = fmaxf(top, gr_shuffle(top, 1));
    top = fmaxf(top, gr_shuffle(top, 2));
    shift = top == -INFINITY ? 0.0f : top; /* nothing seen yet: all are 2^-inf */
    factor = gr_power_of_2(w.top[m][i] - shift);
#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
        for (int e = 2 * i; e < 2 * i + 2; e++) {
            s[n][e] = gr_power_of_2(s[n][e] - shift);
            sum += s[n][e];
        }
    w.sum[m][i] = w.sum[m][i] * factor + gr_warp_join<4>(sum, gr_plus());
    w.top[m][i] = top;
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        w.o[m][n][2 * i] *= factor;
        w.o[m][n][2 * i + 1] *= factor;
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

template <class R>
static __device__ __forceinline__ void fill_keys(R *r, int at, const gr_mma_task &t, int64_t k)
{
    typedef typename R::type T;
    const gr_attention_dims &d = t.p.d;
    const int64_t g = t.spot.h / (d.hq / d.hkv);

    gr_mma_fill(&r->k[at], gr_mma_keys<T>(t.p, t.spot.b, g, k), (int)d.d);
    gr_mma_fill(&r->v[at], gr_mma_values<T>(t.p, t.spot.b, g, k), (int)d.d);
}

/* The scores of query q with the keys from k on; e0: which of the thread's elements are its. */
static __device__ __forceinline__ void finish_scores(float (&s)[TILE / 8][4], const gr_mma_task &t,
                                                     int64_t q, int64_t k, uint64_t seen, int e0)
{
    const int reach = gr_mma_reach(t.p, q, k) - gr_mma_col(0);

    seen >>= gr_mma_col(0);
#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
        for (int e = 0; e < 2; e++) {
            bool is_seen = (seen >> (8 * n + e) & 1) && 8 * n + e < reach;

            s[n][e0 + e] = t.score(s[n][e0 + e], q, k + 8 * n + gr_mma_col(e), is_seen);
        }
}

/* The tile of keys from k on, in buffer `at`. */
template <int D, int M, class R>
static __device__ __forceinline__ void add_tile(running<D, M> &w, R *r, int at,
                                                const gr_mma_task &t, int64_t k)
{
    const int row = (int)threadIdx.x / 32 * 16;
    const uint64_t seen = gr_mma_seen(t.p, t.spot.b, k);
    const bool is_plain = t.is_plain(t.spot.first, k, seen);
    float s[M][TILE / 8][4];

    gr_mma_dots(s, r->q, row, r->k[at]);
#pragma unroll
    for (int m = 0; m < M; m++)
        for (int i = 0; i < 2; i++) {
            const int64_t q = t.spot.first + TILE * m + row + gr_mma_row(2 * i);

            if (is_plain)
                t.scale_scores(s[m], i);
            else
                finish_scores(s[m], t, q, k, seen, 2 * i);
            soften(w, m, i, s[m]);
        }
    if (t.drop.threshold > 0) {
        for (int m = 0; m < M; m++)
            gr_attention_draw<TILE>(&r->bits[m], t.drop, t.spot, t.spot.first + TILE * m, k);
        __syncthreads();
#pragma unroll
        for (int m = 0; m < M; m++)
            drop_some(s[m], r->bits[m], row);
    }
    gr_mma_sums(w.o, s, r->v[at]);
}

template <class T, int D, int M>
static __device__ __forceinline__ void put_results(const running<D, M> &w, int m,
                                                   const gr_mma_task &t)
{
    const gr_attention_args &p = t.p;
    const int64_t b = t.spot.b, h = t.spot.h;
    const int64_t first = t.spot.first + TILE * m + threadIdx.x / 32 * 16;
    float by[2];

    for (int i = 0; i < 2; i++) {
        int64_t q = first + gr_mma_row(2 * i);

        by[i] = w.sum[m][i] == 0 ? 0.0f : (float)t.drop.keep / w.sum[m][i];
        if (threadIdx.x % 4 == 0 && q < p.d.nq)
            ((float *)p.lse_out)[(b * p.d.hq + h) * p.d.nq + q] =
                (w.top[m][i] + log2f(w.sum[m][i])) * GR_MMA_LN_2;
    }
    gr_mma_put<T, D>((T *)p.out + gr_attention_o_at(p.d, b, h, first), p.d.hq * p.d.d,
                     p.d.nq - first, (int)p.d.d, w.o[m], by);
}

/* Grid of the stretches of M tiles of queries of all heads. */
template <class T, int D, int M>
static __global__ void __launch_bounds__(GR_MMA_THREADS)
    attend_mma(const __grid_constant__ gr_attention_args p)
{
    if (!GR_MMA_IS_THERE)
        return;
    extern __shared__ __align__(16) char shared[];
    room<T, D, M> *r = (room<T, D, M> *)shared;
    const gr_mma_task t(p, p.d.hq, M * TILE);
    const gr_attention_spot &spot = t.spot;
    const int64_t seen = p.causal ? spot.first + M * TILE : p.d.nk;
    const int64_t n_keys = seen < p.d.nk ? seen : p.d.nk;
    running<D, M> w = {};
    int at = 0;

    for (int m = 0; m < M; m++) {
        w.top[m][0] = w.top[m][1] = -INFINITY;
        gr_mma_fill(&r->q[m], gr_mma_queries<T>(p, spot.b, spot.h, spot.first + TILE * m),
                    (int)p.d.d);
    }
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
    for (int m = 0; m < M; m++)
        put_results<T>(w, m, t);
}

template <class T, int D, int M> static gr_status launch(gr_attention_args p, cudaStream_t s)
{
    gr_cuda_grid grid;

    p.n_tiles = gr_ceil_div(p.d.nq, M * TILE);
    grid = gr_cuda_grid_of(p.d.b * p.d.hq * p.n_tiles, 1, GR_MMA_THREADS);
    grid.shared_bytes = sizeof(room<T, D, M>);
    return gr_cuda_launch("attention launch", grid, s, attend_mma<T, D, M>, p);
}

/* Two tiles of queries use what is read of keys twice, as far as registers go. */
template <class T> static gr_status launch_for(const gr_attention_args &p, cudaStream_t s)
{
    return p.d.d <= 32   ? launch<T, 32, 2>(p, s)
           : p.d.d <= 64 ? launch<T, 64, 2>(p, s)
                         : launch<T, 128, 1>(p, s);
}

gr_status gr_attention_mma_prepare(gr_prepare *p)
{
    return gr_attention_mma_fits(p, p->node->src[0]->shape.dim[3] > 64
                                        ? sizeof(room<__half, 128, 1>)
                                        : sizeof(room<__half, 64, 2>));
}

gr_status gr_attention_mma_run(const gr_launch *l)
{
    gr_attention_args p = gr_attention_args_of(l);
    cudaStream_t s = gr_cuda_stream(l->stream);

    if (!gr_pack_is_aligned(p.q, p.k, p.v, l->out[0]))
        return gr_attention_fma_run(l);
    p.out = l->out[0];
    p.lse_out = l->out[1];
    return p.out_type == GR_BF16 ? launch_for<__nv_bfloat16>(p, s) : launch_for<__half>(p, s);
}

/*
 * Attention on the GPU. A block has 64 queries of a head and up to 128 columns of their result
 * (64 in f64); head sizes beyond that take several blocks, each of which computes the scores.
 * It goes through the keys 64 at a time and keeps, of each query, the greatest score so far, the
 * sum of exp(score - greatest) and the sum of values, the latter two scaled down whenever a
 * greater score comes.
 */
#include "op/attention/cuda/attention_fma.cuh"

#include "backend/cuda/reduce.cuh"
#include "op/module_cuda.h"

/* Of a thread's four queries. */
template <class C, int N> struct running {
    C top[4], sum[4], o[4][N];
};

/* Scores of a tile, by gr_fma_dots(), to what softmax takes. */
template <class C>
static __device__ __forceinline__ void finish_scores(C (&s)[4][4], const gr_attention_args &p,
                                                     const gr_attention_spot &at, int64_t k)
{
    const int64_t i0 = at.first + threadIdx.x / 16, j0 = k + threadIdx.x % 16;

    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int64_t q = i0 + 16 * i, key = j0 + 16 * j;

            if (!gr_attention_sees(p, at.b, q, key)) {
                s[i][j] = -(C)INFINITY;
                continue;
            }
            s[i][j] *= (C)p.scale;
            if (p.bias)
                s[i][j] += gr_attention_bias<C>(p, at.b, at.h, q, key);
        }
}

/* s becomes exp(s - top), and what was summed up so far is scaled to the new top. */
template <class C, int N>
static __device__ __forceinline__ void soften(running<C, N> &w, C (&s)[4][4])
{
    for (int i = 0; i < 4; i++) {
        C top = w.top[i], sum = 0, shift, factor;

        for (int j = 0; j < 4; j++)
            top = gr_greater()(top, s[i][j]);
        top = gr_warp_join<16>(top, gr_greater());
        shift = top == -(C)INFINITY ? (C)0 : top; /* nothing seen yet: all are exp(-inf) */
        factor = gr_fma_exp(w.top[i] - shift);
        for (int j = 0; j < 4; j++) {
            s[i][j] = gr_fma_exp(s[i][j] - shift);
            sum += s[i][j];
        }
        w.sum[i] = w.sum[i] * factor + gr_warp_join<16>(sum, gr_plus());
        w.top[i] = top;
        for (int u = 0; u < N; u++)
            w.o[i][u] *= factor;
    }
}

template <class C, int N>
static __device__ __forceinline__ void put_results(const running<C, N> &w,
                                                   const gr_attention_args &p,
                                                   const gr_attention_spot &at, int64_t c0)
{
    for (int i = 0; i < 4; i++) {
        int64_t q = at.first + threadIdx.x / 16 + 16 * i;

        if (q >= p.d.nq)
            continue;
        if (c0 == 0 && threadIdx.x % 16 == 0)
            ((C *)p.lse_out)[(at.b * p.d.hq + at.h) * p.d.nq + q] = w.top[i] + gr_fma_log(w.sum[i]);
        for (int u = 0; u < N; u++) {
            int64_t c = c0 + gr_fma_col<C>(u);

            if (c < p.d.d)
                gr_store_f64(p.out, gr_attention_o_at(p.d, at.b, at.h, q) + c, p.out_type,
                             w.sum[i] == 0 ? 0.0 : (double)(w.o[i][u] / w.sum[i]));
        }
    }
}

/* Grid (tiles of queries of all heads, stretches of 16 N columns). */
template <class T, int N>
static __global__ void __launch_bounds__(GR_FMA_THREADS)
    attend(const __grid_constant__ gr_attention_args p)
{
    typedef typename gr_compute<T>::type C;
    extern __shared__ __align__(16) char shared[];
    gr_fma_room<C> *room = (gr_fma_room<C> *)shared;
    const gr_attention_spot at = gr_attention_spot_of(p, p.d.hq, GR_ATTENTION_TILE);
    const int64_t g = at.h / (p.d.hq / p.d.hkv), c0 = (int64_t)blockIdx.y * 16 * N;
    const int64_t seen = p.causal ? at.first + GR_ATTENTION_TILE : p.d.nk;
    const int64_t n_keys = seen < p.d.nk ? seen : p.d.nk;
    gr_attention_drop drop = p.drop;
    running<C, N> w = {};

    gr_attention_drop_bind(&drop, p.scalars);
    for (int i = 0; i < 4; i++)
        w.top[i] = -(C)INFINITY;
    for (int64_t k = 0; k < n_keys; k += GR_ATTENTION_TILE) {
        C s[4][4];

        gr_fma_dots<T>(s, room->stage, gr_fma_queries(p, at.b, at.h, at.first),
                       gr_fma_keys(p, at.b, g, k));
        finish_scores(s, p, at, k);
        soften(w, s);
        __syncthreads(); /* the pairs of the last tile have been read */
        if (drop.threshold > 0) {
            gr_attention_draw<GR_ATTENTION_TILE>(&room->bits, drop, at, at.first, k);
            __syncthreads();
        }
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                if (drop.threshold > 0)
                    s[i][j] *= gr_attention_is_kept(&room->bits, threadIdx.x / 16 + 16 * i,
                                                    threadIdx.x % 16 + 16 * j)
                                   ? (C)drop.keep
                                   : (C)0;
                room->pairs[gr_fma_pair<C>(i, j)] = s[i][j];
            }
        gr_fma_sums<T>(w.o, room->pairs, room->stage, gr_fma_values(p, at.b, g, k), c0);
    }
    put_results(w, p, at, c0);
}

template <class T, int N> static gr_status launch(const gr_attention_args &p, cudaStream_t s)
{
    typedef typename gr_compute<T>::type C;
    const int64_t n_parts = gr_ceil_div(p.d.d, 16 * N);
    gr_cuda_grid grid =
        gr_cuda_grid_of(p.d.b * p.d.hq * p.n_tiles, n_parts > 0 ? n_parts : 1, GR_FMA_THREADS);

    grid.shared_bytes = sizeof(gr_fma_room<C>);
    return gr_cuda_launch("attention launch", grid, s, attend<T, N>, p);
}

template <class T> static gr_status launch_for(const gr_attention_args &p, cudaStream_t s)
{
    const int most = gr_fma<typename gr_compute<T>::type>::most_cols;

    return p.d.d <= most / 2 ? launch<T, most / 32>(p, s) : launch<T, most / 16>(p, s);
}

gr_status gr_attention_fma_run(const gr_launch *l)
{
    gr_attention_args p = gr_attention_args_of(l);

    p.out = l->out[0];
    p.lse_out = l->out[1];
    p.n_tiles = gr_ceil_div(p.d.nq, GR_ATTENTION_TILE);
    GR_CUDA_FLOATS(l->node->src[0]->dtype, T, return launch_for<T>(p, gr_cuda_stream(l->stream)))
}

const gr_kernel gr_attention_cuda[] = {
    {
        .name = "mma",
        .reject = gr_attention_mma_reject,
        .takes = NULL,
        .variants = NULL,
        .prepare = gr_attention_mma_prepare,
        .workspace = NULL,
        .run = gr_attention_mma_run,
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
        .workspace = NULL,
        .run = gr_attention_fma_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

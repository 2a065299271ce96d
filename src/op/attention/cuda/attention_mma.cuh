/*
 * Products of tiles of 16-bit floats on tensor cores (backend/cuda/mma.cuh), for head sizes up to
 * 128: blocks of four warps, each of which has 16 rows of a tile of 64.
 *
 * Tiles lie in shared memory row by row, 8 elements more than a row apart, so that the eight rows
 * of a small matrix are in different banks. Rows and columns that do not exist, and rows of
 * hidden keys, are zeros there. Exponentials are powers of 2: scores come times log2(e).
 */
#ifndef GR_OP_ATTENTION_MMA_CUH
#define GR_OP_ATTENTION_MMA_CUH

#include "backend/cuda/mma.cuh"
#include "backend/cuda/pack.cuh"
#include "op/attention/cuda/attention_cuda.cuh"

#define GR_MMA_WARPS   4
#define GR_MMA_THREADS (GR_MMA_WARPS * 32)
#define GR_MMA_LOG2_E  1.44269504088896341f
#define GR_MMA_LN_2    0.693147180559945309f

/* Older GPUs are given no code. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define GR_MMA_IS_THERE 1
#else
#define GR_MMA_IS_THERE 0
#endif

/* For prepare(): declines where the GPU has no such instructions, or less shared memory than the
 * larger of a kernel's blocks needs. */
static inline gr_status gr_attention_mma_fits(gr_prepare *p, size_t n_bytes)
{
    const gr_cuda_device *d = (const gr_cuda_device *)p->device;
    int index = 0, most = 0;

    if (d->arch < 80)
        return gr_decline(p, "needs compute capability 8.0, this is %d.%d", d->arch / 10,
                          d->arch % 10);
    GR_TRY(gr_cuda_check(cudaGetDevice(&index), "the current GPU"));
    GR_TRY(
        gr_cuda_check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, index),
                      "shared memory of a block"));
    return n_bytes <= (size_t)most
               ? GR_OK
               : gr_decline(p, "needs %zu bytes of shared memory, there are %d", n_bytes, most);
}

/* Up to ROWS rows of a head of up to D columns. */
template <class T, int D, int ROWS> struct gr_mma_tile {
    typedef T type;
    static const int cols = D, ld = D + 8;
    T at[ROWS][ld];
};

/* Rows in device memory. */
template <class T> struct gr_mma_rows {
    const T *mem;
    int64_t step, n;     /* from row to row; how many exist */
    const uint8_t *mask; /* NULL: all are seen */
};

/* Starts to copy; d: columns that exist, a multiple of 8. */
template <class T, int D, int ROWS>
static __device__ __forceinline__ void gr_mma_fill(gr_mma_tile<T, D, ROWS> *to,
                                                   const gr_mma_rows<T> &x, int d)
{
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * D / 8; i += GR_MMA_THREADS) {
        int r = i / (D / 8), c = i % (D / 8) * 8;
        bool is_in = r < x.n && c < d && (!x.mask || x.mask[r]);

        gr_copy16(&to->at[r][c], is_in ? x.mem + r * x.step + c : x.mem, is_in);
    }
}

/* Left operand: rows r .. r + 15, columns c .. c + 15 of a tile. */
template <class T, int D, int ROWS>
static __device__ __forceinline__ void gr_mma_left(uint32_t (&a)[4],
                                                   const gr_mma_tile<T, D, ROWS> &x, int r, int c)
{
    const int lane = (int)threadIdx.x % 32;

    gr_mma_load(a, &x.at[r + lane % 16][c + lane / 16 * 8]);
}

/* c[m][2 n], c[m][2 n + 1] += a[m] by rows 16 n .. of x, their columns from `at` on. */
template <int M, int N, class R>
static __device__ __forceinline__ void gr_mma_by_rows(float (&c)[M][N][4],
                                                      const uint32_t (&a)[M][4], const R &x, int at)
{
    const int lane = (int)threadIdx.x % 32, r = lane % 8 + lane / 16 * 8, k = lane / 8 % 2 * 8;

#pragma unroll
    for (int n = 0; n < N / 2; n++) {
        uint32_t b[4];

        gr_mma_load(b, &x.at[16 * n + r][at + k]);
#pragma unroll
        for (int m = 0; m < M; m++) {
            gr_mma(c[m][2 * n], a[m], b[0], b[1], typename R::type());
            gr_mma(c[m][2 * n + 1], a[m], b[2], b[3], typename R::type());
        }
    }
}

/* c[m] = rows r .. r + 15 of left[m] by all rows of right: sums over columns. */
template <int M, int N, class L, class R>
static __device__ __forceinline__ void gr_mma_dots(float (&c)[M][N][4], const L *left, int r,
                                                   const R &right)
{
#pragma unroll
    for (int i = 0; i < M * N * 4; i++)
        c[i / 4 / N][i / 4 % N][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < R::cols; k += 16) {
        uint32_t a[M][4];

#pragma unroll
        for (int m = 0; m < M; m++)
            gr_mma_left(a[m], left[m], r, k);
        gr_mma_by_rows(c, a, right, k);
    }
}

/* Pairs of 16 columns, rounded, as a left operand. */
template <class T>
static __device__ __forceinline__ void gr_mma_round(uint32_t (&a)[4], const float (&lo)[4],
                                                    const float (&hi)[4])
{
    a[0] = gr_mma_pack(lo[0], lo[1], T());
    a[1] = gr_mma_pack(lo[2], lo[3], T());
    a[2] = gr_mma_pack(hi[0], hi[1], T());
    a[3] = gr_mma_pack(hi[2], hi[3], T());
}

/* acc[m] += pairs[m], rounded to x's type, by the columns of x: sums over rows. */
template <int M, int C, int N, class R>
static __device__ __forceinline__ void gr_mma_sums(float (&acc)[M][C][4],
                                                   const float (&pairs)[M][N][4], const R &x)
{
    typedef typename R::type T;
    const int lane = (int)threadIdx.x % 32;

#pragma unroll
    for (int k = 0; k < N / 2; k++) {
        uint32_t a[M][4], b[4];

#pragma unroll
        for (int m = 0; m < M; m++)
            gr_mma_round<T>(a[m], pairs[m][2 * k], pairs[m][2 * k + 1]);
#pragma unroll
        for (int i = 0; i < C / 2 * M; i++) {
            const int n = i / M, m = i % M;

            if (m == 0)
                gr_mma_load_turned(b, &x.at[16 * k + lane % 16][16 * n + lane / 16 * 8]);
            gr_mma(acc[m][2 * n], a[m], b[0], b[1], T());
            gr_mma(acc[m][2 * n + 1], a[m], b[2], b[3], T());
        }
    }
}

/* Row of the warp's 16 and column of a tile's 8 that element e of a thread's c is at. */
static __device__ __forceinline__ int gr_mma_row(int e)
{
    return (int)threadIdx.x % 32 / 4 + e / 2 * 8;
}
static __device__ __forceinline__ int gr_mma_col(int e)
{
    return (int)threadIdx.x % 4 * 2 + e % 2;
}

/* Writes a warp's 16 rows, times `by` of each of the thread's two; rows are `step` apart and the
 * first n of them exist. */
template <class T, int D>
static __device__ __forceinline__ void gr_mma_put(T *to, int64_t step, int64_t n, int d,
                                                  const float (&acc)[D / 8][4],
                                                  const float (&by)[2])
{
    for (int i = 0; i < 2; i++) {
        int r = gr_mma_row(2 * i);

        if (r >= n)
            continue;
#pragma unroll
        for (int c = 0; c < D / 8; c++) {
            gr_pack<float, 2> x = { { acc[c][2 * i] * by[i], acc[c][2 * i + 1] * by[i] } };

            if (8 * c < d)
                gr_pack_store(to + r * step + 8 * c + gr_mma_col(0), x);
        }
    }
}

/* ---- pairs ---- */

static __device__ __forceinline__ float gr_mma_bias(const gr_attention_args &p, int64_t at)
{
    switch (p.bias_type) {
    case GR_F32: return ((const float *)p.bias)[at];
    case GR_BF16: return __bfloat162float(((const __nv_bfloat16 *)p.bias)[at]);
    case GR_F16: return __half2float(((const __half *)p.bias)[at]);
    default: return (float)((const double *)p.bias)[at];
    }
}

/* What a warp works at: a tile of one query head. */
struct gr_mma_task {
    const gr_attention_args &p;
    gr_attention_spot spot;
    gr_attention_drop drop; /* bound */

    __device__ __forceinline__ gr_mma_task(const gr_attention_args &args, int64_t n_heads,
                                           int64_t tile)
        : p(args), spot(gr_attention_spot_of(args, n_heads, tile)), drop(args.drop)
    {
        gr_attention_drop_bind(&drop, args.scalars);
    }
    /* Nothing is hidden from the queries from q on in a tile of keys from k on whose `seen` is
     * given, and nothing is added: for the most of all tiles. */
    __device__ __forceinline__ bool is_plain(int64_t q, int64_t k, uint64_t seen) const
    {
        return seen == ~(uint64_t)0 && !p.bias && !(p.causal && k + GR_ATTENTION_TILE > q + 1);
    }
    /* Scores of such a tile: element 2 i, 2 i + 1 of each. */
    template <int N> __device__ __forceinline__ void scale_scores(float (&s)[N][4], int i) const
    {
        const float by = (float)p.scale * GR_MMA_LOG2_E;

#pragma unroll
        for (int n = 0; n < N; n++) {
            s[n][2 * i] *= by;
            s[n][2 * i + 1] *= by;
        }
    }
    /* A score as a power of 2, or -inf where the key is not seen. */
    __device__ __forceinline__ float score(float dot, int64_t q, int64_t k, bool is_seen) const
    {
        float s = dot * ((float)p.scale * GR_MMA_LOG2_E);

        if (p.bias && q < p.d.nq && is_seen)
            s += gr_mma_bias(p, gr_attention_bias_at(p.d, spot.b, spot.h, q, k)) * GR_MMA_LOG2_E;
        return is_seen ? s : -INFINITY;
    }
};

/* Bit j: key k + j is there and not hidden; the same in all of a warp. */
static __device__ __forceinline__ uint64_t gr_mma_seen(const gr_attention_args &p, int64_t b,
                                                       int64_t k)
{
    uint64_t seen = 0;

    for (int i = 0; i < 2; i++) {
        int64_t j = k + 32 * i + threadIdx.x % 32;
        bool is_seen = j < p.d.nk && (!p.mask || p.mask[b * p.d.nk + j]);

        seen |= (uint64_t)__ballot_sync(~0u, is_seen) << (32 * i);
    }
    return seen;
}

/* How many keys of the tile from k on query q may see by its place alone. */
static __device__ __forceinline__ int gr_mma_reach(const gr_attention_args &p, int64_t q, int64_t k)
{
    if (!p.causal || q - k >= GR_ATTENTION_TILE)
        return GR_ATTENTION_TILE;
    return q < k ? 0 : (int)(q - k) + 1;
}

/* ---- the rows of a tile ---- */

template <class T>
static __device__ __forceinline__ gr_mma_rows<T> gr_mma_queries(const gr_attention_args &p,
                                                                int64_t b, int64_t h, int64_t q)
{
    return { (const T *)p.q + gr_attention_q_at(p.d, b, h, q), p.d.row_q, p.d.nq - q, NULL };
}
template <class T>
static __device__ __forceinline__ gr_mma_rows<T> gr_mma_keys(const gr_attention_args &p, int64_t b,
                                                             int64_t g, int64_t k)
{
    return { (const T *)p.k + gr_attention_k_at(p.d, b, g, k), p.d.row_k, p.d.nk - k,
             p.mask ? p.mask + b * p.d.nk + k : NULL };
}
template <class T>
static __device__ __forceinline__ gr_mma_rows<T> gr_mma_values(const gr_attention_args &p,
                                                               int64_t b, int64_t g, int64_t k)
{
    return { (const T *)p.v + gr_attention_v_at(p.d, b, g, k), p.d.row_v, p.d.nk - k,
             p.mask ? p.mask + b * p.d.nk + k : NULL };
}

#endif

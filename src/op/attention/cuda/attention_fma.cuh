/*
 * Products of tiles by plain multiply-adds: 64 x 64 at a time, by 256 threads as 16 x 16. Thread
 * (x, y) has rows y, y + 16 .. and columns x, x + 16 .. of a tile of pairs (4 x 4 of them), and
 * the same rows of results with head columns.
 *
 * Rows come from device memory by chunks through `stage` in shared memory, in the type that is
 * computed in; rows and columns that do not exist, and rows of hidden keys, are zeros there, so
 * that nothing undefined is multiplied.
 */
#ifndef GR_OP_ATTENTION_FMA_CUH
#define GR_OP_ATTENTION_FMA_CUH

#include "backend/cuda/pack.cuh"
#include "op/attention/cuda/attention_cuda.cuh"

#define GR_FMA_THREADS 256

/* Sizes for the type C that is computed in. */
template <class C> struct gr_fma {
    static const int lanes = 16 / (int)sizeof(C);
    static const int depth = 128 / (int)sizeof(C); /* head columns of a chunk for dot products */
    static const int ld = depth + lanes;
    static const int ld_pairs = GR_ATTENTION_TILE + lanes;
    static const int most_cols = 512 / (int)sizeof(C); /* of results that a block has */
    static const int sum_rows = 32;                    /* of a chunk for sums of rows */
    static const int n_stage = 2 * GR_ATTENTION_TILE * ld;
    static const int n_pairs = GR_ATTENTION_TILE * ld_pairs;
    static_assert(sum_rows * most_cols <= n_stage, "both kinds of chunks fit");
};

/* What a block has in shared memory. */
template <class C> struct gr_fma_room {
    C stage[gr_fma<C>::n_stage];
    C pairs[gr_fma<C>::n_pairs];
    gr_attention_bits bits;
};

/* Up to 64 rows in device memory. */
typedef struct gr_fma_rows {
    const void *mem;
    gr_dtype type; /* looked at where is_any */
    bool is_any;   /* of a type other than the kernel's */
    int64_t at, step;
    int64_t n, d;        /* rows and columns that exist */
    const uint8_t *mask; /* of the rows; NULL: all are seen */
} gr_fma_rows;

/* N_ROWS rows from r0 on, N_COLS columns from c0 on. */
template <class T, int N_ROWS, int N_COLS, class C>
static __device__ __forceinline__ void gr_fma_fill(C *dst, int ld, const gr_fma_rows &x, int r0,
                                                   int64_t c0)
{
#pragma unroll 8
    for (int i = threadIdx.x; i < N_ROWS * N_COLS; i += GR_FMA_THREADS) {
        int r = i / N_COLS, c = i % N_COLS;
        bool is_in = r0 + r < x.n && c0 + c < x.d && (!x.mask || x.mask[r0 + r]);
        int64_t from = x.at + (r0 + r) * x.step + c0 + c;
        C v = 0;

        if (is_in)
            v = x.is_any ? (C)gr_load_f64(x.mem, from, x.type) : gr_as<C>(((const T *)x.mem)[from]);
        dst[r * ld + c] = v;
    }
}

/* acc[i][j] += one pack of row i of a by one of row j of b. */
template <class C, class P>
static __device__ __forceinline__ void gr_fma_dot(C (&acc)[4][4], const P (&a)[4], const P (&b)[4])
{
    for (int l = 0; l < gr_fma<C>::lanes; l++)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                acc[i][j] += a[i].v[l] * b[j].v[l];
}

/* acc[i][j] = sum over head columns of a[row i] b[row j]. */
template <class T, class C>
static __device__ __forceinline__ void gr_fma_dots(C (&acc)[4][4], C *stage, const gr_fma_rows &a,
                                                   const gr_fma_rows &b)
{
    typedef gr_fma<C> z;
    typedef gr_pack<C, z::lanes> pack;
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    C *sa = stage, *sb = stage + GR_ATTENTION_TILE * z::ld;

    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            acc[i][j] = 0;
    for (int64_t c0 = 0; c0 < a.d; c0 += z::depth) {
        __syncthreads();
        gr_fma_fill<T, GR_ATTENTION_TILE, z::depth>(sa, z::ld, a, 0, c0);
        gr_fma_fill<T, GR_ATTENTION_TILE, z::depth>(sb, z::ld, b, 0, c0);
        __syncthreads();
#pragma unroll
        for (int c = 0; c < z::depth; c += z::lanes) {
            pack pa[4], pb[4];

            for (int i = 0; i < 4; i++) {
                pa[i] = gr_pack_get<pack>(sa + (y + 16 * i) * z::ld + c);
                pb[i] = gr_pack_get<pack>(sb + (x + 16 * i) * z::ld + c);
            }
            gr_fma_dot(acc, pa, pb);
        }
    }
}

/* Column u of a thread's N, of those that a block has. */
template <class C> static __device__ __forceinline__ int gr_fma_col(int u)
{
    const int lanes = gr_fma<C>::lanes;

    return u / lanes * 16 * lanes + (int)(threadIdx.x % 16) * lanes + u % lanes;
}

/* acc[i][u] += p[i] by `row` of a chunk, at this thread's columns. */
template <class C, int N>
static __device__ __forceinline__ void gr_fma_add_row(C (&acc)[4][N], const C (&p)[4], const C *row)
{
    const int lanes = gr_fma<C>::lanes;

    for (int u = 0; u < N; u += lanes) {
        gr_pack<C, lanes> v = gr_pack_get<gr_pack<C, lanes>>(row + gr_fma_col<C>(u));

        for (int i = 0; i < 4; i++)
            for (int w = 0; w < lanes; w++)
                acc[i][u + w] += p[i] * v.v[w];
    }
}

/* acc[i][u] += sum over r of pairs[row i][r] x[r][column c0 + u]. */
template <class T, int N, class C>
static __device__ __forceinline__ void gr_fma_sums(C (&acc)[4][N], const C *pairs, C *stage,
                                                   const gr_fma_rows &x, int64_t c0)
{
    typedef gr_fma<C> z;
    typedef gr_pack<C, z::lanes> pack;
    const int cols = 16 * N, y = threadIdx.x / 16;

    for (int r0 = 0; r0 < GR_ATTENTION_TILE && r0 < x.n; r0 += z::sum_rows) {
        __syncthreads();
        gr_fma_fill<T, z::sum_rows, cols>(stage, cols, x, r0, c0);
        __syncthreads();
#pragma unroll 2
        for (int r = 0; r < z::sum_rows; r += z::lanes) {
            pack p[4];

            for (int i = 0; i < 4; i++)
                p[i] = gr_pack_get<pack>(pairs + (y + 16 * i) * z::ld_pairs + r0 + r);
            for (int l = 0; l < z::lanes; l++) {
                const C one[4] = { p[0].v[l], p[1].v[l], p[2].v[l], p[3].v[l] };

                gr_fma_add_row<C, N>(acc, one, stage + (r + l) * cols);
            }
        }
    }
}

/* Where thread's pair (i, j) is in room->pairs. */
template <class C> static __device__ __forceinline__ int gr_fma_pair(int i, int j)
{
    return (int)(threadIdx.x / 16 + 16 * i) * gr_fma<C>::ld_pairs + (int)(threadIdx.x % 16) +
           16 * j;
}

/* ---- the rows of a tile ---- */

static __device__ __forceinline__ gr_fma_rows gr_fma_queries(const gr_attention_args &p, int64_t b,
                                                             int64_t h, int64_t q)
{
    return {
        p.q, GR_F32, false, gr_attention_q_at(p.d, b, h, q), p.d.row_q, p.d.nq - q, p.d.d, NULL
    };
}
static __device__ __forceinline__ gr_fma_rows gr_fma_keys(const gr_attention_args &p, int64_t b,
                                                          int64_t g, int64_t k)
{
    return { p.k,       GR_F32,     false, gr_attention_k_at(p.d, b, g, k),
             p.d.row_k, p.d.nk - k, p.d.d, p.mask ? p.mask + b * p.d.nk + k : NULL };
}
static __device__ __forceinline__ gr_fma_rows gr_fma_values(const gr_attention_args &p, int64_t b,
                                                            int64_t g, int64_t k)
{
    return { p.v,       GR_F32,     false, gr_attention_v_at(p.d, b, g, k),
             p.d.row_v, p.d.nk - k, p.d.d, p.mask ? p.mask + b * p.d.nk + k : NULL };
}

/* ---- numbers ---- */

static __device__ __forceinline__ float gr_fma_exp(float x)
{
    return expf(x);
}
static __device__ __forceinline__ double gr_fma_exp(double x)
{
    return exp(x);
}
static __device__ __forceinline__ float gr_fma_log(float x)
{
    return logf(x);
}
static __device__ __forceinline__ double gr_fma_log(double x)
{
    return log(x);
}

#endif

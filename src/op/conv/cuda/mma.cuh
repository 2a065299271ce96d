/*
 * Tiles of a product of matrices on tensor cores: 16-bit factors, f32 sums. A block of 8 warps
 * sums 128 x N elements, each warp 32 x N / 2 of them, from stretches of 32 terms in shared memory.
 * There are two of these, so that one is filled while the other is multiplied. Factors are only
 * moved on their way there, as words of 16 bits.
 */
#ifndef GR_OP_CONV_CUDA_MMA_CUH
#define GR_OP_CONV_CUDA_MMA_CUH

#include "op/conv/cuda/conv.cuh"

#include <mma.h>
#include <type_traits>

#define GR_MMA_M       128
#define GR_MMA_K       32
#define GR_MMA_THREADS 256
#define GR_MMA_PACK    8 /* elements of 16 bits in an access */
#define GR_MMA_EDGE    16

/* Below compute capability 8.0 there are no tensor cores for bf16; prepare() declines. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define GR_MMA_CODE 1
#else
#define GR_MMA_CODE 0
#endif

typedef gr_pack<uint16_t, GR_MMA_PACK> gr_mma_pack;

static __device__ __forceinline__ gr_mma_pack gr_mma_zeros()
{
    gr_mma_pack x;

#pragma unroll
    for (int j = 0; j < GR_MMA_PACK; j++)
        x.v[j] = 0;
    return x;
}

/* Elements i .. i + 7, of which only the first n count: zeros else. */
static __device__ __forceinline__ gr_mma_pack gr_mma_load(const uint16_t *mem, int64_t i, int64_t n,
                                                          bool is_packed)
{
    gr_mma_pack x;

    if (is_packed && n >= GR_MMA_PACK)
        return gr_pack_get<gr_mma_pack>(mem + i);
#pragma unroll
    for (int j = 0; j < GR_MMA_PACK; j++)
        x.v[j] = j < n ? mem[i + j] : 0;
    return x;
}

#if GR_MMA_CODE

/* What one warp sums. COL: the left factor lies [term][row] and not [row][term]. */
template <class T, int N, bool COL> struct gr_mma_warp {
    static const int WIDE = N / 32; /* 16 x 16 pieces side by side; two below each other */
    typedef nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> piece;
    piece sum[2][WIDE];

    __device__ __forceinline__ gr_mma_warp()
    {
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < WIDE; j++)
                nvcuda::wmma::fill_fragment(sum[i][j], 0.0f);
    }

    /* a: this warp's rows, b: its columns; steps from line to line. */
    __device__ __forceinline__ void multiply(const uint16_t *a, int step_a, const uint16_t *b,
                                             int step_b)
    {
        using namespace nvcuda::wmma;
        typedef typename std::conditional<COL, col_major, row_major>::type layout;

#pragma unroll
        for (int k = 0; k < GR_MMA_K; k += GR_MMA_EDGE) {
            fragment<matrix_a, 16, 16, 16, T, layout> left[2];
            fragment<matrix_b, 16, 16, 16, T, row_major> right;

#pragma unroll
            for (int i = 0; i < 2; i++)
                load_matrix_sync(left[i],
                                 (const T *)(a + (COL ? k * step_a + i * GR_MMA_EDGE
                                                      : i * GR_MMA_EDGE * step_a + k)),
                                 (unsigned)step_a);
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                load_matrix_sync(right, (const T *)(b + k * step_b + j * GR_MMA_EDGE),
                                 (unsigned)step_b);
#pragma unroll
                for (int i = 0; i < 2; i++)
                    mma_sync(sum[i][j], left[i], right, sum[i][j]);
            }
        }
    }

    /* f(row, column, sums): eight sums side by side; the row and column are the warp's own. */
    template <class F> __device__ __forceinline__ void each(float (*stage)[GR_MMA_EDGE + 4], F f)
    {
        const int lane = threadIdx.x % 32, row = lane / 2, col = lane % 2 * GR_MMA_PACK;

#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                nvcuda::wmma::store_matrix_sync(&stage[0][0], sum[i][j], GR_MMA_EDGE + 4,
                                                nvcuda::wmma::mem_row_major);
                __syncwarp();
                f(i * GR_MMA_EDGE + row, j * GR_MMA_EDGE + col, &stage[row][col]);
                __syncwarp();
            }
    }
};

#endif

#endif

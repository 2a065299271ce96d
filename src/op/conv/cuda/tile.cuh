/*
 * Tiles of a product of matrices: a block of 16 x 16 threads sums M x N elements, each thread
 * 4 x 4 of them, from stretches of K terms in shared memory. The next stretch is read into
 * registers while this one is multiplied.
 */
#ifndef GR_OP_CONV_CUDA_TILE_CUH
#define GR_OP_CONV_CUDA_TILE_CUH

#include "op/conv/cuda/conv.cuh"

#define GR_TILE_M       64
#define GR_TILE_N       64
#define GR_TILE_K       16
#define GR_TILE_THREADS 256
#define GR_TILE_PACK    4 /* elements that a thread brings of each matrix, and 4 x 4 that it sums */

template <class C> struct gr_tile {
    gr_pack<C, GR_TILE_PACK> a[GR_TILE_K][GR_TILE_M / GR_TILE_PACK + 1];
    gr_pack<C, GR_TILE_PACK> b[GR_TILE_K][GR_TILE_N / GR_TILE_PACK + 1];

    /* Term k of rows (columns) 4 i .. 4 i + 3. */
    __device__ __forceinline__ void multiply(C sum[GR_TILE_PACK][GR_TILE_PACK]) const
    {
        const int y = threadIdx.x / 16, x = threadIdx.x % 16;

#pragma unroll
        for (int k = 0; k < GR_TILE_K; k++) {
            const gr_pack<C, GR_TILE_PACK> u = a[k][y], v = b[k][x];

#pragma unroll
            for (int i = 0; i < GR_TILE_PACK; i++)
#pragma unroll
                for (int j = 0; j < GR_TILE_PACK; j++)
                    sum[i][j] += u.v[i] * v.v[j];
        }
    }
};

/* Neighbours i .. i + 3 of memory of type t, of which only the first n count: zeros else. */
template <class T>
static __device__ __forceinline__ gr_pack<typename gr_conv_type<T>::sum, GR_TILE_PACK>
gr_tile_load(const void *mem, int64_t i, int64_t n, bool is_packed, gr_dtype t)
{
    typedef typename gr_conv_type<T>::sum C;
    gr_pack<C, GR_TILE_PACK> x;

    if constexpr (gr_conv_type<T>::packs) {
        if (is_packed && n >= GR_TILE_PACK)
            return gr_pack_load<C, GR_TILE_PACK>((const T *)mem + i);
    }
#pragma unroll
    for (int j = 0; j < GR_TILE_PACK; j++)
        x.v[j] = j < n ? gr_conv_type<T>::at(mem, i + j, t) : C(0);
    return x;
}

template <class C> static __device__ __forceinline__ gr_pack<C, GR_TILE_PACK> gr_tile_zeros()
{
    gr_pack<C, GR_TILE_PACK> x;

#pragma unroll
    for (int j = 0; j < GR_TILE_PACK; j++)
        x.v[j] = C(0);
    return x;
}

#endif

/*
 * Several neighbouring elements in one access of at most 16 bytes.
 *
 *     template <class T, int N> static __global__ void twice(T *out, const T *in, int64_t n)
 *     {
 *         gr_pack_each<N>(n, [&](auto lanes, int64_t i) {
 *             const int L = decltype(lanes)::n;           // N, and 1 for what is left over
 *             gr_pack<float, L> x = gr_pack_load<float, L>(in + i);
 *
 *             for (int j = 0; j < L; j++)
 *                 x.v[j] *= 2.0f;
 *             gr_pack_store(out + i, x);
 *         });
 *     }
 *
 * The host launches N = gr_pack_lanes<T>() where gr_pack_is_aligned(out, in), else N = 1. Rows
 * of n_cols elements start aligned when n_cols % N == 0 as well.
 */
#ifndef GR_BACKEND_CUDA_PACK_CUH
#define GR_BACKEND_CUDA_PACK_CUH

#include "backend/cuda/types.cuh"

#include <string.h>

template <class T, int N> struct __align__(sizeof(T) * N < 16 ? sizeof(T) * N : 16) gr_pack
{
    static_assert((N & (N - 1)) == 0, "a power of two");
    T v[N];
};

/* Elements of T in 16 bytes. */
template <class T> static __host__ __device__ constexpr int gr_pack_lanes()
{
    return 16 / (int)sizeof(T);
}

/* Whether all addresses allow accesses of 16 bytes. NULL does. */
template <class... P> static inline bool gr_pack_is_aligned(const P *...mem)
{
    return ((((uintptr_t)mem % 16) == 0) && ...);
}

/* What one access moves. The compiler takes stores of such words apart as it likes; __stwb() is the
 * plain store that stays whole. */
template <int N_BYTES> struct gr_word;
template <> struct gr_word<16> {
    typedef uint4 type;
};
template <> struct gr_word<8> {
    typedef uint2 type;
};
template <> struct gr_word<4> {
    typedef uint32_t type;
};
template <> struct gr_word<2> {
    typedef uint16_t type;
};
template <> struct gr_word<1> {
    typedef uint8_t type;
};

template <class P> static __device__ __forceinline__ P gr_pack_get(const void *mem)
{
    typedef typename gr_word<(int)alignof(P)>::type word;
    P x;

#pragma unroll
    for (size_t i = 0; i < sizeof(P) / sizeof(word); i++) {
        word w = ((const word *)mem)[i];

        memcpy((char *)&x + i * sizeof(w), &w, sizeof(w));
    }
    return x;
}

template <class P> static __device__ __forceinline__ void gr_pack_put(void *mem, const P &x)
{
    typedef typename gr_word<(int)alignof(P)>::type word;

#pragma unroll
    for (size_t i = 0; i < sizeof(P) / sizeof(word); i++) {
        word w;

        memcpy(&w, (const char *)&x + i * sizeof(w), sizeof(w));
        __stwb((word *)mem + i, w);
    }
}

/* N elements from mem on, as C. */
template <class C, int N, class T>
static __device__ __forceinline__ gr_pack<C, N> gr_pack_load(const T *mem)
{
    gr_pack<T, N> x = gr_pack_get<gr_pack<T, N>>(mem);
    gr_pack<C, N> y;

#pragma unroll
    for (int j = 0; j < N; j++)
        y.v[j] = gr_as<C>(x.v[j]);
    return y;
}

/* Rounded to T as the CPU does. */
template <class C, int N, class T>
static __device__ __forceinline__ void gr_pack_store(T *mem, const gr_pack<C, N> &x)
{
    gr_pack<T, N> y;

#pragma unroll
    for (int j = 0; j < N; j++)
        y.v[j] = gr_as<T>(x.v[j]);
    gr_pack_put(mem, y);
}

template <int N> struct gr_lanes {
    static const int n = N;
};

/* f(gr_lanes<N>, i) for each i = 0, N, 2 N .. that has N elements before n, and f(gr_lanes<1>, i)
 * for what is left; shared out among all threads of a one-dimensional grid. */
template <int N, class F> static __device__ __forceinline__ void gr_pack_each(int64_t n, F f)
{
    int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int64_t step = (int64_t)gridDim.x * blockDim.x, n_packs = n / N;

    for (int64_t i = first; i < n_packs; i += step)
        f(gr_lanes<N>(), i * N);
    if constexpr (N > 1)
        if (first < n - n_packs * N)
            f(gr_lanes<1>(), n_packs * N + first);
}

#endif

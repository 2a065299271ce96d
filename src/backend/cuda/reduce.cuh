/*
 * Joining values of threads: sums, maxima, places of the best. The order is a fixed tree, so
 * equal inputs give equal bits, and every thread of the warp or block gets the result.
 *
 * `op` is an object with C operator()(C, C): commutative and associative up to rounding. All
 * threads of the warp (block) must call; the same function may be called again at once.
 */
#ifndef GR_BACKEND_CUDA_REDUCE_CUH
#define GR_BACKEND_CUDA_REDUCE_CUH

#include <stdint.h>

struct gr_plus {
    template <class C> __device__ __forceinline__ C operator()(C a, C b) const
    {
        return a + b;
    }
};

/* NaN wins, as on the CPU. */
struct gr_greater {
    template <class C> __device__ __forceinline__ C operator()(C a, C b) const
    {
        return b > a || b != b ? b : a;
    }
};

struct gr_lesser {
    template <class C> __device__ __forceinline__ C operator()(C a, C b) const
    {
        return b < a || b != b ? b : a;
    }
};

/* A value and where it stands. at < 0: none yet. */
template <class C> struct gr_found {
    C value;
    int64_t at;
};

template <class C> static __device__ __forceinline__ bool gr_is_nan(C x)
{
    return x != x;
}

/* The greatest (least) value; NaN before everything else; the first place among equals. */
template <bool IS_MIN> struct gr_better {
    template <class C>
    __device__ __forceinline__ gr_found<C> operator()(gr_found<C> a, gr_found<C> b) const
    {
        bool nan_a = gr_is_nan(a.value), nan_b = gr_is_nan(b.value);
        bool same = a.value == b.value || (nan_a && nan_b);
        bool beats = !nan_a && (nan_b || (IS_MIN ? b.value < a.value : b.value > a.value));

        if (a.at < 0 || b.at < 0)
            return a.at < 0 ? b : a;
        return beats || (same && b.at < a.at) ? b : a;
    }
};

/* ---- a warp ---- */

template <class C> static __device__ __forceinline__ C gr_shuffle(C x, int mask)
{
    return __shfl_xor_sync(~0u, x, mask);
}

template <class C> static __device__ __forceinline__ gr_found<C> gr_shuffle(gr_found<C> x, int mask)
{
    x.value = __shfl_xor_sync(~0u, x.value, mask);
    x.at = __shfl_xor_sync(~0u, x.at, mask);
    return x;
}

/* Over each WIDTH neighbouring lanes; a power of two. */
template <int WIDTH = 32, class C, class Op>
static __device__ __forceinline__ C gr_warp_join(C x, Op op)
{
#pragma unroll
    for (int d = WIDTH / 2; d > 0; d /= 2)
        x = op(x, gr_shuffle(x, d));
    return x;
}

/* ---- a block ---- */

/* A one-dimensional block of THREADS, or, with THREADS = 32, each warp for itself: the team of
 * gr_cuda_grid_rows<THREADS>(). */
template <int THREADS, class C, class Op>
static __device__ __forceinline__ C gr_team_join(C x, Op op)
{
    const int n_warps = THREADS / 32;

    static_assert(THREADS % 32 == 0 && (n_warps & (n_warps - 1)) == 0, "a power of two of warps");
    x = gr_warp_join(x, op);
    if constexpr (n_warps > 1) {
        __shared__ C slots[n_warps];

        if (threadIdx.x % 32 == 0)
            slots[threadIdx.x / 32] = x;
        __syncthreads();
        x = gr_warp_join<n_warps>(slots[threadIdx.x % n_warps], op);
        __syncthreads();
    }
    return x;
}

/* Over y of a block (X, Y), Y a power of two; threads with y = 0 get their column's result. */
template <int X, int Y, class C, class Op> static __device__ C gr_columns_join(C x, Op op)
{
    __shared__ C slots[Y][X];

    static_assert((Y & (Y - 1)) == 0, "a power of two");
    slots[threadIdx.y][threadIdx.x] = x;
    for (int d = Y / 2; d > 0; d /= 2) {
        __syncthreads();
        if (threadIdx.y < d)
            slots[threadIdx.y][threadIdx.x] =
                op(slots[threadIdx.y][threadIdx.x], slots[threadIdx.y + d][threadIdx.x]);
    }
    if (threadIdx.y == 0) /* others would read what is just being written */
        x = slots[0][threadIdx.x];
    __syncthreads();
    return x;
}

/* How many threads before this one have the flag, in a one-dimensional block of THREADS;
 * *total: how many have it at all. */
template <int THREADS> static __device__ int gr_block_rank(bool flag, int *total)
{
    __shared__ int counts[THREADS / 32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned mask = __ballot_sync(~0u, flag);
    int place = __popc(mask & ((1u << lane) - 1u)), sum = 0;

    if (lane == 0)
        counts[warp] = __popc(mask);
    __syncthreads();
    for (unsigned w = 0; w < THREADS / 32; w++) {
        place += w < warp ? counts[w] : 0;
        sum += counts[w];
    }
    *total = sum;
    __syncthreads();
    return place;
}

#endif

/*
 * Launching kernels. Sizes have 64 bits; a grid of nothing launches nothing, which is how empty
 * tensors are fine; what a GPU cannot take is a failure with its numbers.
 *
 *     static __global__ void scale(float *x, int64_t n, float by)
 *     {
 *         GR_CUDA_EACH(i, n)
 *             x[i] *= by;
 *     }
 *     return gr_cuda_launch("scale launch", gr_cuda_grid_for(n), stream, scale, x, n, by);
 */
#ifndef GR_BACKEND_CUDA_LAUNCH_CUH
#define GR_BACKEND_CUDA_LAUNCH_CUH

#include "backend/cuda/cuda.h"
#include "base/both.h"

#define GR_CUDA_BLOCK       256
#define GR_CUDA_MOST_BLOCKS 2048 /* of a grid-stride loop: two rounds of a large GPU */

/* `for` over i in [0, n), shared out among all threads of a one-dimensional grid. */
#define GR_CUDA_EACH(i, n)                                                    \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); \
         i += (int64_t)gridDim.x * blockDim.x)

typedef struct gr_cuda_grid {
    int64_t x, y, z; /* blocks */
    dim3 threads;
    size_t shared_bytes; /* that the kernel declares as extern __shared__ */
} gr_cuda_grid;

static inline gr_cuda_grid gr_cuda_grid_of(int64_t x, int64_t y, dim3 threads)
{
    gr_cuda_grid g = { x, y, 1, threads, 0 };

    return g;
}

/* For GR_CUDA_EACH over n, at `per_thread` elements a thread and round. */
static inline gr_cuda_grid gr_cuda_grid_for(int64_t n, int per_thread = 1)
{
    int64_t blocks = gr_ceil_div(n, (int64_t)GR_CUDA_BLOCK * per_thread);

    return gr_cuda_grid_of(blocks < GR_CUDA_MOST_BLOCKS ? blocks : GR_CUDA_MOST_BLOCKS, 1,
                           GR_CUDA_BLOCK);
}

/* For rows taken by a team of THREADS each (reduce.cuh): several warps of their own make a
 * block, or the block is one team. */
template <int THREADS> static inline gr_cuda_grid gr_cuda_grid_rows(int64_t n_rows)
{
    const int per_block = THREADS == 32 ? 4 : 1;

    return gr_cuda_grid_of(gr_ceil_div(n_rows, per_block), 1, dim3(THREADS, per_block));
}

/* The row of this thread's team; the last block has teams whose row is n_rows or more. */
static __device__ __forceinline__ int64_t gr_cuda_row()
{
    return (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
}

/* More than what every kernel may have has to be asked for. */
static inline gr_status gr_cuda_allow_shared(const void *kernel, size_t n_bytes)
{
    if (n_bytes <= (size_t)48 << 10)
        return GR_OK;
    return gr_cuda_check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)n_bytes),
        "shared memory of a block");
}

/* Queues kernel(args...). Arguments have the types of the parameters or become them implicitly. */
template <class... P, class... A>
static inline gr_status gr_cuda_launch(const char *what, const gr_cuda_grid &g, cudaStream_t s,
                                       void (*kernel)(P...), const A &...args)
{
    if (g.x <= 0 || g.y <= 0 || g.z <= 0)
        return GR_OK;
    if (g.x > INT32_MAX || g.y > 65535 || g.z > 65535)
        return gr_fail(GR_ERR_DEVICE,
                       "%s: a grid of %lld x %lld x %lld blocks is more than a GPU takes", what,
                       (long long)g.x, (long long)g.y, (long long)g.z);
    GR_TRY(gr_cuda_allow_shared((const void *)kernel, g.shared_bytes));
    kernel<<<dim3((unsigned)g.x, (unsigned)g.y, (unsigned)g.z), g.threads, g.shared_bytes, s>>>(
        args...);
    return gr_cuda_check(cudaGetLastError(), what);
}

#endif

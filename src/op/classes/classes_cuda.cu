/*
 * one_hot and confusion on the GPU. Pairs are counted with atomics, which for integers is the
 * same in any order: in a table of the block while that fits, since few classes meet often.
 */
#include "op/classes/classes.h"

#include "backend/cuda/fault.cuh"
#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

#define MAX_SHARED 96 /* classes of a table in shared memory: 36 KiB */

static __device__ __forceinline__ int64_t label_at(const void *mem, gr_dtype t, int64_t i)
{
    return t == GR_U8 ? ((const uint8_t *)mem)[i] : gr_load_index(mem, i, t);
}

template <class T>
static __global__ void one_hot(T *out, const void *labels, gr_dtype t, int64_t n_rows,
                               const __grid_constant__ gr_divider n)
{
    GR_CUDA_EACH(i, n_rows * n.n)
    {
        int64_t r = gr_divide(&n, i);

        out[i] = gr_as<T>(label_at(labels, t, r) == i - r * n.n ? 1 : 0);
    }
}

static gr_status one_hot_run(const gr_launch *l)
{
    const gr_value *labels = l->node->src[0];
    int64_t n = ((const gr_classes_attr *)l->node->attr)->n;
    int64_t rows = gr_shape_count(&labels->shape);

    GR_CUDA_TYPES(l->node->out[0].dtype, T,
                  return gr_cuda_launch("one_hot launch", gr_cuda_grid_for(rows * n),
                                        gr_cuda_stream(l->stream), one_hot<T>, (T *)l->out[0],
                                        l->src[0], labels->dtype, rows, gr_divider_of(n)))
}

/* ---- confusion ---- */

typedef struct count_args {
    unsigned long long *table; /* [n, n], of zeros */
    const void *target, *guess;
    gr_dtype target_type, guess_type;
    int64_t n_rows;
    int n;
    bool in_shared;
    uint32_t node_id;
    gr_fault *fault;
} count_args;

static __device__ void count_rows(const count_args &p, uint32_t *own)
{
    GR_CUDA_EACH(r, p.n_rows)
    {
        int64_t target = label_at(p.target, p.target_type, r);
        int64_t guess = label_at(p.guess, p.guess_type, r);

        if (target < 0 || target >= p.n)
            continue;
        if (guess < 0 || guess >= p.n)
            gr_cuda_fault(p.fault, p.node_id, guess, (int64_t)p.n, r);
        else if (p.in_shared)
            atomicAdd(&own[target * p.n + guess], 1u);
        else
            atomicAdd(&p.table[target * p.n + guess], 1ull);
    }
}

/* A block counts less than 2^32 rows: there would be no memory for the labels of more. */
static __global__ void count_pairs(const __grid_constant__ count_args p)
{
    extern __shared__ uint32_t own[];

    for (int i = threadIdx.x; p.in_shared && i < p.n * p.n; i += blockDim.x)
        own[i] = 0;
    __syncthreads();
    count_rows(p, own);
    __syncthreads();
    for (int i = threadIdx.x; p.in_shared && i < p.n * p.n; i += blockDim.x)
        if (own[i] > 0)
            atomicAdd(&p.table[i], (unsigned long long)own[i]);
}

static gr_status confusion_run(const gr_launch *l)
{
    cudaStream_t s = gr_cuda_stream(l->stream);
    gr_cuda_grid grid;
    count_args p;

    p.table = (unsigned long long *)l->out[0];
    p.target = l->src[0];
    p.guess = l->src[1];
    p.target_type = l->node->src[0]->dtype;
    p.guess_type = l->node->src[1]->dtype;
    p.n_rows = gr_shape_count(&l->node->src[0]->shape);
    p.n = (int)((const gr_classes_attr *)l->node->attr)->n;
    p.in_shared = p.n <= MAX_SHARED;
    p.node_id = l->node->id;
    p.fault = l->fault;
    GR_TRY(gr_cuda_check(cudaMemsetAsync(p.table, 0, (size_t)p.n * p.n * sizeof(*p.table), s),
                         "confusion"));
    grid = gr_cuda_grid_for(p.n_rows, 8);
    grid.shared_bytes = p.in_shared ? (size_t)p.n * p.n * sizeof(uint32_t) : 0;
    return gr_cuda_launch("confusion launch", grid, s, count_pairs, p);
}

const gr_kernel gr_one_hot_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = one_hot_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

const gr_kernel gr_confusion_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = confusion_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

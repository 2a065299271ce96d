/*
 * Softmax cross-entropy on the GPU. Rows of up to WARP_COLS classes take one warp, four
 * rows to a block; longer ones take a block each. Either way the row is read twice (its
 * maximum, then the sum of exponentials; the second time from the cache), and the order
 * of the sum is fixed by the number of classes.
 */
#include "op/xent/xent.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/fault.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

#include <float.h>

#define WARP_COLS   1024
#define ROW_THREADS 256

/* The compute type of logits: f32, or f64 for f64. */
template <class T> struct wide {
    typedef float type;
};
template <> struct wide<double> {
    typedef double type;
};

static __device__ __forceinline__ float exp_of(float x)
{
    return expf(x);
}
static __device__ __forceinline__ double exp_of(double x)
{
    return exp(x);
}
static __device__ __forceinline__ float log_of(float x)
{
    return logf(x);
}
static __device__ __forceinline__ double log_of(double x)
{
    return log(x);
}

/* NaN wins, so that a NaN logit makes a NaN loss. */
template <class C> static __device__ __forceinline__ C max_of(C a, C b)
{
    return b > a || b != b ? b : a;
}

typedef struct row_args {
    const void *logits, *labels;
    void *loss, *lse;
    int64_t n, c;
    gr_dtype label_type;
    uint32_t node_id;
    gr_fault *fault;
} row_args;

/* Combines a value over the THREADS threads of a row; every thread gets the result.
 * `slots` has room for one value per warp. */
template <class C, int THREADS, bool IS_MAX> static __device__ C over_row(C x, C *slots)
{
    for (int d = 16; d > 0; d /= 2) {
        C y = __shfl_xor_sync(~0u, x, d);

        x = IS_MAX ? max_of(x, y) : x + y;
    }
    if (THREADS == 32)
        return x;
    if (threadIdx.x % 32 == 0)
        slots[threadIdx.x / 32] = x;
    __syncthreads();
    x = slots[0];
    for (int w = 1; w < THREADS / 32; w++)
        x = IS_MAX ? max_of(x, slots[w]) : x + slots[w];
    __syncthreads();
    return x;
}

/* logits [n, c]; block (THREADS, rows per block), one row per threadIdx.y. */
template <class T, int THREADS> static __global__ void xent_rows(row_args p)
{
    typedef typename wide<T>::type C;
    __shared__ C slots[THREADS / 32];
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;

    if (row >= p.n)
        return;
    const T *x = (const T *)p.logits + row * p.c;
    C top = -(C)INFINITY, sum = 0;

    for (int64_t j = threadIdx.x; j < p.c; j += THREADS)
        top = max_of(top, (C)x[j]);
    top = over_row<C, THREADS, true>(top, slots);
    for (int64_t j = threadIdx.x; j < p.c; j += THREADS)
        sum += exp_of((C)x[j] - top);
    sum = over_row<C, THREADS, false>(sum, slots);
    if (threadIdx.x != 0)
        return;

    int64_t label = gr_load_index(p.labels, row, p.label_type);
    C lse = top + log_of(sum), loss = 0;

    if (label >= 0 && label < p.c)
        loss = lse - (C)x[label];
    else
        gr_cuda_fault(p.fault, p.node_id, label, p.c, row);
    ((C *)p.lse)[row] = lse;
    ((C *)p.loss)[row] = loss;
}

template <class T> static void launch_rows(const row_args &p, cudaStream_t s)
{
    if (p.c <= WARP_COLS)
        xent_rows<T, 32><<<(unsigned)((p.n + 3) / 4), dim3(32, 4), 0, s>>>(p);
    else
        xent_rows<T, ROW_THREADS><<<(unsigned)p.n, ROW_THREADS, 0, s>>>(p);
}

static gr_status xent_run(const gr_launch *l)
{
    const gr_value *x = l->node->src[0];
    row_args p;

    p.logits = l->src[0];
    p.labels = l->src[1];
    p.loss = l->out[0];
    p.lse = l->out[1];
    p.n = x->shape.dim[0];
    p.c = x->shape.dim[1];
    p.label_type = l->node->src[1]->dtype;
    p.node_id = l->node->id;
    p.fault = l->fault;
    if (p.n == 0)
        return GR_OK;
    GR_CUDA_FLOATS(x->dtype, T, launch_rows<T>(p, gr_cuda_stream(l->stream)))
    return gr_cuda_check(cudaGetLastError(), "softmax_xent launch");
}

typedef struct grad_args {
    const void *logits, *labels, *lse, *d_loss;
    void *out;
    int64_t n, c;
    gr_dtype label_type, out_type;
    uint32_t node_id;
    gr_fault *fault;
} grad_args;

/* out [n, c] = (exp(x - lse) - [j is the label]) * d_loss; one thread per element. */
template <class T> static __global__ void xent_grad(grad_args p)
{
    typedef typename wide<T>::type C;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i >= p.n * p.c)
        return;
    int64_t row = i / p.c, j = i - row * p.c;
    int64_t label = gr_load_index(p.labels, row, p.label_type);
    bool is_known = label >= 0 && label < p.c;
    C y = exp_of((C)((const T *)p.logits)[i] - ((const C *)p.lse)[row]);

    if (j == label)
        y -= 1;
    y *= is_known ? ((const C *)p.d_loss)[row] : (C)0;
    if (!is_known && j == 0)
        gr_cuda_fault(p.fault, p.node_id, label, p.c, row);
    gr_store_f64(p.out, i, p.out_type, (double)y);
}

static gr_status xent_grad_run(const gr_launch *l)
{
    const gr_value *x = l->node->src[0];
    cudaStream_t s = gr_cuda_stream(l->stream);
    grad_args p;
    unsigned grid;

    p.logits = l->src[0];
    p.labels = l->src[1];
    p.lse = l->src[2];
    p.d_loss = l->src[3];
    p.out = l->out[0];
    p.n = x->shape.dim[0];
    p.c = x->shape.dim[1];
    p.label_type = l->node->src[1]->dtype;
    p.out_type = l->node->out[0].dtype;
    p.node_id = l->node->id;
    p.fault = l->fault;
    if (p.n * p.c == 0)
        return GR_OK;
    grid = (unsigned)((p.n * p.c + 255) / 256);
    GR_CUDA_FLOATS(x->dtype, T, (xent_grad<T><<<grid, 256, 0, s>>>(p)))
    return gr_cuda_check(cudaGetLastError(), "softmax_xent_grad launch");
}

static const char *reject_options(const gr_node *n)
{
    return gr_xent_is_plain(n) ? NULL
                               : "takes the plain loss only: no ignored label, smoothing "
                                 "or weights";
}

const gr_kernel gr_softmax_xent_cuda[] = {
    {
        .name = "rows",
        .reject = reject_options,
        .prepare = NULL,
        .workspace = NULL,
        .run = xent_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

const gr_kernel gr_softmax_xent_grad_cuda[] = {
    {
        .name = "elements",
        .reject = reject_options,
        .prepare = NULL,
        .workspace = NULL,
        .run = xent_grad_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

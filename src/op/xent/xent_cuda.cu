/*
 * Softmax cross-entropy on the GPU. Rows of up to WARP_COLS classes take one warp, four
 * rows to a block; longer ones take a block each. Either way the row is read twice (its
 * maximum, then the sum of exponentials; the second time from the cache), and the order
 * of the sum is fixed by the number of classes.
 */
#include "op/xent/xent.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/fault.cuh"
#include "backend/cuda/index.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

#include <float.h>

#define WARP_COLS   1024
#define ROW_THREADS 256

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

typedef struct row_args {
    const void *logits, *labels;
    void *loss, *lse;
    int64_t n, c;
    gr_dtype label_type;
    uint32_t node_id;
    gr_fault *fault;
} row_args;

/* logits [n, c]; a team of THREADS per row. */
template <class T, int THREADS> static __global__ void xent_rows(row_args p)
{
    typedef typename gr_compute<T>::type C;
    int64_t row = gr_cuda_row();

    if (row >= p.n)
        return;
    const T *x = (const T *)p.logits + row * p.c;
    C top = -(C)INFINITY, sum = 0;

    for (int64_t j = threadIdx.x; j < p.c; j += THREADS)
        top = gr_greater()(top, gr_as<C>(x[j]));
    top = gr_team_join<THREADS>(top, gr_greater());
    for (int64_t j = threadIdx.x; j < p.c; j += THREADS)
        sum += exp_of(gr_as<C>(x[j]) - top);
    sum = gr_team_join<THREADS>(sum, gr_plus());
    if (threadIdx.x != 0)
        return;

    int64_t label = gr_load_index(p.labels, row, p.label_type);
    C lse = top + log_of(sum), loss = 0;

    if (label >= 0 && label < p.c)
        loss = lse - gr_as<C>(x[label]);
    else
        gr_cuda_fault(p.fault, p.node_id, label, p.c, row);
    ((C *)p.lse)[row] = lse;
    ((C *)p.loss)[row] = loss;
}

template <class T> static gr_status launch_rows(const row_args &p, cudaStream_t s)
{
    if (p.c <= WARP_COLS)
        return gr_cuda_launch("softmax_xent launch", gr_cuda_grid_rows<32>(p.n), s,
                              xent_rows<T, 32>, p);
    return gr_cuda_launch("softmax_xent launch", gr_cuda_grid_rows<ROW_THREADS>(p.n), s,
                          xent_rows<T, ROW_THREADS>, p);
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
    GR_CUDA_FLOATS(x->dtype, T, return launch_rows<T>(p, gr_cuda_stream(l->stream)))
}

typedef struct grad_args {
    const void *logits, *labels, *lse, *d_loss;
    void *out;
    int64_t n;
    gr_divider c;
    gr_dtype label_type, out_type;
    uint32_t node_id;
    gr_fault *fault;
} grad_args;

/* out [n, c] = (exp(x - lse) - [j is the label]) * d_loss; grid-stride. */
template <class T> static __global__ void xent_grad(const __grid_constant__ grad_args p)
{
    typedef typename gr_compute<T>::type C;

    GR_CUDA_EACH(i, p.n * p.c.n)
    {
        int64_t row = gr_divide(&p.c, i), j = i - row * p.c.n;
        int64_t label = gr_load_index(p.labels, row, p.label_type);
        bool is_known = label >= 0 && label < p.c.n;
        C y = exp_of(gr_as<C>(((const T *)p.logits)[i]) - ((const C *)p.lse)[row]);

        if (j == label)
            y -= 1;
        y *= is_known ? ((const C *)p.d_loss)[row] : (C)0;
        if (!is_known && j == 0)
            gr_cuda_fault(p.fault, p.node_id, label, p.c.n, row);
        gr_store_f64(p.out, i, p.out_type, (double)y);
    }
}

static gr_status xent_grad_run(const gr_launch *l)
{
    const gr_value *x = l->node->src[0];
    cudaStream_t s = gr_cuda_stream(l->stream);
    int64_t c = x->shape.dim[1];
    grad_args p;

    p.logits = l->src[0];
    p.labels = l->src[1];
    p.lse = l->src[2];
    p.d_loss = l->src[3];
    p.out = l->out[0];
    p.n = x->shape.dim[0];
    p.label_type = l->node->src[1]->dtype;
    p.out_type = l->node->out[0].dtype;
    p.node_id = l->node->id;
    p.fault = l->fault;
    p.c = gr_divider_of(c > 0 ? c : 1);
    GR_CUDA_FLOATS(x->dtype, T,
                   return gr_cuda_launch("softmax_xent_grad launch", gr_cuda_grid_for(p.n * c), s,
                                         xent_grad<T>, p))
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

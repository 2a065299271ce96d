/*
 * Softmax cross-entropy on the GPU. Rows of up to WARP_COLS classes take one warp, four
 * rows to a block; longer ones take a block each. Either way the row is read twice (its
 * maximum, then the sum of exponentials; the second time from the cache), and the order
 * of the sum is fixed by the number of classes. Where labels are smoothed over weighted classes,
 * the sum of the weights is made first, by a block, in the workspace.
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

/* What smoothing, weights and the label to ignore make of a row; xent.c has the formulas. */
typedef struct xent_options {
    const void *w;             /* of the classes; NULL: 1 */
    const void *w_sum;         /* where it is not their number; NULL */
    double share, rest, count; /* e / C, 1 - e, C */
    bool has_ignore;
    int64_t ignore;
} xent_options;

template <class C> static __device__ __forceinline__ C weight_of(const xent_options &o, int64_t j)
{
    return o.w ? ((const C *)o.w)[j] : (C)1;
}

template <class C> static __device__ __forceinline__ C weights_of(const xent_options &o)
{
    return o.w_sum ? *(const C *)o.w_sum : (C)o.count;
}

static __device__ __forceinline__ bool is_ignored(const xent_options &o, int64_t label)
{
    return o.has_ignore && label == o.ignore;
}

template <class C> static __global__ void sum_weights(const C *w, int64_t n, C *out)
{
    C sum = 0;

    for (int64_t j = threadIdx.x; j < n; j += ROW_THREADS)
        sum += w[j];
    sum = gr_team_join<ROW_THREADS>(sum, gr_plus());
    if (threadIdx.x == 0)
        *out = sum;
}

typedef struct row_args {
    const void *logits, *labels;
    void *loss, *lse;
    int64_t n, c;
    gr_dtype label_type;
    uint32_t node_id;
    gr_fault *fault;
    xent_options o;
} row_args;

/* By one thread: what a row comes to. dot: the weighted sum of its logits. */
template <class T, class C>
static __device__ void put_row(const row_args &p, int64_t row, int64_t label, C lse, C dot)
{
    C loss = 0;

    if (label >= 0 && label < p.c) {
        C x = gr_as<C>(((const T *)p.logits)[row * p.c + label]);

        loss = (C)p.o.rest * weight_of<C>(p.o, label) * (lse - x);
        if (p.o.share != 0)
            loss += (C)p.o.share * (weights_of<C>(p.o) * lse - dot);
    } else {
        gr_cuda_fault(p.fault, p.node_id, label, p.c, row);
    }
    ((C *)p.lse)[row] = lse;
    ((C *)p.loss)[row] = loss;
}

/* logits [n, c]; a team of THREADS per row. */
template <class T, int THREADS> static __global__ void xent_rows(row_args p)
{
    typedef typename gr_compute<T>::type C;
    int64_t row = gr_cuda_row();

    if (row >= p.n)
        return;
    const T *x = (const T *)p.logits + row * p.c;
    int64_t label = gr_load_index(p.labels, row, p.label_type);
    C top = -(C)INFINITY, sum = 0, dot = 0;

    if (is_ignored(p.o, label)) {
        if (threadIdx.x == 0)
            ((C *)p.lse)[row] = ((C *)p.loss)[row] = 0;
        return;
    }
    for (int64_t j = threadIdx.x; j < p.c; j += THREADS)
        top = gr_greater()(top, gr_as<C>(x[j]));
    top = gr_team_join<THREADS>(top, gr_greater());
    for (int64_t j = threadIdx.x; j < p.c; j += THREADS)
        sum += exp_of(gr_as<C>(x[j]) - top);
    sum = gr_team_join<THREADS>(sum, gr_plus());
    if (p.o.share != 0) {
        for (int64_t j = threadIdx.x; j < p.c; j += THREADS)
            dot += weight_of<C>(p.o, j) * gr_as<C>(x[j]);
        dot = gr_team_join<THREADS>(dot, gr_plus());
    }
    if (threadIdx.x == 0)
        put_row<T>(p, row, label, top + log_of(sum), dot);
}

template <class T> static gr_status launch_rows(const row_args &p, cudaStream_t s)
{
    if (p.c <= WARP_COLS)
        return gr_cuda_launch("softmax_xent launch", gr_cuda_grid_rows<32>(p.n), s,
                              xent_rows<T, 32>, p);
    return gr_cuda_launch("softmax_xent launch", gr_cuda_grid_rows<ROW_THREADS>(p.n), s,
                          xent_rows<T, ROW_THREADS>, p);
}

static bool needs_sum(const gr_node *n)
{
    return ((const gr_xent_attr *)n->attr)->smoothing != 0 && n->n_src % 2 == 1;
}

/* The weights are the last source, where their number is odd. */
static gr_status options_of(const gr_launch *l, xent_options *o)
{
    const gr_node *n = l->node;
    const gr_xent_attr *at = (const gr_xent_attr *)n->attr;
    const gr_value *x = n->src[0];
    int64_t c = x->shape.dim[1];
    cudaStream_t s = gr_cuda_stream(l->stream);
    gr_cuda_grid one = gr_cuda_grid_of(1, 1, ROW_THREADS);

    o->w = n->n_src % 2 == 1 ? l->src[n->n_src - 1] : NULL;
    o->w_sum = needs_sum(n) ? l->work : NULL;
    o->count = (double)c;
    o->share = c > 0 ? at->smoothing / (double)c : 0;
    o->rest = 1 - at->smoothing;
    o->has_ignore = at->has_ignore;
    o->ignore = at->ignore;
    if (!o->w_sum)
        return GR_OK;
    if (x->dtype == GR_F64)
        return gr_cuda_launch("sum_weights launch", one, s, sum_weights<double>,
                              (const double *)o->w, c, (double *)l->work);
    return gr_cuda_launch("sum_weights launch", one, s, sum_weights<float>, (const float *)o->w, c,
                          (float *)l->work);
}

static size_t work_bytes(const gr_node *n, const void *)
{
    return needs_sum(n) ? sizeof(double) : 0;
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
    GR_TRY(options_of(l, &p.o));
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
    xent_options o;
} grad_args;

/* Of logit j of a row with a label in range, but for d_loss; p is its probability. */
template <class C>
static __device__ __forceinline__ C slope(const xent_options &o, C p, int64_t j, int64_t label)
{
    C hit = (C)o.rest * weight_of<C>(o, label);

    if (o.share == 0)
        return hit * (j == label ? p - 1 : p);
    return (hit + (C)o.share * weights_of<C>(o)) * p - (j == label ? hit : (C)0) -
           (C)o.share * weight_of<C>(o, j);
}

/* out [n, c]; grid-stride. */
template <class T> static __global__ void xent_grad(const __grid_constant__ grad_args p)
{
    typedef typename gr_compute<T>::type C;

    GR_CUDA_EACH(i, p.n * p.c.n)
    {
        int64_t row = gr_divide(&p.c, i), j = i - row * p.c.n;
        int64_t label = gr_load_index(p.labels, row, p.label_type);
        bool is_known = label >= 0 && label < p.c.n, counts = is_known && !is_ignored(p.o, label);
        C y = 0;

        if (counts) {
            C share = exp_of(gr_as<C>(((const T *)p.logits)[i]) - ((const C *)p.lse)[row]);

            y = slope(p.o, share, j, label) * ((const C *)p.d_loss)[row];
        } else if (!is_known && !is_ignored(p.o, label) && j == 0) {
            gr_cuda_fault(p.fault, p.node_id, label, p.c.n, row);
        }
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
    GR_TRY(options_of(l, &p.o));
    GR_CUDA_FLOATS(x->dtype, T,
                   return gr_cuda_launch("softmax_xent_grad launch", gr_cuda_grid_for(p.n * c), s,
                                         xent_grad<T>, p))
}

const gr_kernel gr_softmax_xent_cuda[] = {
    { .name = "rows", .workspace = work_bytes, .run = xent_run }, { .name = NULL }
};

const gr_kernel gr_softmax_xent_grad_cuda[] = {
    { .name = "elements", .workspace = work_bytes, .run = xent_grad_run }, { .name = NULL }
};

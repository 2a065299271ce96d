/* Convolution on the GPU: the lists of kernels, and the end of a weight's gradient. */
#include "op/conv/cuda/conv.cuh"

#include "backend/cuda/reduce.cuh"
#include "op/conv/cuda/conv_cudnn.h"
#include "op/module_cuda.h"

/* ---- partial sums ---- */

#define COLUMNS 32 /* elements that a block joins the parts of */
#define LINES   8  /* among whom many parts are shared out */

typedef struct join_args {
    void *out;
    const void *sums;
    gr_dtype type;
    gr_conv_parts s;
    gr_divider cols, n_from;
    int64_t taps;
} join_args;

/* Element (o, (ky, kx, i)) of the sums is (o, i, (ky, kx)) of the result. */
static __device__ __forceinline__ void store_weight(const join_args &a, int64_t e, double sum)
{
    int64_t o = gr_divide(&a.cols, e), col = e - o * a.cols.n;
    int64_t tap = gr_divide(&a.n_from, col), i = col - tap * a.n_from.n;

    gr_store_f64(a.out, o * a.cols.n + i * a.taps + tap, a.type, sum);
}

template <class C> static __global__ void join_few(const __grid_constant__ join_args a)
{
    const C *sums = (const C *)a.sums;

    GR_CUDA_EACH(e, a.s.count)
    {
        C sum = sums[e];

        for (int64_t part = 1; part < a.s.n; part++)
            sum += sums[part * a.s.count + e];
        store_weight(a, e, (double)sum);
    }
}

/* Grid: strips of COLUMNS elements; block (COLUMNS, LINES). */
template <class C> static __global__ void join_many(const __grid_constant__ join_args a)
{
    const C *sums = (const C *)a.sums;
    int64_t e = (int64_t)blockIdx.x * COLUMNS + threadIdx.x;
    C sum = C(0);

    for (int64_t part = threadIdx.y; e < a.s.count && part < a.s.n; part += LINES)
        sum += sums[part * a.s.count + e];
    sum = gr_columns_join<COLUMNS, LINES>(sum, gr_plus());
    if (threadIdx.y == 0 && e < a.s.count)
        store_weight(a, e, (double)sum);
}

template <class C> static gr_status launch_join(const join_args &a, cudaStream_t s)
{
    if (a.s.n < 2 * LINES)
        return gr_cuda_launch("conv_weight sums launch", gr_cuda_grid_for(a.s.count), s,
                              join_few<C>, a);
    return gr_cuda_launch("conv_weight sums launch",
                          gr_cuda_grid_of(gr_ceil_div(a.s.count, COLUMNS), 1, dim3(COLUMNS, LINES)),
                          s, join_many<C>, a);
}

gr_status gr_conv_parts_join(const gr_launch *l, const gr_conv_parts *s)
{
    const gr_value *out = &l->node->out[0];
    join_args a;

    a.out = l->out[0];
    a.sums = l->work;
    a.type = out->dtype;
    a.s = *s;
    a.taps = out->shape.dim[2] * out->shape.dim[3];
    a.cols = gr_divider_of(out->shape.dim[1] * a.taps);
    a.n_from = gr_divider_of(out->shape.dim[1]);
    return gr_conv_sum_bytes(l->node) == sizeof(double)
               ? launch_join<double>(a, gr_cuda_stream(l->stream))
               : launch_join<float>(a, gr_cuda_stream(l->stream));
}

/* ---- lists ---- */

/* Tiles take everything, but would be empty for the most part. */
static const char *tiles_reject(const gr_node *n)
{
    gr_conv_dims d;

    gr_conv_get_dims(n, &d);
    return d.groups > 1 && (d.ci / d.groups < 8 || d.co / d.groups < 8)
               ? "leaves groups of few channels to the next"
               : NULL;
}

#define KERNEL(kernel_name, rejects, bytes, runs)                                          \
    {                                                                                      \
        .name = (kernel_name), .reject = (rejects), .prepare = NULL, .workspace = (bytes), \
        .run = (runs), .release = NULL, .no_capture = false, .in_place = false,            \
    }
#define MMA(bytes, runs)                                                                      \
    {                                                                                         \
        .name = "tensor_cores", .reject = gr_conv_mma_reject, .prepare = gr_conv_mma_prepare, \
        .workspace = (bytes), .run = (runs), .release = NULL, .no_capture = false,            \
        .in_place = false,                                                                    \
    }
#if GR_HAVE_CUDNN
#define CUDNN                               \
    {                                       \
        .name = "cudnn",                    \
        .reject = gr_conv_dnn_reject,       \
        .variants = gr_conv_dnn_variants,   \
        .prepare = gr_conv_dnn_prepare,     \
        .workspace = gr_conv_dnn_workspace, \
        .run = gr_conv_dnn_run,             \
        .release = gr_conv_dnn_release,     \
        .no_capture = false,                \
        .in_place = false,                  \
    },
#else
#define CUDNN
#endif

const gr_kernel gr_conv_cuda[] = {
    CUDNN MMA(gr_conv_arranged_bytes, gr_conv_mma_run),
    KERNEL("tiles", tiles_reject, gr_conv_arranged_bytes, gr_conv_tiles_run),
    KERNEL("each", NULL, NULL, gr_conv_each_run),
    {},
};

const gr_kernel gr_conv_data_cuda[] = {
    CUDNN MMA(gr_conv_arranged_bytes, gr_conv_data_mma_run),
    KERNEL("tiles", tiles_reject, gr_conv_arranged_bytes, gr_conv_data_tiles_run),
    KERNEL("each", NULL, NULL, gr_conv_data_each_run),
    {},
};

const gr_kernel gr_conv_weight_cuda[] = {
    CUDNN MMA(gr_conv_weight_mma_workspace, gr_conv_weight_mma_run),
    KERNEL("tiles", tiles_reject, gr_conv_weight_tiles_workspace, gr_conv_weight_tiles_run),
    KERNEL("each", NULL, gr_conv_weight_each_workspace, gr_conv_weight_each_run),
    {},
};

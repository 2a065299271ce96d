/* Convolution on the GPU: the lists of kernels, and the end of a weight's gradient. */
#include "op/conv/cuda/conv.cuh"

#include "op/conv/cuda/conv_cudnn.h"
#include "op/module_cuda.h"

/* ---- partial sums ---- */

/* Element (o, (ky, kx, i)) of the sums is (o, i, (ky, kx)) of the result. */
template <class C>
static __global__ void join_parts(void *out, gr_dtype t, const C *sums,
                                  const __grid_constant__ gr_conv_parts s,
                                  const __grid_constant__ gr_divider cols,
                                  const __grid_constant__ gr_divider n_from, int64_t taps)
{
    GR_CUDA_EACH(e, s.count)
    {
        int64_t o = gr_divide(&cols, e), col = e - o * cols.n;
        int64_t tap = gr_divide(&n_from, col), i = col - tap * n_from.n;
        C sum = sums[e];

        for (int64_t part = 1; part < s.n; part++)
            sum += sums[part * s.count + e];
        gr_store_f64(out, o * cols.n + i * taps + tap, t, (double)sum);
    }
}

gr_status gr_conv_parts_join(const gr_launch *l, const gr_conv_parts *s)
{
    const gr_value *out = &l->node->out[0];
    const int64_t n_from = out->shape.dim[1], taps = out->shape.dim[2] * out->shape.dim[3];
    const gr_cuda_grid grid = gr_cuda_grid_for(s->count);
    const cudaStream_t stream = gr_cuda_stream(l->stream);

    if (gr_conv_sum_bytes(l->node) == sizeof(double))
        return gr_cuda_launch("conv_weight sums launch", grid, stream, join_parts<double>,
                              l->out[0], out->dtype, (const double *)l->work, *s,
                              gr_divider_of(n_from * taps), gr_divider_of(n_from), taps);
    return gr_cuda_launch("conv_weight sums launch", grid, stream, join_parts<float>, l->out[0],
                          out->dtype, (const float *)l->work, *s, gr_divider_of(n_from * taps),
                          gr_divider_of(n_from), taps);
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

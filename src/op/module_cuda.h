/* The kernel lists of the CUDA module, for its table (module_cuda.c): an operator is a line. */
#ifndef GR_OP_MODULE_CUDA_H
#define GR_OP_MODULE_CUDA_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every operator with CUDA kernels, by its name: the list of "map" is gr_map_cuda. */
#define GR_CUDA_KERNELS(X) \
    X(map)                 \
    X(matmul)              \
    X(conv)                \
    X(conv_data)           \
    X(conv_weight)         \
    X(reduce)              \
    X(transpose)           \
    X(gather)              \
    X(scatter_add)         \
    X(softmax_xent)        \
    X(softmax_xent_grad)   \
    X(accumulate)          \
    X(attention)           \
    X(attention_grad)      \
    X(vote)                \
    X(verdict)             \
    X(grad_control)        \
    X(count_step)          \
    X(scale_update)        \
    X(sgd)                 \
    X(adamw)               \
    X(ema)                 \
    X(allreduce_start)     \
    X(allreduce_finish)    \
    X(batch_stats)         \
    X(batch_norm_sums)     \
    X(layer_norm)          \
    X(layer_norm_grad)     \
    X(rms_norm)            \
    X(rms_norm_grad)       \
    X(max_pool)            \
    X(max_pool_grad)       \
    X(resample)            \
    X(share_stats)         \
    X(sync_stats)          \
    X(share_sums)          \
    X(sync_sums)

#define X(name) extern const gr_kernel gr_##name##_cuda[];
GR_CUDA_KERNELS(X)
#undef X

#ifdef __cplusplus
}
#endif

#endif

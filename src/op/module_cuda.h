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
    X(softmax)             \
    X(softmax_grad)        \
    X(log_softmax)         \
    X(log_softmax_grad)    \
    X(logsumexp)           \
    X(swiglu)              \
    X(swiglu_grad)         \
    X(rotary)              \
    X(vote)                \
    X(verdict)             \
    X(grad_control)        \
    X(count_step)          \
    X(scale_update)        \
    X(sgd)                 \
    X(adamw)               \
    X(ema)                 \
    X(assign)              \
    X(hold)                \
    X(one_hot)             \
    X(confusion)           \
    X(concat)              \
    X(split)               \
    X(slice)               \
    X(pad)                 \
    X(flip)                \
    X(random)              \
    X(dropout)             \
    X(many_updates)        \
    X(accumulate_scaled)   \
    X(arg_reduce)          \
    X(arg_scatter)         \
    X(cross)               \
    X(constant)            \
    X(take)                \
    X(take_grad)           \
    X(top_k)               \
    X(knn)                 \
    X(wire_pack)           \
    X(wire_unpack)         \
    X(share_counts)        \
    X(sync_counts)         \
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
    X(attention)           \
    X(attention_grad)      \
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

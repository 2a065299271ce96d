/*
 * The kernels of the CUDA module, family by family. A family is a folder of src/op; it exports
 * one array, gr_cuda_<family>, with its operators and their kernels, ended by one with op NULL.
 */
#ifndef GR_OP_MODULE_CUDA_H
#define GR_OP_MODULE_CUDA_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every family: the one list. */
#define GR_CUDA_FAMILY_MAP(X) \
    X(collective)             \
    X(conv)                   \
    X(gather)                 \
    X(map)                    \
    X(matmul)                 \
    X(reduce)                 \
    X(shape)                  \
    X(update)                 \
    X(vote)                   \
    X(xent)

#define X(family) extern const gr_kernel_set gr_cuda_##family[];
GR_CUDA_FAMILY_MAP(X)
#undef X

#ifdef __cplusplus
}
#endif

#endif

/*
 * cuDNN 9, opened when the first kernel asks for it, where the build found its header
 * (GR_HAVE_CUDNN). It is optional: without it our own kernels serve, which is said once.
 */
#ifndef GR_BACKEND_CUDA_LIB_CUDNN_H
#define GR_BACKEND_CUDA_LIB_CUDNN_H

#include "backend/library.h"

#if GR_HAVE_CUDNN

#include <cudnn.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_CUDNN_MAP(X)         \
    X(Create)                   \
    X(Destroy)                  \
    X(SetStream)                \
    X(GetVersion)               \
    X(GetErrorString)           \
    X(GetLastErrorString)       \
    X(BackendCreateDescriptor)  \
    X(BackendDestroyDescriptor) \
    X(BackendSetAttribute)      \
    X(BackendGetAttribute)      \
    X(BackendFinalize)          \
    X(BackendExecute)

typedef struct gr_cudnn {
#define X(fn) GR_LIBRARY_FIELD(cudnn, fn)
    GR_CUDNN_MAP(X)
#undef X
} gr_cudnn;

/* Opens the library at the first call. GR_ERR_DEVICE says why there is none. *out stays valid. */
gr_status gr_cudnn_load(const gr_cudnn **out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

#endif

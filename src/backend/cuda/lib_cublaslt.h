/*
 * cuBLASLt, opened when the first product needs it. Without it its kernels decline with the reason,
 * and our own serve. The interfaces of 12 and 13 agree in what is used here.
 */
#ifndef GR_BACKEND_CUDA_LIB_CUBLASLT_H
#define GR_BACKEND_CUDA_LIB_CUBLASLT_H

#include "backend/library.h"

#include <cublasLt.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_CUBLASLT_MAP(X)          \
    X(Create)                       \
    X(Destroy)                      \
    X(GetVersion)                   \
    X(GetStatusString)              \
    X(Matmul)                       \
    X(MatmulDescCreate)             \
    X(MatmulDescDestroy)            \
    X(MatmulDescSetAttribute)       \
    X(MatrixLayoutCreate)           \
    X(MatrixLayoutDestroy)          \
    X(MatrixLayoutSetAttribute)     \
    X(MatmulPreferenceCreate)       \
    X(MatmulPreferenceDestroy)      \
    X(MatmulPreferenceSetAttribute) \
    X(MatmulAlgoGetHeuristic)       \
    X(MatmulAlgoGetIds)             \
    X(MatmulAlgoInit)               \
    X(MatmulAlgoCheck)              \
    X(MatmulAlgoCapGetAttribute)    \
    X(MatmulAlgoConfigGetAttribute) \
    X(MatmulAlgoConfigSetAttribute)

typedef struct gr_cublaslt {
#define X(fn) GR_LIBRARY_FIELD(cublasLt, fn)
    GR_CUBLASLT_MAP(X)
#undef X
} gr_cublaslt;

/* Opens the library at the first call. GR_ERR_DEVICE says why there is none. *out stays valid. */
gr_status gr_cublaslt_load(const gr_cublaslt **out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

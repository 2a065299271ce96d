/*
 * NVRTC, CUDA's compiler as a library, opened when the first kernel is compiled at run time. Code
 * that is found in the cache on disk needs it for its version only.
 */
#ifndef GR_BACKEND_CUDA_LIB_NVRTC_H
#define GR_BACKEND_CUDA_LIB_NVRTC_H

#include "backend/library.h"

#include <nvrtc.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_NVRTC_MAP(X)     \
    X(Version)              \
    X(GetErrorString)       \
    X(GetNumSupportedArchs) \
    X(GetSupportedArchs)    \
    X(CreateProgram)        \
    X(DestroyProgram)       \
    X(CompileProgram)       \
    X(GetCUBINSize)         \
    X(GetCUBIN)             \
    X(GetPTXSize)           \
    X(GetPTX)               \
    X(GetProgramLogSize)    \
    X(GetProgramLog)

typedef struct gr_nvrtc {
#define X(fn) GR_LIBRARY_FIELD(nvrtc, fn)
    GR_NVRTC_MAP(X)
#undef X
} gr_nvrtc;

/* Opens the library at the first call. GR_ERR_DEVICE says why there is none. *out stays valid. */
gr_status gr_nvrtc_load(const gr_nvrtc **out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

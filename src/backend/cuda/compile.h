/*
 * From the text of a kernel to code that the driver loads: NVRTC, with what it made kept on disk
 * (base/filecache.h), by text, options and the compiler's version. No GPU is needed for it.
 */
#ifndef GR_BACKEND_CUDA_COMPILE_H
#define GR_BACKEND_CUDA_COMPILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_cuda_target {
    int arch; /* 90: code for compute capability 9.0 */
    bool
        as_ptx; /* an assembly text that later GPUs' drivers translate, for another GPU than arch */
} gr_cuda_target;

/* What to compile for on a GPU of capability `gpu` where nothing over `cap` may be used (0: no
 * limit), by what this compiler knows. GR_ERR_DEVICE: it knows nothing that old. */
gr_status gr_cuda_target_of(gr_cuda_target *out, int gpu, int cap) GR_MUST_CHECK;

/* Code in memory from gr_malloc(). *was_cached: it was on disk. Where the compiler refuses, its
 * first lines are in the message. Any thread. */
gr_status gr_cuda_compile(const char *source, const gr_cuda_target *t, char **image,
                          size_t *n_bytes, bool *was_cached) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

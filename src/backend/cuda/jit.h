/*
 * Kernels compiled while the program runs (compile.h), kept by their source text: equal
 * text is compiled, or found on disk, once per device. Asking starts the compiler on a thread of
 * its own and does not wait, so the kernels of a plan are compiled side by side; the first use
 * waits. One thread calls, the device's.
 */
#ifndef GR_BACKEND_CUDA_JIT_H
#define GR_BACKEND_CUDA_JIT_H

#include "backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For a GPU of compute capability `gpu`, without what is newer than `cap` (0: no limit). */
gr_status gr_cuda_jit_create(gr_cuda_jit **out, int gpu, int cap) GR_MUST_CHECK;
void gr_cuda_jit_destroy(gr_cuda_jit *j);

typedef struct gr_cuda_compiled gr_cuda_compiled;

/* The kernel `name` (extern "C") of `source`, to be compiled soon. Owned by `j`. */
gr_status gr_cuda_jit_ask(gr_cuda_jit *j, const char *source, const char *name,
                          gr_cuda_compiled **out) GR_MUST_CHECK;

/* It, for cudaLaunchKernel(). The first call waits and loads it; where the compiler
 * refuses, its first lines are in the message. */
gr_status gr_cuda_jit_use(gr_cuda_compiled *c, const void **kernel) GR_MUST_CHECK;

/* Distinct sources so far, compiled or found on disk. */
int gr_cuda_jit_count(const gr_cuda_jit *j);

#ifdef __cplusplus
}
#endif

#endif

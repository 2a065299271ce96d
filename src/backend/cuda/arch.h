/* Which GPUs this build can use, and as what. */
#ifndef GR_BACKEND_CUDA_ARCH_H
#define GR_BACKEND_CUDA_ARCH_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* GPUs that this process sees; a driver that is too old is a failure with what to install. */
gr_status gr_cuda_count_gpus(int *out) GR_MUST_CHECK;

/* Compute capability of GPU `index`, 90 for 9.0. GR_ERR_DEVICE: there is no code for it. */
gr_status gr_cuda_gpu_arch(int *out, int index) GR_MUST_CHECK;

/* The limit of GR_CUDA_ARCH (75, 80, 86, 89, 90), 0 without one: nothing that newer GPUs have may
 * be used. GR_ERR_ARG for another word. */
gr_status gr_cuda_arch_cap(int *out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

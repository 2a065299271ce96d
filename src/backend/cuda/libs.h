/* What CUDA's libraries that are opened at run time have in common (backend/library.h). */
#ifndef GR_BACKEND_CUDA_LIBS_H
#define GR_BACKEND_CUDA_LIBS_H

#include "backend/library.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Folders that are searched before all others. */
#define GR_CUDA_LIBS_ENV "GR_CUDA_LIBS"

/* Where CUDA is usually installed; ended by NULL. */
extern const char *const gr_cuda_folders[];

#ifdef __cplusplus
}
#endif

#endif

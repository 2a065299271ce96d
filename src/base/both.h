/* Functions that the host and kernels on a GPU share: plain C, nothing but arithmetic. */
#ifndef GR_BASE_BOTH_H
#define GR_BASE_BOTH_H

#include <stdint.h>

#ifdef __CUDACC__
#define GR_BOTH static inline __host__ __device__
#else
#define GR_BOTH static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* n / by, rounded up; n >= 0, by >= 1. */
GR_BOTH int64_t gr_ceil_div(int64_t n, int64_t by)
{
    return n / by + (n % by != 0);
}

#ifdef __cplusplus
}
#endif

#endif

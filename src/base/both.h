/* Functions that the host and kernels on a GPU share: plain C, nothing but arithmetic. */
#ifndef GR_BASE_BOTH_H
#define GR_BASE_BOTH_H

#ifdef __CUDACC__
#define GR_BOTH static inline __host__ __device__
#else
#define GR_BOTH static inline
#endif

#endif

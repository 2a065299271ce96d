/*
 * Element types in kernels: gr_dtype as C++ types, conversions, dispatch, faults.
 * Conversions are plain casts: to 16-bit floats they round to nearest even.
 */
#ifndef GR_BACKEND_CUDA_TYPES_CUH
#define GR_BACKEND_CUDA_TYPES_CUH

#include "gradus/tensor.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* Element i of memory of type t, widened: for reference kernels and small outputs, where
 * a switch per element does not matter. */
static __device__ __forceinline__ double gr_load_f64(const void *mem, int64_t i, gr_dtype t)
{
    switch (t) {
    case GR_F32: return ((const float *)mem)[i];
    case GR_F64: return ((const double *)mem)[i];
    case GR_BF16: return __bfloat162float(((const __nv_bfloat16 *)mem)[i]);
    case GR_F16: return __half2float(((const __half *)mem)[i]);
    case GR_I32: return ((const int32_t *)mem)[i];
    case GR_I64: return (double)((const int64_t *)mem)[i];
    case GR_U8:
    case GR_BOOL: return ((const uint8_t *)mem)[i];
    default: return 0.0;
    }
}

/* 16-bit results go through f32, as on the CPU. */
static __device__ __forceinline__ void gr_store_f64(void *mem, int64_t i, gr_dtype t, double x)
{
    switch (t) {
    case GR_F32: ((float *)mem)[i] = (float)x; break;
    case GR_F64: ((double *)mem)[i] = x; break;
    case GR_BF16: ((__nv_bfloat16 *)mem)[i] = __float2bfloat16_rn((float)x); break;
    case GR_F16: ((__half *)mem)[i] = __float2half_rn((float)x); break;
    case GR_I32: ((int32_t *)mem)[i] = (int32_t)x; break;
    case GR_I64: ((int64_t *)mem)[i] = (int64_t)x; break;
    case GR_U8: ((uint8_t *)mem)[i] = (uint8_t)x; break;
    case GR_BOOL: ((uint8_t *)mem)[i] = x != 0.0; break;
    default: break;
    }
}

static __device__ __forceinline__ int64_t gr_load_index(const void *mem, int64_t i, gr_dtype t)
{
    return t == GR_I64 ? ((const int64_t *)mem)[i] : (int64_t)((const int32_t *)mem)[i];
}

/* GR_CUDA_FLOATS(t, T, statement): statement with T as the C++ type of floating t. */
#define GR_CUDA_FLOATS(t, T, ...)           \
    switch (t) {                            \
    case GR_F32: {                          \
        typedef float T;                    \
        __VA_ARGS__;                        \
        break;                              \
    }                                       \
    case GR_F64: {                          \
        typedef double T;                   \
        __VA_ARGS__;                        \
        break;                              \
    }                                       \
    case GR_BF16: {                         \
        typedef __nv_bfloat16 T;            \
        __VA_ARGS__;                        \
        break;                              \
    }                                       \
    case GR_F16: {                          \
        typedef __half T;                   \
        __VA_ARGS__;                        \
        break;                              \
    }                                       \
    default: GR_BUG_IF("not a float type"); \
    }

/* The same for all types; bool counts as u8. */
#define GR_CUDA_TYPES(t, T, ...)               \
    switch (t) {                               \
    case GR_I32: {                             \
        typedef int32_t T;                     \
        __VA_ARGS__;                           \
        break;                                 \
    }                                          \
    case GR_I64: {                             \
        typedef int64_t T;                     \
        __VA_ARGS__;                           \
        break;                                 \
    }                                          \
    case GR_U8:                                \
    case GR_BOOL: {                            \
        typedef uint8_t T;                     \
        __VA_ARGS__;                           \
        break;                                 \
    }                                          \
    default: GR_CUDA_FLOATS(t, T, __VA_ARGS__) \
    }

#endif

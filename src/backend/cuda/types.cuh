/*
 * Element types in kernels: gr_dtype as C++ types, conversions, dispatch.
 */
#ifndef GR_BACKEND_CUDA_TYPES_CUH
#define GR_BACKEND_CUDA_TYPES_CUH

#include "base/status.h"
#include "gradus/tensor.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* ---- conversions ---- */

static __device__ __forceinline__ float gr_plain(__half x)
{
    return __half2float(x);
}
static __device__ __forceinline__ float gr_plain(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
template <class T> static __device__ __forceinline__ T gr_plain(T x)
{
    return x;
}

template <class T> struct gr_conversion {
    template <class S> static __device__ __forceinline__ T of(S x)
    {
        return (T)gr_plain(x);
    }
};

/* To 16 bits values go through f32 and round to nearest even; NaN keeps its sign and the upper
 * part of its fraction. All of it as base/half.h does. */
template <> struct gr_conversion<__half> {
    template <class S> static __device__ __forceinline__ __half of(S x)
    {
        float f = (float)gr_plain(x);
        unsigned u = __float_as_uint(f);
        unsigned nan = (u >> 16 & 0x8000u) | 0x7e00u | (u >> 13 & 0x3ffu);

        return f == f ? __float2half_rn(f) : __ushort_as_half((unsigned short)nan);
    }
};
template <> struct gr_conversion<__nv_bfloat16> {
    template <class S> static __device__ __forceinline__ __nv_bfloat16 of(S x)
    {
        float f = (float)gr_plain(x);
        unsigned nan = __float_as_uint(f) >> 16 | 0x40u;

        return f == f ? __float2bfloat16_rn(f) : __ushort_as_bfloat16((unsigned short)nan);
    }
};

/* x as a T, whatever the two types are. Between numbers of the compiler it is a cast. */
template <class T, class S> static __device__ __forceinline__ T gr_as(S x)
{
    return gr_conversion<T>::of(x);
}

/* The type in which elements of T are computed: f32 for floats of 16 bits, else T. */
template <class T> struct gr_compute {
    typedef T type;
};
template <> struct gr_compute<__half> {
    typedef float type;
};
template <> struct gr_compute<__nv_bfloat16> {
    typedef float type;
};

/* The widest of its kind, for sums over anything: f64 for floats, else i64. */
template <class T> struct gr_widest {
    typedef int64_t type;
};
template <> struct gr_widest<float> {
    typedef double type;
};
template <> struct gr_widest<double> {
    typedef double type;
};
template <> struct gr_widest<__half> {
    typedef double type;
};
template <> struct gr_widest<__nv_bfloat16> {
    typedef double type;
};

/* ---- elements whose type is known at run time ---- */

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
    case GR_BF16: ((__nv_bfloat16 *)mem)[i] = gr_as<__nv_bfloat16>(x); break;
    case GR_F16: ((__half *)mem)[i] = gr_as<__half>(x); break;
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

/* ---- dispatch ---- */

/* GR_CUDA_FLOATS(t, T, statement): statement with T as the C++ type of floating t. */
#define GR_CUDA_FLOATS(t, T, ...)                            \
    switch (t) {                                             \
    case GR_F32: {                                           \
        typedef float T;                                     \
        __VA_ARGS__;                                         \
        break;                                               \
    }                                                        \
    case GR_F64: {                                           \
        typedef double T;                                    \
        __VA_ARGS__;                                         \
        break;                                               \
    }                                                        \
    case GR_BF16: {                                          \
        typedef __nv_bfloat16 T;                             \
        __VA_ARGS__;                                         \
        break;                                               \
    }                                                        \
    case GR_F16: {                                           \
        typedef __half T;                                    \
        __VA_ARGS__;                                         \
        break;                                               \
    }                                                        \
    default: gr_bug(__FILE__, __LINE__, "not a float type"); \
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

/* GR_CUDA_BYTES(n, T, statement): T is a plain type of n bytes, 1 to 16: for what is only moved. */
#define GR_CUDA_BYTES(n, T, ...)                                     \
    switch (n) {                                                     \
    case 1: {                                                        \
        typedef uint8_t T;                                           \
        __VA_ARGS__;                                                 \
        break;                                                       \
    }                                                                \
    case 2: {                                                        \
        typedef uint16_t T;                                          \
        __VA_ARGS__;                                                 \
        break;                                                       \
    }                                                                \
    case 4: {                                                        \
        typedef uint32_t T;                                          \
        __VA_ARGS__;                                                 \
        break;                                                       \
    }                                                                \
    case 8: {                                                        \
        typedef uint64_t T;                                          \
        __VA_ARGS__;                                                 \
        break;                                                       \
    }                                                                \
    case 16: {                                                       \
        typedef uint4 T;                                             \
        __VA_ARGS__;                                                 \
        break;                                                       \
    }                                                                \
    default: gr_bug(__FILE__, __LINE__, "not a size of one access"); \
    }

#endif

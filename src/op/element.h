/*
 * One element of a tensor as a wide number: what reference kernels are written with.
 * Slow on purpose: a switch per element, so that one loop serves every type.
 */
#ifndef GR_OP_ELEMENT_H
#define GR_OP_ELEMENT_H

#include "base/half.h"
#include "base/status.h"
#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exact for all types but i64 beyond 2^53. */
static inline double gr_element_f64(const void *mem, gr_dtype t, int64_t i)
{
    switch (t) {
    case GR_F32: return (double)((const float *)mem)[i];
    case GR_F64: return ((const double *)mem)[i];
    case GR_BF16: return (double)gr_bf16_to_f32(((const uint16_t *)mem)[i]);
    case GR_F16: return (double)gr_f16_to_f32(((const uint16_t *)mem)[i]);
    case GR_I32: return (double)((const int32_t *)mem)[i];
    case GR_I64: return (double)((const int64_t *)mem)[i];
    case GR_U8:
    case GR_BOOL: return (double)((const uint8_t *)mem)[i];
    case GR_DTYPE_COUNT: break;
    }
    GR_BUG_IF(true);
}

/* Rounds to nearest even; to integers x must be in range. */
static inline void gr_element_put_f64(void *mem, gr_dtype t, int64_t i, double x)
{
    switch (t) {
    case GR_F32: ((float *)mem)[i] = (float)x; return;
    case GR_F64: ((double *)mem)[i] = x; return;
    case GR_BF16: ((uint16_t *)mem)[i] = gr_f32_to_bf16((float)x); return;
    case GR_F16: ((uint16_t *)mem)[i] = gr_f32_to_f16((float)x); return;
    case GR_I32: ((int32_t *)mem)[i] = (int32_t)x; return;
    case GR_I64: ((int64_t *)mem)[i] = (int64_t)x; return;
    case GR_U8: ((uint8_t *)mem)[i] = (uint8_t)x; return;
    case GR_BOOL: ((uint8_t *)mem)[i] = x != 0; return;
    case GR_DTYPE_COUNT: break;
    }
    GR_BUG_IF(true);
}

/* Integer types only, all of them exactly. */
static inline int64_t gr_element_i64(const void *mem, gr_dtype t, int64_t i)
{
    if (t == GR_I64)
        return ((const int64_t *)mem)[i];
    if (t == GR_I32)
        return ((const int32_t *)mem)[i];
    return ((const uint8_t *)mem)[i];
}

/* Wraps around as the C conversions do; bool: is it other than 0? */
static inline void gr_element_put_i64(void *mem, gr_dtype t, int64_t i, int64_t x)
{
    if (t == GR_I64)
        ((int64_t *)mem)[i] = x;
    else if (t == GR_I32)
        ((int32_t *)mem)[i] = (int32_t)x;
    else
        ((uint8_t *)mem)[i] = t == GR_BOOL ? x != 0 : (uint8_t)x;
}

#ifdef __cplusplus
}
#endif

#endif

/* bf16 and IEEE f16 as bit patterns: conversions, round to nearest even. */
#ifndef GR_BASE_HALF_H
#define GR_BASE_HALF_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

GR_API float gr_bf16_to_f32(uint16_t h);
GR_API uint16_t gr_f32_to_bf16(float f); /* NaN stays NaN */
GR_API float gr_f16_to_f32(uint16_t h);
GR_API uint16_t gr_f32_to_f16(float f); /* overflow to inf, subnormals kept */

#ifdef __cplusplus
}
#endif

#endif

/* Reduction kernels for any processor; the law, to which the others are compared. */
#include "base/half.h"

#include <stddef.h>
#include <stdint.h>

static void widen_f16(float *dst, const uint16_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = gr_f16_to_f32(src[i]);
}

static void narrow_f16(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = gr_f32_to_f16(src[i]);
}

#define REDUCE_SET  gr_reduce_scalar
#define REDUCE_NAME "scalar"
#include "comm/reduce_body.h"

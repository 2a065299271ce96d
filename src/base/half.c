/*
 * bf16 and IEEE f16 as bit patterns.
 *
 *            sign  exponent (bias)  fraction
 *     f32      1       8   (127)       23
 *     bf16     1       8   (127)        7      the upper half of an f32
 *     f16      1       5    (15)       10
 *
 * Both narrowing conversions round to nearest, ties to even: add just under half of
 * the last kept place, plus its lowest kept bit, and cut. A carry out of the fraction
 * raises the exponent, which is right, up to and including infinity.
 * Integer arithmetic only, so that the results do not depend on the rounding mode.
 */
#include "base/half.h"

#include <string.h>

#define F32_INF 0x7f800000u

static uint32_t bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

static float float_of(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
}

float gr_bf16_to_f32(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t gr_f32_to_bf16(float f)
{
    uint32_t u = bits_of(f);

    if ((u & 0x7fffffffu) > F32_INF) /* the quiet bit keeps the fraction from becoming 0 */
        return (uint16_t)((u >> 16) | 0x0040u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float gr_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 0x1fu;
    uint32_t fraction = h & 0x3ffu;
    float magnitude;

    if (exponent == 31)
        return float_of(sign | F32_INF | fraction << 13);
    if (exponent > 0)
        return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    magnitude = (float)fraction * 0x1p-24f; /* subnormal or zero; exact */
    return float_of(sign | bits_of(magnitude));
}

/* Below 2^-14 the last place is 2^-24 whatever the exponent, so the fraction with its
 * hidden one is shifted there; the result may round up to the smallest normal. */
static uint32_t to_f16_subnormal(uint32_t magnitude)
{
    uint32_t exponent = magnitude >> 23;
    uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
    uint32_t shift = 126 - exponent; /* 14 for 2^-15, 24 for 2^-25 */
    uint32_t half;

    if (exponent < 102) /* under 2^-25, half of the smallest f16: rounds to 0 */
        return 0;
    half = (uint32_t)1 << (shift - 1);
    return (fraction + half - 1 + ((fraction >> shift) & 1u)) >> shift;
}

uint16_t gr_f32_to_f16(float f)
{
    uint32_t u = bits_of(f);
    uint32_t sign = (u >> 16) & 0x8000u;
    uint32_t magnitude = u & 0x7fffffffu;

    if (magnitude > F32_INF)
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520, halfway to the first power of two too big */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) /* 2^-14, the smallest normal */
        return (uint16_t)(sign | to_f16_subnormal(magnitude));
    magnitude -= (uint32_t)112 << 23;
    return (uint16_t)(sign | (magnitude + 0xfffu + ((magnitude >> 13) & 1u)) >> 13);
}

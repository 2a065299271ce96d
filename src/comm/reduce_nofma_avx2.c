/* Reduction kernels compiled for AVX2 and F16C. */
#include "base/half.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

static inline void widen_f16(float *dst, const uint16_t *src, size_t n)
{
    size_t whole = n - n % 8;

    for (size_t i = 0; i < whole; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
    for (size_t i = whole; i < n; i++)
        dst[i] = gr_f16_to_f32(src[i]);
}

static inline void narrow_f16(uint16_t *dst, const float *src, size_t n)
{
    size_t whole = n - n % 8;

    for (size_t i = 0; i < whole; i += 8)
        _mm_storeu_si128((__m128i *)(dst + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    for (size_t i = whole; i < n; i++)
        dst[i] = gr_f32_to_f16(src[i]);
}

#define REDUCE_SET  gr_reduce_avx2
#define REDUCE_NAME "avx2"
#include "comm/reduce_body.h"

/* Reduction kernels compiled for AVX-512. */
#include "base/half.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

static inline void widen_f16(float *dst, const uint16_t *src, size_t n)
{
    size_t whole = n - n % 16;

    for (size_t i = 0; i < whole; i += 16)
        _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(src + i))));
    for (size_t i = whole; i < n; i++)
        dst[i] = gr_f16_to_f32(src[i]);
}

static inline void narrow_f16(uint16_t *dst, const float *src, size_t n)
{
    size_t whole = n - n % 16;

    for (size_t i = 0; i < whole; i += 16)
        _mm256_storeu_si256((__m256i *)(dst + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    for (size_t i = whole; i < n; i++)
        dst[i] = gr_f32_to_f16(src[i]);
}

#define REDUCE_SET  gr_reduce_avx512
#define REDUCE_NAME "avx512"
#include "comm/reduce_body.h"

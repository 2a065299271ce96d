/*
 * The loops for AVX2. Those over whole rows are plain C, which the compiler makes vectors of; of
 * the others a vector is one pixel, with junk in its fourth lane.
 */
#include "data/augment/rows.h"

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define ROWS  gr_rows_avx2
#define SLACK 2 /* pixels: eight bytes are read from the left one of two neighbours */

/* The low bytes of four numbers. */
static inline void store_pixel(uint8_t *dst, __m128i v)
{
    const __m128i low = _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    int32_t four = _mm_cvtsi128_si32(_mm_shuffle_epi8(v, low));

    memcpy(dst, &four, 4);
}

static inline void mix_taps(uint8_t *dst, const uint8_t *src, const int32_t *k, int n)
{
    __m128i sum = _mm_set1_epi32(1 << (GR_TAP_BITS - 1));

    for (int j = 0; j < n; j++) {
        int32_t four;
        __m128i px;

        memcpy(&four, src + (ptrdiff_t)3 * j, 4);
        px = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(four));
        sum = _mm_add_epi32(sum, _mm_mullo_epi32(px, _mm_set1_epi32(k[j])));
    }
    store_pixel(dst, _mm_srli_epi32(sum, GR_TAP_BITS));
}

/* A pixel and its right neighbour, mixed: 16-bit pairs of both, times a pair of weights. */
static inline __m128i mix_pair(const uint8_t *src, __m128i weights)
{
    const __m128i pairs = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);

    return _mm_madd_epi16(
        _mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *)(const void *)src), pairs), weights);
}

static inline void mix_four(uint8_t *dst, const uint8_t *up, const uint8_t *low, int32_t fx,
                            int32_t fy)
{
    __m128i weights = _mm_set1_epi32(((1 << GR_MIX_BITS) - fx) | fx << 16);
    __m128i a = mix_pair(up, weights), b = mix_pair(low, weights);
    __m128i sum = _mm_mullo_epi32(_mm_sub_epi32(b, a), _mm_set1_epi32(fy));

    sum = _mm_add_epi32(sum, _mm_slli_epi32(a, GR_MIX_BITS));
    sum = _mm_add_epi32(sum, _mm_set1_epi32(1 << (2 * GR_MIX_BITS - 1)));
    store_pixel(dst, _mm_srli_epi32(sum, 2 * GR_MIX_BITS));
}

#include "data/augment/rows_body.h"

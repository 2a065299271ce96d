/* Max pooling by AVX2; the loops are in pool_row_body.h. */
#include "op/pool/pool_kernels.h"
#include "op/vec_avx2_body.h"

typedef __m256i codes;

#define codes_set(code)        _mm256_set1_epi32(code)
#define codes_is(i, code)      _mm256_cmpeq_epi32(i, _mm256_set1_epi32(code))
#define codes_keep(m, code, i) _mm256_blendv_epi8(i, _mm256_set1_epi32(code), m)

INLINE codes codes_of(const uint8_t *p, mask m)
{
    uint64_t bytes = 0;

    memcpy(&bytes, p, (size_t)mask_count(m));
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
}

INLINE void codes_put(uint8_t *p, mask m, codes i)
{
    const __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
    const uint64_t bytes = (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(words, words));

    memcpy(p, &bytes, (size_t)mask_count(m));
}

INLINE mask beats(vec x, vec best)
{
    return _mm256_castps_si256(
        _mm256_or_ps(_mm256_cmp_ps(x, best, _CMP_GT_OQ), _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

#include "op/pool/pool_row_body.h"

const gr_pool_isa gr_pool_avx2 = { .max = row_max, .grad = row_grad };

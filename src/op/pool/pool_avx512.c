/* Max pooling by AVX-512; the loops are in pool_row_body.h. */
#include "op/pool/pool_kernels.h"
#include "op/vec_avx512_body.h"

typedef __m512i codes;

#define codes_set(code)        _mm512_set1_epi32(code)
#define codes_is(i, code)      _mm512_cmpeq_epi32_mask(i, _mm512_set1_epi32(code))
#define codes_keep(m, code, i) _mm512_mask_set1_epi32(i, m, code)
#define codes_of(p, m)         _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(m, p))
#define codes_put(p, m, i)     _mm512_mask_cvtepi32_storeu_epi8(p, m, i)

INLINE mask beats(vec x, vec best)
{
    return _mm512_cmp_ps_mask(x, best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
}

#include "op/pool/pool_row_body.h"

const gr_pool_isa gr_pool_avx512 = { .max = row_max, .grad = row_grad };

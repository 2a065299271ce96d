/* The k best by AVX-512; the loops are in best_body.h. */
#include "op/topk/best.h"

#include <immintrin.h>

#define LANES 16

typedef __m512i ivec;

#define ivec_set(x)       _mm512_set1_epi32(x)
#define ivec_load(p)      _mm512_loadu_si512(p)
#define ivec_store(p, x)  _mm512_storeu_si512(p, x)
#define count_if(r, mask) _mm512_mask_add_epi32(r, mask, r, _mm512_set1_epi32(1))
#define count_lt(r, a, b) count_if(r, _mm512_cmplt_epi32_mask(a, b))
#define count_le(r, a, b) count_if(r, _mm512_cmple_epi32_mask(a, b))
#define count_before(r, a, b, j)                \
    count_if(r, _mm512_cmplt_epi32_mask(a, b) | \
                    (_mm512_cmpeq_epi32_mask(a, b) & (__mmask16)(0xffffu << ((j) + 1))))

static inline void append(gr_best *b, const int32_t *key, const uint8_t *ok, int64_t at, int64_t n)
{
    const __mmask16 all = (__mmask16)((1u << n) - 1);
    const __m512i x = _mm512_maskz_loadu_epi32(all, key);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __mmask16 good = all;

    if (b->limit <= INT32_MAX)
        good = _mm512_mask_cmplt_epi32_mask(all, x, _mm512_set1_epi32((int32_t)b->limit));
    if (ok)
        good = _mm_mask_test_epi8_mask(good, _mm_maskz_loadu_epi8(all, ok), _mm_set1_epi8(-1));
    _mm512_mask_compressstoreu_epi32(b->key + b->n, good, x);
    _mm512_mask_compressstoreu_epi32(b->at + b->n, good,
                                     _mm512_add_epi32(lane, _mm512_set1_epi32((int32_t)at)));
    b->n += __builtin_popcount(good);
}

#include "op/topk/best_body.h"

const gr_best_isa gr_best_avx512 = { .keys = keys, .take = take, .finish = shrink };

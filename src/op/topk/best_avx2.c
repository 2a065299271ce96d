/* The k best by AVX2; the loops are in best_body.h. */
#include "op/topk/best.h"

#include <immintrin.h>

#define LANES 8

typedef __m256i ivec;

#define ivec_set(x)       _mm256_set1_epi32(x)
#define ivec_load(p)      _mm256_loadu_si256((const void *)(p))
#define ivec_store(p, x)  _mm256_storeu_si256((void *)(p), x)
#define count_lt(r, a, b) _mm256_sub_epi32(r, _mm256_cmpgt_epi32(b, a))
#define count_le(r, a, b) \
    _mm256_add_epi32(_mm256_add_epi32(r, _mm256_set1_epi32(1)), _mm256_cmpgt_epi32(a, b))

static inline ivec count_before(ivec r, ivec a, ivec b, int j)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i beyond = _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(j));
    const __m256i equal = _mm256_and_si256(_mm256_cmpeq_epi32(a, b), beyond);

    return _mm256_sub_epi32(r, _mm256_or_si256(_mm256_cmpgt_epi32(b, a), equal));
}

static inline void append(gr_best *b, const int32_t *key, const uint8_t *ok, int64_t at, int64_t n)
{
    int64_t m = b->n;

    for (int64_t i = 0; i < n; i++) {
        b->key[m] = key[i];
        b->at[m] = (int32_t)(at + i);
        m += (key[i] < b->limit) & (!ok || ok[i] != 0);
    }
    b->n = m;
}

#include "op/topk/best_body.h"

const gr_best_isa gr_best_avx2 = { .keys = keys, .take = take, .finish = shrink };

/* Philox for 8 counters at a time, by AVX2: see random_avx512.c. */
#include "op/map/cpu/vf_avx2_body.h"
#include "op/random/random_kernels.h"

#include "op/random/random_loops_body.h"

typedef struct state {
    __m256i x[4];
} state;

static inline __attribute__((always_inline)) void rounds(state *s, const uint32_t *key)
{
    const __m256i m0 = _mm256_set1_epi64x(0xd2511f53), m1 = _mm256_set1_epi64x(0xcd9e8d57);
    uint32_t k0 = key[0], k1 = key[1];

    for (int i = 0; i < 10; i++) {
        const __m256i a = _mm256_mul_epu32(s->x[0], m0), b = _mm256_mul_epu32(s->x[2], m1);
        const __m256i ka = _mm256_set1_epi64x(k0), kb = _mm256_set1_epi64x(k1);

        s->x[0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(b, 32), s->x[1]), ka);
        s->x[1] = b;
        s->x[2] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(a, 32), s->x[3]), kb);
        s->x[3] = a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

static void fill(uint32_t *dst, const gr_draw *d, uint32_t sample, int64_t first, int64_t n_groups)
{
    const __m256i lane = _mm256_setr_epi64x(0, 2, 4, 6);

    for (int64_t g = 0; g < 2 * n_groups; g++) {
        const uint32_t block = (uint32_t)((2 * first + g) * 8);
        uint32_t *out = dst + g / 2 * GR_DRAW_GROUP + g % 2 * 8;
        state even, odd;

        even.x[0] = _mm256_add_epi64(_mm256_set1_epi64x(block), lane);
        even.x[1] = _mm256_set1_epi64x(sample);
        even.x[2] = _mm256_set1_epi64x(d->update);
        even.x[3] = _mm256_set1_epi64x(d->stream);
        odd = even;
        odd.x[0] = _mm256_add_epi64(even.x[0], _mm256_set1_epi64x(1));
        rounds(&even, d->key);
        rounds(&odd, d->key);
        for (int i = 0; i < 4; i++)
            _mm256_storeu_si256(
                (__m256i *)(void *)(out + i * 16),
                _mm256_blend_epi32(even.x[i], _mm256_slli_epi64(odd.x[i], 32), 0xaa));
    }
}

const gr_random_isa gr_random_avx2 = {
    .fill = fill,
    .drop = drop,
    .uniform = uniform,
    .normal = normal,
};

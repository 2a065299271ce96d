/*
 * Philox for 16 counters at a time, by AVX-512. The product of two 32-bit numbers takes 64
 * bits, so counters are kept in two vectors, those of even and of odd place, in the low halves
 * of their lanes; what stands in the high halves is never looked at.
 */
#include "op/map/cpu/vf_avx512_body.h"
#include "op/random/random_kernels.h"

#include "op/random/random_loops_body.h"

typedef struct state {
    __m512i x[4];
} state;

static inline __attribute__((always_inline)) void rounds(state *s, const uint32_t *key)
{
    const __m512i m0 = _mm512_set1_epi64(0xd2511f53), m1 = _mm512_set1_epi64(0xcd9e8d57);
    uint32_t k0 = key[0], k1 = key[1];

    for (int i = 0; i < 10; i++) {
        const __m512i a = _mm512_mul_epu32(s->x[0], m0), b = _mm512_mul_epu32(s->x[2], m1);
        const __m512i ka = _mm512_set1_epi64(k0), kb = _mm512_set1_epi64(k1);

        s->x[0] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(b, 32), s->x[1], ka, 0x96);
        s->x[1] = b;
        s->x[2] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(a, 32), s->x[3], kb, 0x96);
        s->x[3] = a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

static void fill(uint32_t *dst, const gr_draw *d, uint32_t sample, int64_t first, int64_t n_groups)
{
    const __m512i lane = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);

    for (int64_t g = 0; g < n_groups; g++) {
        const __m512i block = _mm512_set1_epi64((int64_t)(uint32_t)((first + g) * 16));
        state even, odd;

        even.x[0] = _mm512_add_epi64(block, lane);
        even.x[1] = _mm512_set1_epi64(sample);
        even.x[2] = _mm512_set1_epi64(d->update);
        even.x[3] = _mm512_set1_epi64(d->stream);
        odd = even;
        odd.x[0] = _mm512_add_epi64(even.x[0], _mm512_set1_epi64(1));
        rounds(&even, d->key);
        rounds(&odd, d->key);
        for (int i = 0; i < 4; i++)
            _mm512_storeu_si512(
                dst + g * GR_DRAW_GROUP + i * 16,
                _mm512_mask_blend_epi32(0xaaaa, even.x[i], _mm512_slli_epi64(odd.x[i], 32)));
    }
}

const gr_random_isa gr_random_avx512 = {
    .fill = fill,
    .drop = drop,
    .uniform = uniform,
    .normal = normal,
};

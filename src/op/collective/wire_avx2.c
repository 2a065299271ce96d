/* Gradients to 16 bits and back with AVX2 and F16C: the bits of the reference. */
#include "op/collective/wire_kernels.h"

#include <immintrin.h>

/* Eight rounded to bf16: half a unit is added, one less where the last bit kept is even; a NaN
 * keeps its upper half and becomes quiet. */
static inline __m256i round_bf16(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256 is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);

    return _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, _mm256_castps_si256(is_nan)), 16);
}

static void bf16_pack(uint16_t *dst, const float *src, size_t n)
{
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        __m256i a = round_bf16(_mm256_loadu_ps(src + i));
        __m256i b = round_bf16(_mm256_loadu_ps(src + i + 8));

        /* packus goes by halves of the register */
        _mm256_storeu_si256((__m256i *)(dst + i),
                            _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8));
    }
    gr_wire_bf16_pack_ref(dst + i, src + i, n - i);
}

static void bf16_unpack(float *dst, const uint16_t *src, size_t n)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(src + i)));

        _mm256_storeu_si256((__m256i *)(dst + i), _mm256_slli_epi32(low, 16));
    }
    gr_wire_bf16_unpack_ref(dst + i, src + i, n - i);
}

static void f16_pack(uint16_t *dst, const float *src, size_t n)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8)
        _mm_storeu_si128((__m128i *)(dst + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    gr_wire_f16_pack_ref(dst + i, src + i, n - i);
}

static void f16_unpack(float *dst, const uint16_t *src, size_t n)
{
    size_t i = 0;

    for (; n - i >= 8; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
    gr_wire_f16_unpack_ref(dst + i, src + i, n - i);
}

const gr_wire_loops gr_wire_loops_avx2 = { { bf16_pack, f16_pack }, { bf16_unpack, f16_unpack } };

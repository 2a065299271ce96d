/*
 * Turned planes by AVX2: tiles of 8 x 8 in registers. Partial tiles are plain loops.
 * Two-byte elements are turned in tiles of 8 x 8, too, in half registers.
 */
#include "op/shape/strided.h"
#include "op/shape/turn_thin_body.h"
#include "op/unroll_body.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

INLINE void tile_4(const uint32_t *src, int64_t from, uint32_t *dst, int64_t to)
{
    __m256i x[8], y[8];

    GR_UNROLL
    for (int i = 0; i < 8; i++)
        x[i] = _mm256_loadu_si256((const void *)(src + i * from));
    GR_UNROLL
    for (int i = 0; i < 8; i += 2) {
        y[i] = _mm256_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm256_unpackhi_epi32(x[i], x[i + 1]);
    }
    GR_UNROLL
    for (int i = 0; i < 8; i += 4) {
        x[i] = _mm256_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm256_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm256_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm256_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    GR_UNROLL
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_si256((void *)(dst + i * to),
                            _mm256_permute2x128_si256(x[i], x[4 + i], 0x20));
        _mm256_storeu_si256((void *)(dst + (4 + i) * to),
                            _mm256_permute2x128_si256(x[i], x[4 + i], 0x31));
    }
}

INLINE void tile_2(const uint16_t *src, int64_t from, uint16_t *dst, int64_t to)
{
    __m128i x[8], y[8];

    GR_UNROLL
    for (int i = 0; i < 8; i++)
        x[i] = _mm_loadu_si128((const void *)(src + i * from));
    GR_UNROLL
    for (int i = 0; i < 8; i += 2) {
        y[i] = _mm_unpacklo_epi16(x[i], x[i + 1]);
        y[i + 1] = _mm_unpackhi_epi16(x[i], x[i + 1]);
    }
    GR_UNROLL
    for (int i = 0; i < 8; i += 4) {
        x[i] = _mm_unpacklo_epi32(y[i], y[i + 2]);
        x[i + 1] = _mm_unpackhi_epi32(y[i], y[i + 2]);
        x[i + 2] = _mm_unpacklo_epi32(y[i + 1], y[i + 3]);
        x[i + 3] = _mm_unpackhi_epi32(y[i + 1], y[i + 3]);
    }
    GR_UNROLL
    for (int i = 0; i < 4; i++) {
        _mm_storeu_si128((void *)(dst + 2 * i * to), _mm_unpacklo_epi64(x[i], x[4 + i]));
        _mm_storeu_si128((void *)(dst + (2 * i + 1) * to), _mm_unpackhi_epi64(x[i], x[4 + i]));
    }
}

#define TURN(type, tile)                                                 \
    const type *src = t->src;                                            \
    type *dst = t->dst;                                                  \
                                                                         \
    for (int64_t c = 0; c < t->cols; c += 8)                             \
        for (int64_t r = 0; r < t->rows; r += 8) {                       \
            const type *from = src + c * t->src_step + r;                \
            type *to = dst + r * t->dst_step + c;                        \
                                                                         \
            if (c + 8 <= t->cols && r + 8 <= t->rows) {                  \
                tile(from, t->src_step, to, t->dst_step);                \
                continue;                                                \
            }                                                            \
            for (int64_t i = 0; i < 8 && r + i < t->rows; i++)           \
                for (int64_t k = 0; k < 8 && c + k < t->cols; k++)       \
                    to[i * t->dst_step + k] = from[k * t->src_step + i]; \
        }

static void turn_4(const gr_turn *t)
{
    TURN(uint32_t, tile_4)
}

static void turn_2(const gr_turn *t)
{
    TURN(uint16_t, tile_2)
}

const gr_turn_isa gr_turn_avx2 = {
    .tiles = { turn_2, turn_4 },
    .weave = { weave_2, weave_4 },
    .unweave = { unweave_2, unweave_4 },
};

/* 16 x 16 numbers of 32 bits, transposed in registers with AVX-512. */
#ifndef GR_OP_TRANSPOSE_AVX512_BODY_H
#define GR_OP_TRANSPOSE_AVX512_BODY_H

#include "op/unroll_body.h"

#include <immintrin.h>

#ifndef INLINE
#define INLINE static inline __attribute__((always_inline))
#endif

/* Rows r and r + 1 (then + 2, + 4, + 8 vectors) are interleaved, from single floats up to
 * quarters of a register; after four rounds register c holds column c. */
INLINE void transpose_16(__m512 r[16])
{
    __m512 t[16];

    GR_UNROLL
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    GR_UNROLL
    for (int i = 0; i < 8; i++) {
        const int to = 2 * i, from = i / 2 * 4 + i % 2;
        const __m512d lo = _mm512_castps_pd(t[from]), hi = _mm512_castps_pd(t[from + 2]);

        r[to] = _mm512_castpd_ps(_mm512_unpacklo_pd(lo, hi));
        r[to + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(lo, hi));
    }
    GR_UNROLL
    for (int i = 0; i < 8; i++) {
        const int j = i / 4 * 8 + i % 4;

        t[j] = _mm512_shuffle_f32x4(r[j], r[j + 4], 0x88);
        t[j + 4] = _mm512_shuffle_f32x4(r[j], r[j + 4], 0xdd);
    }
    GR_UNROLL
    for (int j = 0; j < 8; j++) {
        r[j] = _mm512_shuffle_f32x4(t[j], t[j + 8], 0x88);
        r[j + 8] = _mm512_shuffle_f32x4(t[j], t[j + 8], 0xdd);
    }
}

#endif

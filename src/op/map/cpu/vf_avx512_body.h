/* The vectors of vf_body.h by AVX-512 (F, BW, DQ, VL). Only *_avx512.c files include it. */
#ifndef GR_OP_MAP_VF_AVX512_BODY_H
#define GR_OP_MAP_VF_AVX512_BODY_H

#include <immintrin.h>

#define WIDTH        16
#define FMA(a, b, c) ((vf)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define VMIN(a, b)   ((vf)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define VMAX(a, b)   ((vf)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define VSQRT(a)     ((vf)_mm512_sqrt_ps((__m512)(a)))
#define VRCP(a)      nearer(a, (vf)_mm512_rcp14_ps((__m512)(a)))
#define VSCALE(a, n) ((vf)_mm512_scalef_ps((__m512)(a), (__m512)(n)))
#define ANY(m)       _mm512_movepi32_mask((__m512i)(m))
#define SELECT(m, a, b) \
    ((vf)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)(m)), (__m512)(b), (__m512)(a)))
#define F16_LOAD(p) ((vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p))))
#define F16_STORE(p, v)                         \
    _mm256_storeu_si256((__m256i *)(void *)(p), \
                        _mm512_cvtps_ph((__m512)(v), _MM_FROUND_TO_NEAREST_INT))

#include "op/map/cpu/vf_body.h"

#endif

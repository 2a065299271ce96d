/* The vectors of vf_body.h by AVX2 with FMA and F16C. Only *_avx2.c files include it. */
#ifndef GR_OP_MAP_VF_AVX2_BODY_H
#define GR_OP_MAP_VF_AVX2_BODY_H

#include <immintrin.h>

#define WIDTH           8
#define FMA(a, b, c)    ((vf)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define VMIN(a, b)      ((vf)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define VMAX(a, b)      ((vf)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define VSQRT(a)        ((vf)_mm256_sqrt_ps((__m256)(a)))
#define VRCP(a)         (splat(1) / (a))
#define VSCALE(a, n)    scale_of(a, n)
#define ANY(m)          _mm256_movemask_ps((__m256)(m))
#define SELECT(m, a, b) ((vf)_mm256_blendv_ps((__m256)(b), (__m256)(a), (__m256)(m)))
#define F16_LOAD(p)     ((vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p))))
#define F16_STORE(p, v)                      \
    _mm_storeu_si128((__m128i *)(void *)(p), \
                     _mm256_cvtps_ph((__m256)(v), _MM_FROUND_TO_NEAREST_INT))

#include "op/map/cpu/vf_body.h"

#endif

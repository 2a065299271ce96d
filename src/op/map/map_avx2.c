/* Vector loops of map for AVX2 with FMA and F16C. See map_loops.inc. Any thread. */
#include "op/map/map_impl.h"

#include "base/half.h"

#include <immintrin.h>
#include <string.h>
#include <tgmath.h>

#define ISA             gr_map_avx2
#define WIDTH           8
#define FMA(a, b, c)    ((vf)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define VMIN(a, b)      ((vf)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define VMAX(a, b)      ((vf)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define SELECT(m, a, b) ((vf)_mm256_blendv_ps((__m256)(b), (__m256)(a), (__m256)(m)))
#define F16_LOAD(p)     ((vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p))))
#define F16_STORE(p, v)                      \
    _mm_storeu_si128((__m128i *)(void *)(p), \
                     _mm256_cvtps_ph((__m256)(v), _MM_FROUND_TO_NEAREST_INT))

#include "op/map/map_loops.inc"

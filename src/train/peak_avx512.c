/* Fused multiply-adds in registers: chains that do not wait for one another. */
#include "train/peak.h"

#include <immintrin.h>

float gr_peak_avx512(int64_t n)
{
    __m512 sum[GR_PEAK_CHAINS];
    __m512 half = _mm512_set1_ps(0.5f), one = _mm512_set1_ps(1.0f);
    float lanes[sizeof(__m512) / sizeof(float)];
    float total = 0;

    for (int c = 0; c < GR_PEAK_CHAINS; c++)
        sum[c] = _mm512_set1_ps((float)c);
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < GR_PEAK_CHAINS; c++)
            sum[c] = _mm512_fmadd_ps(sum[c], half, one);
    for (int c = 0; c < GR_PEAK_CHAINS; c++) {
        _mm512_storeu_ps(lanes, sum[c]);
        total += lanes[0];
    }
    return total;
}

/* The loops for any processor, and the choice. */
#include "data/augment/rows.h"

#include "base/cpu.h"

#include <stdbool.h>

#define ROWS  gr_rows_any
#define SLACK 0

static inline void mix_taps(uint8_t *dst, const uint8_t *src, const int32_t *k, int n)
{
    int32_t sum[3] = { 1 << (GR_TAP_BITS - 1), 1 << (GR_TAP_BITS - 1), 1 << (GR_TAP_BITS - 1) };

    for (int j = 0; j < n; j++)
        for (int c = 0; c < 3; c++)
            sum[c] += k[j] * src[3 * j + c];
    for (int c = 0; c < 3; c++) /* weights are not negative and add up to 1: 255 at most */
        dst[c] = (uint8_t)(sum[c] >> GR_TAP_BITS);
}

static inline void mix_four(uint8_t *dst, const uint8_t *up, const uint8_t *low, int32_t fx,
                            int32_t fy)
{
    for (int c = 0; c < 3; c++) {
        int32_t a = (up[c] << GR_MIX_BITS) + (up[c + 3] - up[c]) * fx;
        int32_t b = (low[c] << GR_MIX_BITS) + (low[c + 3] - low[c]) * fx;
        int32_t sum = (a << GR_MIX_BITS) + (b - a) * fy + (1 << (2 * GR_MIX_BITS - 1));

        dst[c] = (uint8_t)(sum >> (2 * GR_MIX_BITS));
    }
}

#include "data/augment/rows_body.h"

const gr_rows *gr_rows_best(void)
{
    return gr_cpu_has_avx2() ? &gr_rows_avx2 : &gr_rows_any;
}

/* Chooses the widest loop of fused multiply-adds, times it, keeps the best. */
#include "train/peak.h"

#include "base/status.h"

#include "base/clock.h"
#include "base/cpu.h"

#include <math.h>

#define TRIES   10
#define TRY_NS  5000000
#define N_FIRST 1000

float gr_peak_scalar(int64_t n)
{
    float sum[GR_PEAK_CHAINS] = { 0 };
    float total = 0;

    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < GR_PEAK_CHAINS; c++)
            sum[c] = sum[c] * 0.5f + 1.0f;
    for (int c = 0; c < GR_PEAK_CHAINS; c++)
        total += sum[c];
    return total;
}

static double seconds(gr_peak_fn *fn, int64_t n, volatile float *sink)
{
    int64_t began = gr_now_ns();

    *sink = fn(n);
    return (double)(gr_now_ns() - began) * 1e-9;
}

double gr_peak_flops(void)
{
    gr_peak_fn *fn = gr_peak_scalar;
    int64_t n = N_FIRST, width = 1;
    volatile float sink;
    double best = 0;

    if (gr_cpu_has_avx2()) {
        fn = gr_peak_avx2;
        width = 8;
    }
    if (gr_cpu_has_avx512()) {
        fn = gr_peak_avx512;
        width = 16;
    }
    while (seconds(fn, n, &sink) < TRY_NS * 1e-9)
        n *= 2;
    for (int i = 0; i < TRIES; i++) {
        double rate = (double)(n * GR_PEAK_CHAINS * width * 2) / seconds(fn, n, &sink);

        best = fmax(best, rate);
    }
    (void)sink;
    return best;
}

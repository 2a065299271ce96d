/* The peak of one core, measured: what benches print their GF/s beside. */
#ifndef GR_BENCH_PEAK_H
#define GR_BENCH_PEAK_H

#include "base/clock.h"
#include "base/cpu.h"

/* Multiply-adds on registers alone: 12 of them cover the latency of 4 cycles on two
 * ports. 16 lanes or 8, whichever kernels may use here; 0 lanes: not known. */
static inline int run_peak(int64_t turns)
{
#if defined(__x86_64__)
#define FMA(r, i) "vfmadd231ps %%" r "14, %%" r "15, %%" r #i "\n"
#define RUN(r)                                                                                     \
    __asm__ volatile("vzeroall\n 1:\n" FMA(r, 0) FMA(r, 1) FMA(r, 2) FMA(r, 3) FMA(r, 4) FMA(r, 5) \
                         FMA(r, 6) FMA(r, 7) FMA(r, 8) FMA(r, 9) FMA(r, 10)                        \
                             FMA(r, 11) "dec %0\n jnz 1b\n"                                        \
                     : "+r"(turns)                                                                 \
                     :                                                                             \
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",       \
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")
    if (gr_cpu_has_avx512()) {
        RUN("zmm");
        return 16;
    }
    if (gr_cpu_has_avx2()) {
        RUN("ymm");
        return 8;
    }
#undef RUN
#undef FMA
#endif
    (void)turns;
    return 0;
}

static inline double peak_gflops(void)
{
    double best = 0;

    for (int round = 0; round < 100; round++) {
        int64_t from = gr_now_ns(), turns = 20000;
        int lanes = run_peak(turns);
        double flops = (double)turns * 12 * 2 * lanes / (double)(gr_now_ns() - from);

        best = flops > best ? flops : best;
    }
    return best;
}

#endif

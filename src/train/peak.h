/*
 * The most single-precision operations per second that one thread of this machine can do:
 * independent fused multiply-adds in registers, nothing else. The yardstick of a benchmark.
 */
#ifndef GR_TRAIN_PEAK_H
#define GR_TRAIN_PEAK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Best of several short runs, about 50 ms together. GR_CPU limits the instruction set. */
double gr_peak_flops(void);

/* Runs n rounds and returns a number that depends on all of them. */
typedef float gr_peak_fn(int64_t n);

float gr_peak_scalar(int64_t n);
float gr_peak_avx2(int64_t n);
float gr_peak_avx512(int64_t n);

#define GR_PEAK_CHAINS 12 /* more than latency x throughput asks for, fewer than registers */

#ifdef __cplusplus
}
#endif

#endif

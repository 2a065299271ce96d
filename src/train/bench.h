/* The inside of `gradus bench`: what is measured, and how a start is timed. */
#ifndef GR_TRAIN_BENCH_H
#define GR_TRAIN_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sorts and gives the middle; the mean of both middle ones when n is even. n >= 1. */
double gr_median(double *x, int n);

/* `gradus bench comm`, and its part of the help. */
gr_status gr_bench_comm(const gr_command *c) GR_MUST_CHECK;
void gr_bench_comm_help(gr_text *out);

/* From exec to the first kernel, and to the end of the first step. */
typedef struct gr_start_times {
    double first_kernel_ms, first_step_ms;
} gr_start_times;

/*
 * Starts this program again, n times, with the same words, and takes medians. A child
 * finds GR_BENCH_BORN_NS in its environment: the clock just before its exec. It makes one
 * step, writes gr_start_report() and ends.
 */
gr_status gr_start_measure(const gr_command *c, int n, gr_start_times *out) GR_MUST_CHECK;

/* In the child: the clock before exec, 0 when this process is no such child. */
int64_t gr_start_born_ns(void);
void gr_start_report(FILE *out, int64_t born_ns, int64_t kernel_ns, int64_t step_ns);

#ifdef __cplusplus
}
#endif

#endif

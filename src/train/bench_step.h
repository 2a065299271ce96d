/* The inside of `gradus bench step`: what is measured (bench.c), how it is timed and told
 * (bench_times.c). */
#ifndef GR_TRAIN_BENCH_STEP_H
#define GR_TRAIN_BENCH_STEP_H

#include "comm/pg.h"
#include "gradus/step.h"
#include "train/bench.h"
#include "train/bench_models.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_bench_run {
    const gr_command *command;
    int64_t batch, steps, threads, beside, accumulate, zero, starts;
    int amp, optimizer;
    const char *device, *group, *dump_after, *dump_dot, *without;
    bool tune, profile;

    gr_pg *pg;
    gr_step *step;
    gr_step *other; /* with `beside` threads, or NULL */
    const gr_bench_model *model;
    gr_named feeds[GR_BENCH_MAX_FEEDS];
} gr_bench_run;

/* A step with all its micro-steps; a GPU may still be at it. Collective, as all of these. */
gr_status gr_bench_run_step(gr_bench_run *b, gr_step *step) GR_MUST_CHECK;

/* Times steps of all ranks, and what they spend on each other; prints on rank 0. */
gr_status gr_bench_tell_times(gr_bench_run *b) GR_MUST_CHECK;

/* With --beside: both networks in turn. */
gr_status gr_bench_tell_beside(gr_bench_run *b) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

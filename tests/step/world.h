/*
 * What tests of the step share: two models, data that is the same for every world size,
 * and ranks as threads.
 */
#ifndef GR_TESTS_STEP_WORLD_H
#define GR_TESTS_STEP_WORLD_H

#include "gradus/gradus.h"

/* 12-16-8-5, cross entropy; outputs "loss" and "logits". Feeds "x" [n, 12], "y" [n]. */
gr_status trace_mlp(gr_graph *g, void *user);
/* 12-16-5, every number an integer or a power of two times one, so that sums are exact:
 * feeds "x" [n, 12] and "t" [n, 5]. */
gr_status trace_exact(gr_graph *g, void *user);

#define WORLD_MAX_BATCH 64

typedef struct batch {
    float x[WORLD_MAX_BATCH * 12], t[WORLD_MAX_BATCH * 5];
    int64_t y[WORLD_MAX_BATCH];
    gr_named feeds[2];
} batch;

/* Samples [first, first + n) of step `step`, for trace_mlp or trace_exact. Points into
 * itself: do not copy. */
void batch_fill(batch *b, bool exact, int step, int first, int n);

/* Runs `fn` on n ranks as threads of this process; the groups are made and ended here. */
typedef void each_rank_fn(gr_pg *pg, void *arg);
void each_rank(int n, each_rank_fn *fn, void *arg);

/* One run of a model: what every rank does. Give it to run_ranks() or run_rank(). */
typedef struct job {
    gr_step_config c; /* trace, optim, amp, accumulate, ... */
    bool exact;
    int global_batch;   /* split evenly over ranks and micro-steps */
    int first, n_steps; /* steps [first, first + n_steps) */
    const char *device;
    gr_snapshot *start; /* restored first; or NULL */
    gr_snapshot *end;   /* out, of rank 0: the state afterwards; the caller destroys */
    float loss[64];     /* out, of rank 0: by step */
    gr_status want;     /* what the run must end with */
} job;

/* One rank of a job; pg NULL is a world of one. */
gr_status run_rank(job *j, gr_pg *pg);
/* n ranks as threads of this process, on `j`; every rank must end as j->want says. */
void run_ranks(job *j, int n);

/* Every tensor and text equal, bit for bit; prints the first difference and exits. */
void check_same_state(const gr_snapshot *a, const gr_snapshot *b);

#endif

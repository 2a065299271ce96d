/*
 * Learning rates over a run, by PyTorch's formulas. A schedule is a plain value and a
 * function of the step number alone, so a resumed run needs no memory of it; the plateau
 * is the one that remembers, and its memory is a plain value, too, to be checkpointed.
 */
#ifndef GRADUS_SCHEDULE_H
#define GRADUS_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "gradus/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* With t ticks since the warm-up, of T ticks in all, and p = t / T: */
typedef enum gr_schedule_kind {
    GR_SCHEDULE_CONSTANT,
    GR_SCHEDULE_COSINE,      /* floor + (lr - floor) (1 + cos(pi p)) / 2 */
    GR_SCHEDULE_RESTARTS,    /* the cosine over `period` ticks, again and again, each one
                                `factor` times as long as the one before */
    GR_SCHEDULE_STEP,        /* lr factor^floor(t / period) */
    GR_SCHEDULE_MULTISTEP,   /* lr factor^(milestones that t has reached) */
    GR_SCHEDULE_POLYNOMIAL,  /* floor + (lr - floor) (1 - p)^power */
    GR_SCHEDULE_EXPONENTIAL, /* lr factor^t */
    GR_SCHEDULE_KIND_COUNT
} gr_schedule_kind;

#define GR_MAX_MILESTONES 16

typedef struct gr_schedule {
    gr_schedule_kind kind;
    double lr;        /* at its highest */
    int64_t n_warmup; /* steps that rise linearly; cut to n_steps, if that is known */
    int64_t n_steps;  /* of the whole run, warm-up included: where a decline ends. 0: not known,
                         which COSINE and POLYNOMIAL cannot do with */
    bool warmup_at_0; /* step / n_warmup: the first step has rate 0. Otherwise
                         (step + 1) / n_warmup */
    int64_t tick;     /* steps per tick: 1, or the steps of an epoch for a rate that
                         changes once an epoch; 0 counts as 1 */
    double floor;     /* below which COSINE, RESTARTS and POLYNOMIAL never go */
    double factor;    /* STEP, MULTISTEP, EXPONENTIAL: gamma. RESTARTS: T_mult >= 1 */
    int64_t period;   /* STEP, RESTARTS: in ticks */
    double power;     /* POLYNOMIAL */
    int64_t milestone[GR_MAX_MILESTONES]; /* MULTISTEP: rising, in ticks */
    int n_milestones;
} gr_schedule;

#define GR_SCHEDULE_INIT                                                         \
    {                                                                            \
        GR_SCHEDULE_CONSTANT, 0.001, 0, 0, false, 1, 0.0, 0.1, 30, 1.0, { 0 }, 0 \
    }

/* GR_ERR_ARG names what is out of range. */
GR_API gr_status gr_schedule_check(const gr_schedule *s) GR_MUST_CHECK;

/* The rate of step 0, 1, ... of a schedule that passed the check. From n_steps on declines stay
 * where they ended. Milestones, periods and ticks count from the end of the warm-up. */
GR_API double gr_schedule_lr(const gr_schedule *s, int64_t step);

/* "constant", "cosine", ...; NULL when out of range. */
GR_API const char *gr_schedule_name(gr_schedule_kind kind);

/* ReduceLROnPlateau: multiplies `scale` by `factor` when a value has not improved for
 * more than `patience` observations in a row. Every rank must observe the same value. */
typedef struct gr_plateau {
    bool maximize;    /* larger is better; default: smaller is */
    double factor;    /* 0.1 */
    int64_t patience; /* 10 */
    double threshold; /* an improvement is better than best by this share; 1e-4 */
    int64_t cooldown; /* observations after a reduction that do not count; 0 */
    double min_scale; /* 0 */

    /* What it remembers. */
    double scale; /* what the learning rate is multiplied with; starts at 1 */
    double best;
    bool has_best;
    int64_t n_bad, n_cooling;
} gr_plateau;

#define GR_PLATEAU_INIT                                     \
    {                                                       \
        false, 0.1, 10, 1e-4, 0, 0.0, 1.0, 0.0, false, 0, 0 \
    }

/* True when the scale was reduced. NaN counts as no improvement. */
GR_API bool gr_plateau_observe(gr_plateau *p, double value);

#ifdef __cplusplus
}
#endif

#endif

/* The learning rate of each step: warm-up in optimiser steps, then constant or a cosine. */
#ifndef GR_OPTIM_SCHEDULE_H
#define GR_OPTIM_SCHEDULE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_schedule_kind { GR_SCHEDULE_CONSTANT, GR_SCHEDULE_COSINE } gr_schedule_kind;

typedef struct gr_schedule {
    gr_schedule_kind kind;
    double lr;        /* at its highest */
    int64_t n_warmup; /* steps that rise linearly; cut to n_steps */
    int64_t n_steps;  /* of the whole run: where the cosine reaches 0 */
} gr_schedule;

/* For step 0, 1, ...: a function of the step alone, so a resumed run needs no memory of
 * it. The first step has lr / n_warmup, not 0; from n_steps on a cosine stays 0. */
double gr_schedule_lr(const gr_schedule *s, int64_t step);

#ifdef __cplusplus
}
#endif

#endif

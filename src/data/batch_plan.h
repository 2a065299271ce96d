/* What a batch size means for a data set and a number of ranks, in numbers and in words. */
#ifndef GR_DATA_BATCH_PLAN_H
#define GR_DATA_BATCH_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_batch_plan {
    int64_t n_samples;  /* of the data set */
    int64_t batch_size; /* of one rank */
    int64_t accumulate; /* batches of one optimiser step */
    int n_ranks;
    bool drop_last; /* of the sampler and of the batches */
} gr_batch_plan;

/* Optimiser steps of one epoch: the same on every rank. A data set smaller than ranks x batch,
 * or too small for one step, is GR_ERR_ARG with the numbers and the largest batch that works. */
gr_status gr_batch_plan_steps(const gr_batch_plan *p, int64_t *out) GR_MUST_CHECK;

/* Appends one sentence when more than a tenth of the data comes twice in an epoch, so that all
 * ranks have as many; else nothing. */
void gr_batch_plan_warn(const gr_batch_plan *p, gr_text *out);

#ifdef __cplusplus
}
#endif

#endif

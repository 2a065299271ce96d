/*
 * What a run makes of its settings before it starts: the batch of a rank, the learning rate
 * by ranks or batch, the schedule. Plain functions, equal on every rank.
 */
#ifndef GR_TRAIN_RATE_H
#define GR_TRAIN_RATE_H

#include "base/text.h"
#include "gradus/schedule.h"
#include "train/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Samples of one step of all ranks. */
int64_t gr_rate_effective(const gr_train_options *o, int n_ranks);
/* With effective_batch: sets batch_size. GR_ERR_ARG, with numbers that would do, when the
 * ranks cannot share it evenly. */
gr_status gr_rate_batch(gr_train_options *o, int n_ranks) GR_MUST_CHECK;

/* What lr is multiplied with under a rule: ranks (or batch by lr_base_batch), or its root. */
double gr_rate_factor(const gr_train_options *o, gr_lr_scaling rule, int n_ranks);
/* The schedule of the run, scaled, with the warm-up cut to it; checked. */
gr_status gr_rate_schedule(const gr_train_options *o, int n_ranks, int64_t steps_per_epoch,
                           int64_t n_steps, gr_schedule *out) GR_MUST_CHECK;
/* The memory of lr_schedule plateau, at its start. */
gr_plateau gr_rate_plateau(const gr_train_options *o, bool maximize);

/* "1e-4 x 8 (linear) = 8e-4", or without a rule what the rules would give. */
void gr_rate_text(const gr_train_options *o, int n_ranks, gr_text *out);
/* "batch 8 x 8 ranks x 4 accumulation = 256" */
void gr_rate_batch_text(const gr_train_options *o, int n_ranks, gr_text *out);
/* "8e-4", "0.05", "2.83e-4": at most `digits` of them, and no zeros in front of exponents. */
void gr_rate_number(double x, int digits, gr_text *out);

#ifdef __cplusplus
}
#endif

#endif

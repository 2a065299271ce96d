/* What a run's checkpoint holds beside the state of its step: texts under these keys. */
#ifndef GR_TRAIN_CHECKPOINT_H
#define GR_TRAIN_CHECKPOINT_H

#include "train/own.h"
#include "train/trainer.h"

#define GR_RUNS "runs" /* where new folders of runs are made */

/* Set by the step. */
#define GR_KEY_PART   "gradus.part"   /* "all" or "trainable"; files of weights have none */
#define GR_KEY_SEED   "gradus.seed"   /* of weights and of what steps draw */
#define GR_KEY_FROZEN "gradus.frozen" /* names of frozen parameters, a line each */

#define GR_KEY_RECIPE   "train.recipe"
#define GR_KEY_CONFIG   "train.config" /* the settings, resolved */
#define GR_KEY_FOUND    "train.found"  /* which of them the data said */
#define GR_KEY_IS_OWN   "train.is_own" /* only between ranks: rank 0 has found out (own.c) */
#define GR_KEY_RANKS    "train.n_ranks"
#define GR_KEY_DEVICE   "train.device"
#define GR_KEY_KERNELS  "train.kernels"  /* chosen by measuring; may be empty */
#define GR_KEY_WANDB    "train.wandb"    /* id of the run there; may be empty */
#define GR_KEY_JUDGE    "train.judge"    /* best value, patience, plateau */
#define GR_KEY_MEAN     "train.mean"     /* sums of the epoch's loss so far; the best epoch */
#define GR_KEY_SCHEDULE "train.schedule" /* of the rate: start, length, the run's, latest rate */
#define GR_KEY_OWES     "train.owes"  /* "evaluation" of this step, which a stop left; or empty */
#define GR_KEY_AT       "train.step"  /* steps of the whole run */
#define GR_KEY_PLACE    "train.place" /* steps since the first sample, as these ranks count */
#define GR_KEY_EPOCH    "train.epoch" /* from 0 */
#define GR_KEY_IN_EPOCH "train.epoch_samples" /* of it that were used, by all ranks */
#define GR_KEY_STEPS    "train.steps_per_epoch"
#define GR_KEY_BATCH    "train.step_samples" /* of all ranks and micro-steps */
#define GR_KEY_SAMPLES  "train.n_samples"    /* of the training data */

#define GR_OWES_EVAL "evaluation"

/* Bits GR_CKPT_SAFETENSORS, GR_CKPT_PT. */
static inline unsigned gr_trainer_formats(const gr_trainer *t)
{
    return (unsigned)t->o.ckpt_format + 1;
}

static inline int gr_trainer_n_formats(const gr_trainer *t)
{
    return gr_trainer_formats(t) == (GR_CKPT_SAFETENSORS | GR_CKPT_PT) ? 2 : 1;
}

/* where.c, on rank 0: t->folder (NULL: to be made up), t->goes_on and t->source. */
gr_status gr_trainer_plan_run(gr_trainer *t) GR_MUST_CHECK;
/* where.c: the run that a file "RUN/checkpoints/NAME" belongs to; *out NULL: to none. */
gr_status gr_run_of_file(gr_arena *arena, const char *file, const char **out) GR_MUST_CHECK;
/* where.c: the folder of checkpoints holds a best model. */
bool gr_run_has_best(const char *folder);
/* back.c: step of `last` in the folder of a run, as its header tells; -1: none. */
int64_t gr_run_newest_step(const char *run);
/* folder.c: locks t->folder; GR_ERR_ARG when another run has it. */
gr_status gr_trainer_lock_folder(gr_trainer *t) GR_MUST_CHECK;

#endif

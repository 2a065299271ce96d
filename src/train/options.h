/*
 * The settings of `gradus train`: one table makes the parser, the help, the record of a
 * run, what ranks compare, and what a resumed run takes from its checkpoint.
 */
#ifndef GR_TRAIN_OPTIONS_H
#define GR_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"
#include "gradus/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_progress_kind {
    GR_PROGRESS_AUTO,
    GR_PROGRESS_LIVE,
    GR_PROGRESS_PLAIN
} gr_progress_kind;

typedef enum gr_group_kind { GR_GROUP_AUTO, GR_GROUP_NCCL, GR_GROUP_IPC } gr_group_kind;

/* How the learning rate follows the number of ranks (or the batch, with lr_base_batch). */
typedef enum gr_lr_scaling { GR_LR_NONE, GR_LR_LINEAR, GR_LR_SQRT } gr_lr_scaling;

/* Beside the kinds of gr_schedule_kind. */
#define GR_SCHEDULE_PLATEAU ((int)GR_SCHEDULE_KIND_COUNT)

typedef enum gr_bad_sample { GR_BAD_ERROR, GR_BAD_SKIP } gr_bad_sample;

typedef enum gr_direction { GR_DIRECTION_AUTO, GR_DIRECTION_MAX, GR_DIRECTION_MIN } gr_direction;

#define GR_LOG_LEVEL_AUTO 0

typedef struct gr_train_options {
    int64_t epochs, max_steps, batch_size, accumulate;
    int64_t effective_batch; /* 0: follows from the other three; else batch_size does */
    double lr;
    int lr_scaling;        /* gr_lr_scaling */
    int64_t lr_base_batch; /* the rate is for this effective batch; 0: for one rank */
    int schedule;          /* gr_schedule_kind, or GR_SCHEDULE_PLATEAU */
    bool lr_by_epoch;      /* the rate changes once an epoch; periods count epochs */
    int64_t warmup_steps, lr_period, lr_patience, lr_cooldown;
    double lr_min, lr_gamma, lr_power, lr_threshold;
    const char *lr_milestones; /* "30,60,90", in ticks */
    int optimizer;             /* gr_optim_kind */
    double momentum, beta1, beta2, eps, weight_decay, clip_norm, clip_value, ema_decay;
    bool nesterov, decay_all;
    const char *no_decay; /* patterns of parameters without weight decay: "*.bias|*.norm*" */
    int amp;              /* gr_amp */
    int recompute;        /* gr_recompute */
    int64_t memory_limit, bucket_bytes, first_bucket_bytes;
    bool log_grad_norm;  /* compute the norm without clipping, too */
    int log_level;       /* gr_log_level + 1; 0: info on rank 0, warnings elsewhere */
    const char *best_by; /* a metric's name, or "loss"; NULL: the recipe's first metric */
    int best_direction;  /* gr_direction */
    int64_t patience;    /* evaluations without a better value before the run ends; 0: never */
    double min_delta;    /* less than this is not better */
    int64_t seed, n_train, n_eval;
    int64_t valid_batch, test_batch; /* per rank; 0: batch_size */
    int64_t num_workers, prefetch;   /* workers -1: chosen */
    bool pin_memory, drop_last, shuffle;
    int on_bad_sample; /* gr_bad_sample */
    const char *device;
    int group; /* gr_group_kind */
    int64_t threads, timeout_s;
    int64_t log_every, eval_every, save_every, keep;
    const char *output_dir; /* NULL: a new folder under runs/ */
    bool resume;
    int progress; /* gr_progress_kind */
    const char *dump_after, *dump_dot;
} gr_train_options;

/* What suits the recipe, and the trainer's own defaults. */
void gr_train_options_init(gr_train_options *o, const gr_recipe *recipe);

/* Words as typed, "--batchsize 8" say. Texts point into them or into `arena`. */
gr_status gr_train_options_parse(gr_train_options *o, gr_arena *arena, int argc,
                                 char **argv) GR_MUST_CHECK;
/* How many of the words are options and their values, up to the first that is neither. */
gr_status gr_train_options_skip(gr_arena *arena, int argc, char **argv, int *n_used) GR_MUST_CHECK;
gr_optim gr_train_options_optim(const gr_train_options *o);
/* Rows and aliases, as --help shows them. */
void gr_train_options_help(gr_train_options *o, gr_text *out);

typedef enum gr_record {
    GR_RECORD_COMPARE, /* lines "key = value": what must be equal on all ranks */
    GR_RECORD_SAVE,    /* the same form: what a checkpoint keeps */
    GR_RECORD_YAML     /* "key: value", all of them */
} gr_record;
void gr_train_options_record(const gr_train_options *o, gr_record what, gr_text *out);

/*
 * Settings for a resumed run: the recipe's defaults, over them what GR_RECORD_SAVE had
 * written, over them the command line. GR_ERR_ARG when the command line changes one that
 * decides which samples a step takes.
 */
gr_status gr_train_options_resume(gr_train_options *o, gr_arena *arena, const gr_recipe *recipe,
                                  const char *saved, int argc, char **argv) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

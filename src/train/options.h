/*
 * The settings of the trainer as one typed struct. They come from a table
 * (config/table.c): parser, help, docs/config.md, the record of a run, what ranks compare, and
 * what a resumed run takes from its checkpoint are all made of it.
 *
 * Flag > environment > file > preset of the recipe > default.
 */
#ifndef GR_TRAIN_OPTIONS_H
#define GR_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"
#include "gradus/recipe.h"
#include "gradus/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_progress_kind {
    GR_PROGRESS_AUTO,
    GR_PROGRESS_LIVE,
    GR_PROGRESS_PLAIN
} gr_progress_kind;

typedef enum gr_group_kind { GR_GROUP_AUTO, GR_GROUP_NCCL, GR_GROUP_IPC } gr_group_kind;

/* What the program is asked to do; the first three are gr_task. */
typedef enum gr_task_kind { GR_RUN_TRAIN, GR_RUN_TEST, GR_RUN_PREDICT, GR_RUN_CHECK } gr_task_kind;

/* How the learning rate follows the number of ranks (or the batch, with lr_base_batch). */
typedef enum gr_lr_scaling { GR_LR_NONE, GR_LR_LINEAR, GR_LR_SQRT } gr_lr_scaling;

/* Beside the kinds of gr_schedule_kind. */
#define GR_SCHEDULE_PLATEAU ((int)GR_SCHEDULE_KIND_COUNT)

typedef enum gr_direction { GR_DIRECTION_AUTO, GR_DIRECTION_MAX, GR_DIRECTION_MIN } gr_direction;

typedef enum gr_wire_dtype { GR_WIRE_F32, GR_WIRE_BF16, GR_WIRE_F16 } gr_wire_dtype;

typedef enum gr_sampler_kind {
    GR_ORDER_DISTRIBUTED, /* PyTorch's DistributedSampler */
    GR_ORDER_WEIGHTED,
    GR_ORDER_BUCKETED /* by length, with a budget of tokens */
} gr_sampler_kind;

typedef enum gr_look { GR_LOOK_HEADS, GR_LOOK_ALL, GR_LOOK_NONE } gr_look;
typedef enum gr_bad_sample { GR_BAD_ERROR, GR_BAD_SKIP } gr_bad_sample;

typedef enum gr_wandb_mode {
    GR_WANDB_AUTO, /* written here, and synced at the end where that is possible */
    GR_WANDB_OFFLINE,
    GR_WANDB_ONLINE,
    GR_WANDB_DISABLED
} gr_wandb_mode;

#define GR_LOG_LEVEL_AUTO 0

/* Every so many steps or epochs. */
typedef struct gr_span {
    int64_t n;   /* 0: never */
    bool epochs; /* otherwise optimiser steps */
} gr_span;

typedef struct gr_train_options {
    gr_settings *settings; /* all of them with their origins, the recipe's too; owned */

    /* the run */
    const char *recipe;     /* its name; NULL: a word of the command line says it */
    int task;               /* gr_task_kind */
    const char *run_id;     /* NULL: made by rank 0 */
    const char *config;     /* the file; NULL: none */
    const char *output_dir; /* NULL: a new folder under runs/ */
    const char *device;
    int64_t seed, n_train, n_eval;
    const char *input, *output; /* of predict; output: of export, too */
    const char *checkpoint;     /* what test, predict and export read: best, last, file, folder */

    /* how long, how much */
    int64_t epochs, max_steps, batch_size, accumulate;
    int64_t effective_batch;         /* 0: follows from the other three; else batch_size does */
    int64_t valid_batch, test_batch; /* per rank; 0: batch_size */
    int loss_reduction;              /* gr_loss_reduction */

    /* learning rate */
    double lr;
    double lr_before;      /* of the checkpoint that is resumed; 0: none */
    int64_t epochs_before; /* the same; 0: none */
    int lr_scaling;        /* gr_lr_scaling */
    int lr_on_resume;      /* gr_lr_on_resume: the schedule of a run whose length has changed */
    int64_t lr_base_batch; /* the rate is for this effective batch; 0: for one rank */
    int schedule;          /* gr_schedule_kind, or GR_SCHEDULE_PLATEAU */
    bool lr_by_epoch;      /* the rate changes once an epoch; periods count epochs */
    int64_t warmup_steps;
    double warmup_epochs;     /* over 0: instead of warmup_steps */
    int64_t warmup_max_steps; /* over 0: no more than these */
    bool warmup_at_0;
    int64_t lr_period, lr_patience, lr_cooldown;
    double lr_min, lr_gamma, lr_t_mult, lr_power, lr_threshold;
    const char *lr_milestones; /* "30,60,90", in ticks */

    /* update */
    int optimizer; /* gr_optim_kind */
    double momentum, beta1, beta2, eps, weight_decay, clip_norm, clip_value, ema_decay;
    bool nesterov, decay_all;
    const char *no_decay; /* patterns of parameters without weight decay: "*.bias|*.norm*" */
    const char *freeze;   /* patterns of parameters that do not learn: "backbone.*,embed.*" */
    const char *pretrained, *pretrained_map; /* file; "old.=new.,..." */

    /* precision and memory */
    int amp; /* gr_amp */
    double init_scale;
    bool tune;
    int recompute; /* gr_recompute */
    int64_t memory_limit, device_memory;

    /* ranks */
    bool ddp;                             /* --distributed, --ddp, ddp.enabled */
    bool ddp_given;                       /* one of them was there */
    int64_t world_size, rank, local_rank; /* -1: not given */
    const char *master_addr, *dist_url;
    int64_t master_port, nproc; /* 0: not given */
    int group;                  /* gr_group_kind */
    const char *comm;           /* transport; NULL: chosen */
    int64_t threads;
    double timeout_s;
    int64_t bucket_bytes, first_bucket_bytes;
    int grad_dtype; /* gr_wire_dtype */
    bool sync_bn;
    int64_t zero, check_every;

    /* validation */
    gr_span val_interval;
    int64_t val_start;   /* no validation before this epoch */
    const char *best_by; /* a metric's name, or "loss"; NULL: the recipe's first metric */
    int best_direction;  /* gr_direction */
    int64_t patience;    /* evaluations without a better value before the run ends; 0: never */
    double min_delta;    /* less than this is not better */

    /* loader */
    int64_t num_workers, prefetch, token_budget; /* workers -1: chosen */
    bool pin_memory, drop_last, shuffle;
    int sampler;       /* gr_sampler_kind */
    int on_bad_sample; /* gr_bad_sample */
    int check_data;    /* gr_look */

    /* checkpoints */
    int64_t save_every; /* steps; 0: not by steps */
    int64_t save_epochs, keep;
    bool save_best, save_last, trainable_only;
    int ckpt_format;    /* plus 1: the bits GR_CKPT_SAFETENSORS and GR_CKPT_PT */
    const char *resume; /* NULL: not; file, folder, "last", "best" or "auto" */

    /* tracking */
    int64_t log_every, plot_every;
    bool log_grad_norm; /* compute the norm without clipping, too */
    int log_level;      /* gr_log_level + 1; 0: info on rank 0, warnings elsewhere */
    int progress;       /* gr_progress_kind */
    bool tensorboard, csv, plots, use_wandb;
    const char *wandb_project, *wandb_name, *wandb_entity, *wandb_tags, *wandb_notes;
    int wandb_mode; /* gr_wandb_mode */
    const char *dump_after, *dump_dot;
} gr_train_options;

/* What suits the recipe (NULL: no recipe yet), and the trainer's own defaults. */
gr_status gr_train_options_init(gr_train_options *o, const gr_recipe *recipe) GR_MUST_CHECK;
void gr_train_options_fini(gr_train_options *o);
/* Once the number of ranks is known: presets may depend on it. */
gr_status gr_train_options_of_ranks(gr_train_options *o, int n_ranks) GR_MUST_CHECK;

/* The environment, the words as typed ("--batchsize 8"), and the file that --config names.
 * Texts live as long as o->settings. */
gr_status gr_train_options_parse(gr_train_options *o, int argc, char **argv) GR_MUST_CHECK;
gr_optim gr_train_options_optim(const gr_train_options *o);
/* Where a setting's value came from, "flag '--lr'", "a.yaml:12"; by flag name or key. */
void gr_train_options_origin(const gr_train_options *o, const char *name, gr_text *out);

typedef enum gr_record {
    GR_RECORD_COMPARE, /* lines "name = value": what must be equal on all ranks */
    GR_RECORD_SAVE,    /* the same form: what a checkpoint keeps */
    GR_RECORD_YAML     /* a configuration file with all of them */
} gr_record;
void gr_train_options_record(const gr_train_options *o, gr_record what, gr_text *out);

/* What a checkpoint says of its settings. */
typedef struct gr_saved {
    const char *lines; /* as GR_RECORD_SAVE writes them */
    bool is_own;       /* this user began the run here: see own.c */
    bool trains;       /* the run is gone on with */
} gr_saved;

/*
 * Settings for a resumed run: the recipe's presets, over them those of the checkpoint that are
 * taken (config/saved.c), over them file, environment and words. GR_ERR_ARG when these change one
 * that decides which samples a step takes and the run trains on, or when the data of a run that is
 * not one's own are not named. On success *o is new, and its old texts live on; on failure it is as
 * it was.
 */
gr_status gr_train_options_resume(gr_train_options *o, const gr_recipe *recipe,
                                  const gr_saved *saved, int argc, char **argv) GR_MUST_CHECK;
/* One line where something in the checkpoint, or in the file, was not taken. */
void gr_train_options_say_ignored(const gr_train_options *o, bool of_file);

/* The settings whose values the recipe found in the data, a name a line: a checkpoint keeps them,
 * and config.yaml has them as comments, since it may be used with other data. */
void gr_train_options_found(const gr_train_options *o, gr_text *out);
/* Those of a checkpoint again, where its value still holds. */
void gr_train_options_mark_found(gr_train_options *o, const char *names);

/* Rows by group, as --help shows them, with the values that *o has. */
void gr_train_options_help(const gr_train_options *o, gr_text *out);
/* `gradus help keys`: every name that is understood, and what it means. */
void gr_train_options_keys(const gr_train_options *o, gr_text *out);
/* The same of the names that the recipe of *o adds. */
void gr_train_options_own_keys(const gr_train_options *o, gr_text *out);
/* The settings that have `word` in one of their names: the trainer's, or the recipe's own.
 * Returns how many. */
int gr_train_options_like(const gr_train_options *o, const char *word, bool recipe, gr_text *out);
/* docs/config.md, but for its first paragraphs. */
void gr_train_options_markdown(const gr_train_options *o, gr_text *out);

#ifdef __cplusplus
}
#endif

#endif

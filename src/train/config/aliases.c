/*
 * Other people's names for the trainer's settings: as flags, and as keys in files. A name
 * that another trainer uses in two meanings stands with its group in front ("output." counts
 * epochs where "train." counts steps).
 */
#include "train/config/table.h"

/* Everything below the left one is looked for below the right one. */
static const gr_prefix prefixes[] = {
    { "training.", "train." },
    { "optimizer.", "train.optimizer." },
    { "optim.", "train.optimizer." },
    { "lr_scheduler.", "train.lr_scheduler." },
    { "scheduler.", "train.lr_scheduler." },
    { "train.scheduler.", "train.lr_scheduler." },
    { "early_stopping.", "train.early_stopping." },
    { "scaler.", "train.scaler." },
    { "validation.", "valid." },
    { "val.", "valid." },
    { "train.dataloader.", "dataloader." },
    { "loader.", "dataloader." },
    { "distributed.", "ddp." },
    { NULL, NULL },
};

#define SAME(name, key)       \
    {                         \
        name, key, NULL, NULL \
    }
#define MEANS(name, key, on, off) \
    {                             \
        name, key, on, off        \
    }

/* clang-format off */
static const gr_alias aliases[] = {
    /* the run */
    SAME("-c", "config"),
    SAME("config_file", "config"),
    MEANS("train", "task", "train", "train"),
    MEANS("test", "task", "test", "train"),
    MEANS("predict", "task", "predict", "train"),
    MEANS("check", "task", "check", "train"),
    SAME("save_dir", "output_dir"),
    SAME("logdir", "output_dir"),
    SAME("log_dir", "output_dir"),
    SAME("checkpoint.save_dir", "output_dir"),
    SAME("output.dir", "output_dir"),
    SAME("output.output_dir", "output_dir"),
    SAME("run_name", "run_id"),

    /* how long, how much */
    SAME("epoch", "train.epochs"),
    SAME("num_epochs", "train.epochs"),
    SAME("train.epoch", "train.epochs"),
    SAME("train.num_epochs", "train.epochs"),
    SAME("steps", "train.max_steps"),
    SAME("-b", "train.batch_size"),
    SAME("batch", "train.batch_size"),
    SAME("batchsize", "train.batch_size"),
    SAME("train.batchsize", "train.batch_size"),
    SAME("data.batch_size", "train.batch_size"),
    SAME("dataloader.batch_size", "train.batch_size"),
    SAME("effective_batch_size", "train.effective_batch"),
    SAME("accumulate", "train.grad_accumulation_steps"),
    SAME("gradient_accumulation_steps", "train.grad_accumulation_steps"),
    SAME("train.gradient_accumulation_steps", "train.grad_accumulation_steps"),
    SAME("max_train_samples", "data.n_train"),
    SAME("max_val_samples", "data.n_eval"),

    /* learning rate */
    SAME("-lr", "train.lr"),
    SAME("learning_rate", "train.lr"),
    SAME("train.learning_rate", "train.lr"),
    SAME("train.optimizer.learning_rate", "train.lr"),
    SAME("train.optimizer.lr", "train.lr"),
    SAME("lr_scheduler", "train.lr_scheduler.name"),
    SAME("scheduler", "train.lr_scheduler.name"),
    SAME("train.scheduler", "train.lr_scheduler.name"),
    SAME("train.lr_scheduler", "train.lr_scheduler.name"),
    SAME("train.lr_schedule", "train.lr_scheduler.name"),
    SAME("train.lr_scheduler.type", "train.lr_scheduler.name"),
    SAME("warmup", "train.lr_scheduler.warmup_steps"),
    SAME("train.warmup", "train.lr_scheduler.warmup_steps"),
    SAME("train.warmup_steps", "train.lr_scheduler.warmup_steps"),
    SAME("train.lr_scheduler.warmup", "train.lr_scheduler.warmup_steps"),
    SAME("warmup_epoch", "train.lr_scheduler.warmup_epochs"),
    SAME("train.warmup_epoch", "train.lr_scheduler.warmup_epochs"),
    SAME("train.warmup_epochs", "train.lr_scheduler.warmup_epochs"),
    SAME("train.lr_scheduler.eta_min", "train.lr_scheduler.min"),
    SAME("train.lr_scheduler.min_lr", "train.lr_scheduler.min"),
    SAME("min_lr", "train.lr_scheduler.min"),
    SAME("train.lr_scheduler.factor", "train.lr_scheduler.gamma"),
    SAME("train.lr_scheduler.step_size", "train.lr_scheduler.period"),
    SAME("train.lr_scheduler.T_0", "train.lr_scheduler.period"),
    SAME("train.lr_scheduler.T_mult", "train.lr_scheduler.t_mult"),

    /* update */
    SAME("optim", "train.optimizer.name"),
    SAME("train.optimizer", "train.optimizer.name"),
    SAME("train.optimizer.type", "train.optimizer.name"),
    SAME("wdecay", "train.optimizer.weight_decay"),
    SAME("wd", "train.optimizer.weight_decay"),
    SAME("train.weight_decay", "train.optimizer.weight_decay"),
    SAME("train.momentum", "train.optimizer.momentum"),
    MEANS("no_decay_norms", "train.optimizer.decay_all", "false", "true"),
    SAME("grad_clip", "train.clip_norm"),
    SAME("max_grad_norm", "train.clip_norm"),
    SAME("train.grad_clip", "train.clip_norm"),
    SAME("train.max_grad_norm", "train.clip_norm"),
    SAME("model_path", "model.pretrained"),

    /* precision */
    MEANS("use_amp", "train.amp", "auto", "none"),
    MEANS("train.use_amp", "train.amp", "auto", "none"),
    SAME("train.scaler.compute_type", "train.amp"),
    SAME("mixed_precision", "train.amp"),
    SAME("train.mixed_precision", "train.amp"),

    /* validation */
    SAME("train.val_interval", "valid.interval"),
    SAME("valid_interval", "valid.interval"),
    SAME("val_epoch", "valid.start_epoch"),
    SAME("val_batch_size", "valid.batch_size"),
    SAME("valid_batch", "valid.batch_size"),
    SAME("test_batch", "test.batch_size"),
    SAME("main_metric", "train.best_by"),
    SAME("best_direction", "train.metric_direction"),
    MEANS("early_stopping", "train.early_stopping.patience", "10", NULL),
    MEANS("train.early_stopping", "train.early_stopping.patience", "10", NULL),
    SAME("early_stopping_patience", "train.early_stopping.patience"),
    SAME("train.patience", "train.early_stopping.patience"),
    SAME("early_stopping_min_delta", "train.early_stopping.min_delta"),

    /* loader */
    SAME("workers", "dataloader.num_workers"),
    SAME("data.num_workers", "dataloader.num_workers"),
    SAME("train.num_workers", "dataloader.num_workers"),
    SAME("data.pin_memory", "dataloader.pin_memory"),
    SAME("data.drop_last", "dataloader.drop_last"),
    SAME("data.shuffle", "dataloader.shuffle"),
    SAME("prefetch_factor", "dataloader.prefetch"),
    SAME("dataloader.prefetch_factor", "dataloader.prefetch"),

    /* checkpoints */
    SAME("save_every", "checkpoint.save_steps"),
    SAME("train.save_interval", "checkpoint.save_steps"),
    SAME("save_interval", "checkpoint.save_epochs"),
    SAME("output.save_interval", "checkpoint.save_epochs"),
    SAME("save_period", "checkpoint.save_epochs"),
    SAME("train.save_period", "checkpoint.save_epochs"),
    SAME("chk_interval", "checkpoint.save_epochs"),
    SAME("output.save_best", "checkpoint.save_best"),
    SAME("output.save_last", "checkpoint.save_last"),
    SAME("output.keep", "checkpoint.keep"),
    SAME("output.format", "checkpoint.format"),
    MEANS("resume", "checkpoint.resume", "auto", NULL),
    MEANS("checkpoint.resume", "checkpoint.resume", "auto", NULL),
    MEANS("train.resume", "checkpoint.resume", "auto", NULL),
    SAME("checkpoint.resume_from", "checkpoint.resume"),
    SAME("resume_from", "checkpoint.resume"),
    SAME("continue_from", "checkpoint.resume"),
    SAME("continue_checkpoint", "checkpoint.resume"),
    SAME("model.continue_checkpoint", "checkpoint.resume"),

    /* ranks */
    SAME("ddp", "ddp.enabled"),
    SAME("gpus", "ddp.nproc"),
    SAME("num_gpus", "ddp.nproc"),
    SAME("nproc_per_node", "ddp.nproc"),
    SAME("timeout_s", "ddp.timeout"),
    SAME("bucket_bytes", "ddp.bucket"),
    SAME("first_bucket_bytes", "ddp.first_bucket"),
    SAME("ddp.log_level", "logging.level"),
    SAME("train.sync_bn", "ddp.sync_bn"),
    SAME("train.zero", "ddp.zero"),
    SAME("train.grad_dtype", "ddp.grad_dtype"),

    /* tracking */
    SAME("log_interval", "logging.every"),
    SAME("train.log_interval", "logging.every"),
    MEANS("debug_mode", "logging.level", "debug", "auto"),
    SAME("visualize", "logging.plots"),
    MEANS("no_visualize", "logging.plots", "false", "true"),
    SAME("wandb", "wandb.enabled"),
    SAME("private.wandb", "wandb.enabled"),
    SAME("train.use_wandb", "wandb.enabled"),
    SAME("entity", "wandb.entity"),
    { NULL, NULL, NULL, NULL },
};

/* Names of other trainers for what is done otherwise here. */
static const gr_gone gone[] = {
    { "eval_every", "is called val_interval now, and counts steps; write 'N epochs' for epochs" },
    { "gpu_ids", "is the launcher's: gradrun --gpu-ids LIST, or CUDA_VISIBLE_DEVICES=LIST" },
    { "nnodes", "is the launcher's: gradrun --nnodes N --node_rank R --master_addr HOST gradus train ..." },
    { "node_rank", "is the launcher's: gradrun --nnodes N --node_rank R --master_addr HOST gradus train ..." },
    { "warmup_lr", "cannot be set: a warm-up begins at lr / warmup_steps, or at 0 with warmup_at_0" },
    { "train.lr_scheduler.warmup_lr",
      "cannot be set: a warm-up begins at lr / warmup_steps, or at 0 with warmup_at_0" },
    { "train.lr_scheduler.update_policy",
      "is lr_by_epoch here: false counts optimiser steps, true epochs" },
    { "train.save_recovery_period", "is not needed: every checkpoint is complete; use save_steps" },
    { "continue_id", "is --resume FOLDER here, with the folder of the run" },
    { "model.continue_ext_checkpoint",
      "is not needed: one checkpoint holds model, optimiser and position; use resume" },
    { "monitor", "is not needed: metrics.jsonl, metrics.csv and TensorBoard files are written by default" },
    { "web_monitor", "is not there: run tensorboard --logdir on the run's folder" },
    { "private.mode", "is the command here: gradus train, test or predict, or the key task" },
    { "private.log", "is not there: every rank's log is in the run's folder; see log_level" },
    { "logging.save_to_file", "is not needed: a log per rank is in the run's folder" },
    { "logging.log_file", "is not needed: a log per rank is in the run's folder" },
    { "logging.log_dir", "is not needed: a log per rank is in the run's folder; see output_dir" },
    { "logging.console_output", "is --progress live or plain here" },
    { "wandb.save_code", "is not there: the run's configuration is recorded, code is not" },
    { "wandb.resume", "is not needed: a resumed run goes on in its W&B run" },
    { "ddp.find_unused_parameters", "is not needed: unused parameters cost nothing" },
    { "ddp.backend", "is chosen by the device; see group and comm" },
    { "ddp.init_method", "is dist_url here" },
    { "dataloader.persistent_workers", "is not needed: loader threads stay for the whole run" },
    { NULL, NULL },
};
/* clang-format on */

const gr_names gr_trainer_names = { aliases, prefixes, gone };

/*
 * The trainer's settings. A row is: dotted key, kind, preset, limits, choices, help; flag, word
 * for the value, environment variable, field, use. Everything else is made from it, so a new
 * setting is one row and one field. Rows of one group stand together.
 */
#include "train/config/table.h"

#include <stddef.h>
#include <string.h>

#define AT(field) offsetof(gr_train_options, field)
#define NOWHERE   GR_NO_FIELD
#define SAVED     GR_USE_SAVED
#define FIXED     GR_USE_FIXED
#define LOCAL     GR_USE_LOCAL
#define HIDDEN    GR_USE_HIDDEN
#define EMPTY     GR_USE_EMPTY
#define WRITES    GR_USE_WRITES
#define AWAY      GR_USE_AWAY
#define MANY      1e15

#define INT(name, preset, min, max, help)                       \
    {                                                           \
        name, GR_KEY_INT, preset, min, max, NULL, help, NULL, 0 \
    }
#define F64(name, preset, min, max, help)                       \
    {                                                           \
        name, GR_KEY_F64, preset, min, max, NULL, help, NULL, 0 \
    }
#define BOOL(name, preset, help)                             \
    {                                                        \
        name, GR_KEY_BOOL, preset, 0, 0, NULL, help, NULL, 0 \
    }
#define TEXT(name, preset, help)                             \
    {                                                        \
        name, GR_KEY_TEXT, preset, 0, 0, NULL, help, NULL, 0 \
    }
#define CHOICE(name, preset, choices, help)                       \
    {                                                             \
        name, GR_KEY_CHOICE, preset, 0, 0, choices, help, NULL, 0 \
    }
#define OTHER(kind, name, preset, help)                              \
    {                                                                \
        name, (gr_key_kind)(kind), preset, 0, 0, NULL, help, NULL, 0 \
    }

/* clang-format off */
const gr_row gr_rows[] = {
    /* the run */
    { TEXT("recipe", NULL, "what is trained; also the first word of the command"),
      "recipe", "NAME", NULL, AT(recipe), 0 },
    { CHOICE("task", "train", "train|test=eval=evaluate|predict|check", "what to do"),
      "task", NULL, NULL, AT(task), HIDDEN },
    { TEXT("config", NULL, "YAML file with settings; flags and the environment win over it"),
      "config", "FILE", NULL, AT(config), HIDDEN | AWAY },
    { TEXT("run_id", NULL, "name of the run; default: made by rank 0 from recipe and time"),
      "run_id", "NAME", NULL, AT(run_id), EMPTY | WRITES },
    { TEXT("output_dir", NULL, "folder of this run; default: a new one in runs/"),
      "output_dir", "FOLDER", NULL, AT(output_dir), WRITES },
    { TEXT("device", "auto", "cpu, cuda, cuda:N or auto: a GPU where there is one"),
      "device", "NAME", NULL, AT(device), 0 },
    { INT("seed", "0", 0, MANY, "of weights, data and order"),
      "seed", "N", NULL, AT(seed), SAVED | FIXED },

    /* train */
    { INT("train.epochs", "10", 1, MANY, "passes over the training data"),
      "epochs", "N", NULL, AT(epochs), SAVED },
    { INT("train.max_steps", "0", 0, MANY, "end after N steps in all; 0: no limit"),
      "max_steps", "N", NULL, AT(max_steps), 0 },
    { INT("train.batch_size", "32", 1, 1e9, "samples per rank and micro-step"),
      "batch_size", "N", NULL, AT(batch_size), SAVED | FIXED },
    { INT("train.effective_batch", "0", 0, MANY, "samples per step of all ranks together: batch_size "
      "follows; 0: it follows from batch_size"), "effective_batch", "N", NULL, AT(effective_batch), SAVED },
    { INT("train.grad_accumulation_steps", "1", 1, 1e6, "micro-steps per step"),
      "grad_accumulation_steps", "N", NULL, AT(accumulate), SAVED | FIXED },
    { CHOICE("train.loss_reduction", "local", "local|global", "global: divide by what counts on all ranks "
      "and micro-steps together, where pixels or tokens are ignored"),
      "loss_reduction", NULL, NULL, AT(loss_reduction), SAVED | FIXED },
    { F64("train.lr", "0.001", 0, 1e6, "learning rate at its highest, before lr_scaling"),
      "lr", "X", NULL, AT(lr), SAVED },
    { CHOICE("train.lr_scaling", "none", "none|linear|sqrt", "how lr follows the number of ranks"),
      "lr_scaling", NULL, NULL, AT(lr_scaling), SAVED },
    { INT("train.lr_base_batch", "0", 0, MANY, "effective batch that lr is meant for: lr_scaling goes "
      "by it; 0: by ranks"), "lr_base_batch", "N", NULL, AT(lr_base_batch), SAVED },
    { CHOICE("train.amp", "none", "none=fp32=float32=false=off|bf16=bfloat16|fp16=float16=f16|auto=true=on",
      "mixed precision; auto: bf16 where the device has it, else fp16"),
      "amp", NULL, NULL, AT(amp), SAVED | FIXED },
    { F64("train.init_scale", "65536", 1, 1e30, "fp16: first loss scale"),
      "init_scale", "X", NULL, AT(init_scale), SAVED },
    { F64("train.clip_norm", "0", 0, 1e30, "limit of the gradients' global norm; 0: none"),
      "clip_norm", "X", NULL, AT(clip_norm), SAVED },
    { F64("train.clip_value", "0", 0, 1e30, "limit of each element of a gradient; 0: none"),
      "clip_value", "X", NULL, AT(clip_value), SAVED },
    { F64("train.ema_decay", "0", 0, 1, "averages of the parameters, used for evaluation; 0: none"),
      "ema_decay", "X", NULL, AT(ema_decay), SAVED | FIXED },
    { OTHER(GR_KEY_TEXTS, "train.freeze", NULL, "parameters that do not learn, as patterns: backbone.*,*.bias"),
      "freeze", "PATTERN,...", NULL, AT(freeze), SAVED | FIXED },
    { BOOL("train.tune", "false", "choose kernels by measuring them; a run keeps its choice, the next may differ "
      "in last bits"), "tune", NULL, NULL, AT(tune), SAVED },
    { CHOICE("train.recompute", "none", "none|all|limit", "compute activations again to save memory; limit: "
      "as many blocks as memory_limit, which it needs, asks for"), "recompute", NULL, NULL, AT(recompute), 0 },
    { OTHER(GR_KEY_BYTES, "train.memory_limit", "0", "that a training step may need on a rank: 20GiB; 0: none"),
      "memory_limit", "SIZE", NULL, AT(memory_limit), 0 },
    { TEXT("train.best_by", NULL, "metric that says which model is the best, or loss; default: the recipe's first"),
      "best_by", "METRIC", NULL, AT(best_by), SAVED },
    { CHOICE("train.metric_direction", "auto", "auto|max=maximize|min=minimize", "which values of it are better"),
      "metric_direction", NULL, NULL, AT(best_direction), SAVED },

    { CHOICE("train.optimizer.name", "adamw", "sgd|adamw|adam", "update rule"),
      "optimizer", NULL, NULL, AT(optimizer), SAVED | FIXED },
    { F64("train.optimizer.momentum", "0", 0, 1, "of sgd"),
      "momentum", "X", NULL, AT(momentum), SAVED },
    { BOOL("train.optimizer.nesterov", "false", "sgd with momentum: Nesterov's form"),
      "nesterov", NULL, NULL, AT(nesterov), SAVED },
    { F64("train.optimizer.beta1", "0.9", 0, 1, "of adam and adamw"),
      "beta1", "X", NULL, AT(beta1), SAVED },
    { F64("train.optimizer.beta2", "0.999", 0, 1, "of adam and adamw"),
      "beta2", "X", NULL, AT(beta2), SAVED },
    { OTHER(GR_KEY_F64S, "train.optimizer.betas", NULL, "beta1 and beta2 together: [0.9, 0.999]"),
      "betas", "X,X", NULL, NOWHERE, HIDDEN },
    { F64("train.optimizer.eps", "1e-8", 0, 1, "of adam and adamw"),
      "eps", "X", NULL, AT(eps), SAVED },
    { F64("train.optimizer.weight_decay", "0", 0, 1e6, "adamw: decoupled; sgd, adam: added to the gradient"),
      "weight_decay", "X", NULL, AT(weight_decay), SAVED },
    { BOOL("train.optimizer.decay_all", "true", "decay norms and biases, too, as PyTorch does"),
      "decay_all", NULL, NULL, AT(decay_all), SAVED },
    { OTHER(GR_KEY_TEXTS, "train.optimizer.no_decay", NULL, "parameters without weight decay, as patterns"),
      "no_decay", "PATTERN,...", NULL, AT(no_decay), SAVED },

    { CHOICE("train.lr_scheduler.name", "cosine", "constant=none|cosine=cosineannealing=CosineAnnealingLR|"
      "restarts=cosine_restarts=cosinewarmrestarts=CosineAnnealingWarmRestarts|step=StepLR|"
      "multistep=MultiStepLR|polynomial=poly=PolynomialLR|exponential=ExponentialLR|plateau=ReduceLROnPlateau",
      "what follows the warm-up"), "lr_schedule", NULL, NULL, AT(schedule), SAVED },
    { INT("train.lr_scheduler.warmup_steps", "50", 0, MANY, "optimiser steps in which the rate rises, whatever "
      "the number of ranks"), "warmup_steps", "N", NULL, AT(warmup_steps), SAVED },
    { F64("train.lr_scheduler.warmup_epochs", "0", 0, 1e9, "the same in epochs; over 0: instead of warmup_steps"),
      "warmup_epochs", "X", NULL, AT(warmup_epochs), SAVED },
    { INT("train.lr_scheduler.warmup_max_steps", "0", 0, MANY, "no longer warm-up than this, in optimiser steps; "
      "0: as long as the other two say"), "warmup_max_steps", "N", NULL, AT(warmup_max_steps), SAVED },
    { BOOL("train.lr_scheduler.warmup_at_0", "false", "the first step has rate 0 instead of lr / warmup_steps"),
      "warmup_at_0", NULL, NULL, AT(warmup_at_0), SAVED },
    { BOOL("train.lr_scheduler.by_epoch", "false", "change the rate once an epoch; periods count epochs"),
      "lr_by_epoch", NULL, NULL, AT(lr_by_epoch), SAVED },
    { F64("train.lr_scheduler.min", "0", 0, 1e6, "where cosine, restarts, polynomial and plateau end"),
      "lr_min", "X", NULL, AT(lr_min), SAVED },
    { F64("train.lr_scheduler.gamma", "0.1", 0, 1, "factor of step, multistep, exponential and plateau"),
      "lr_gamma", "X", NULL, AT(lr_gamma), SAVED },
    { INT("train.lr_scheduler.period", "30", 1, MANY, "of step and restarts, in steps (or epochs: by_epoch)"),
      "lr_period", "N", NULL, AT(lr_period), SAVED },
    { F64("train.lr_scheduler.t_mult", "1", 1, 1000, "restarts: each period is so many times the one before"),
      "lr_t_mult", "X", NULL, AT(lr_t_mult), SAVED },
    { F64("train.lr_scheduler.power", "1", 0, 100, "of polynomial"),
      "lr_power", "X", NULL, AT(lr_power), SAVED },
    { OTHER(GR_KEY_INTS, "train.lr_scheduler.milestones", NULL, "of multistep: 30,60,90"),
      "lr_milestones", "N,...", NULL, AT(lr_milestones), SAVED },
    { INT("train.lr_scheduler.patience", "10", 0, MANY, "plateau: evaluations without a better value"),
      "lr_patience", "N", NULL, AT(lr_patience), SAVED },
    { F64("train.lr_scheduler.threshold", "1e-4", 0, 1, "plateau: less than this share is not better"),
      "lr_threshold", "X", NULL, AT(lr_threshold), SAVED },
    { INT("train.lr_scheduler.cooldown", "0", 0, MANY, "plateau: evaluations after a reduction that do not count"),
      "lr_cooldown", "N", NULL, AT(lr_cooldown), SAVED },

    { CHOICE("train.lr_scheduler.on_resume", "stretch", "stretch|continue|restart", "what a resumed run with "
      "other epochs does with its schedule: stretch it over all of them, continue as it was planned, or "
      "restart it"), "lr_schedule_on_resume", NULL, NULL, AT(lr_on_resume), SAVED },
    { INT("train.early_stopping.patience", "0", 0, MANY, "end after so many evaluations without a better value; "
      "0: never"), "patience", "N", NULL, AT(patience), SAVED },
    { F64("train.early_stopping.min_delta", "0", 0, 1e30, "less than this is not better"),
      "min_delta", "X", NULL, AT(min_delta), SAVED },
    { BOOL("train.early_stopping.enabled", NULL, "true: patience 10 unless it is given; false: no early stopping"),
      "early_stopping_enabled", NULL, NULL, NOWHERE, HIDDEN },

    /* valid, test, predict */
    { OTHER(GR_KEY_SPAN, "valid.interval", "1 epoch", "between validations: steps, or '2 epochs'; 0: at the end only"),
      "val_interval", "N[ epochs]", NULL, AT(val_interval), SAVED },
    { INT("valid.start_epoch", "0", 0, MANY, "no validation before this epoch"),
      "val_start", "N", NULL, AT(val_start), SAVED },
    { INT("valid.batch_size", "0", 0, 1e9, "per rank; 0: that of training"),
      "valid_batch_size", "N", NULL, AT(valid_batch), SAVED },
    { INT("test.batch_size", "0", 0, 1e9, "per rank, of test and predict; 0: that of training"),
      "test_batch_size", "N", NULL, AT(test_batch), SAVED },
    { TEXT("test.checkpoint", NULL, "what test, predict and export read: best, last, a file or a run's folder"),
      "checkpoint", "WHICH", NULL, AT(checkpoint), EMPTY | AWAY },
    { TEXT("predict.input", NULL, "file or folder to predict on"), "input", "PATH", NULL, AT(input), EMPTY | AWAY },
    { TEXT("predict.output", NULL, "where predictions and exported models go; default: in the run's folder"),
      "output", "PATH", NULL, AT(output), EMPTY | WRITES },

    /* model */
    { TEXT("model.pretrained", NULL, "file with weights to begin with"),
      "pretrained", "FILE", NULL, AT(pretrained), SAVED | EMPTY | AWAY },
    { OTHER(GR_KEY_TEXTS, "model.pretrained_map", NULL, "prefixes of its names to replace: backbone.=encoder.,head.="),
      "pretrained_map", "OLD=NEW,...", NULL, AT(pretrained_map), SAVED },

    /* data */
    { INT("data.n_train", "0", 0, MANY, "training samples; 0: all"),
      "n_train", "N", NULL, AT(n_train), SAVED | FIXED },
    { INT("data.n_eval", "0", 0, MANY, "validation samples; 0: all. Of drawn data those of test, too"), "n_eval", "N", NULL, AT(n_eval), SAVED },
    { CHOICE("data.check", "heads", "heads|all|none", "what `gradus check` looks at: heads of all files and "
      "some whole, all samples whole, nothing"), "check_data", NULL, NULL, AT(check_data), HIDDEN },
    { INT("dataloader.num_workers", "-1", -1, 1024, "loader threads of a rank; -1: 4, at most its cores; 0: none"),
      "num_workers", "N", NULL, AT(num_workers), LOCAL },
    { BOOL("dataloader.pin_memory", "true", "batches in memory that a GPU copies fast"),
      "pin_memory", NULL, NULL, AT(pin_memory), LOCAL },
    { INT("dataloader.prefetch", "2", 0, 1024, "batches made ahead"),
      "prefetch", "N", NULL, AT(prefetch), LOCAL },
    { BOOL("dataloader.drop_last", "false", "leave an epoch's short last batch out"),
      "drop_last", NULL, NULL, AT(drop_last), SAVED | FIXED },
    { BOOL("dataloader.shuffle", "true", "a new order each epoch"),
      "shuffle", NULL, NULL, AT(shuffle), SAVED | FIXED },
    { CHOICE("dataloader.sampler", "distributed", "distributed=DistributedSampler|weighted|bucketed",
      "order of samples; weighted: as often as the recipe says, each class alike in vision; bucketed: by length"), "sampler", NULL, NULL, AT(sampler), SAVED | FIXED },
    { INT("dataloader.token_budget", "0", 0, MANY, "bucketed: most tokens in a batch, which has batch_size samples at most; 0: any"),
      "token_budget", "N", NULL, AT(token_budget), SAVED | FIXED },
    { CHOICE("dataloader.on_bad_sample", "error", "error|skip", "what a missing or broken file does; skip: "
      "another sample stands in, counted"), "on_bad_sample", NULL, NULL, AT(on_bad_sample), SAVED },

    /* checkpoint */
    { INT("checkpoint.save_steps", "500", 0, MANY, "steps between checkpoints; 0: not by steps"),
      "save_steps", "N", NULL, AT(save_every), SAVED },
    { INT("checkpoint.save_epochs", "0", 0, MANY, "epochs between checkpoints; 0: not by epochs"),
      "save_epochs", "N", NULL, AT(save_epochs), SAVED },
    { BOOL("checkpoint.save_best", "true", "keep the best model as best_model"),
      "save_best", NULL, NULL, AT(save_best), SAVED },
    { BOOL("checkpoint.save_last", "true", "save at the end of a run, also when it is stopped"),
      "save_last", NULL, NULL, AT(save_last), SAVED },
    { INT("checkpoint.keep", "3", 0, 1e6, "numbered checkpoints kept; 0: all"),
      "keep", "N", NULL, AT(keep), SAVED },
    { CHOICE("checkpoint.format", "safetensors", "safetensors|pt=pth|both", "of files"),
      "checkpoint_format", NULL, NULL, AT(ckpt_format), SAVED },
    { BOOL("checkpoint.trainable_only", "false", "leave frozen parameters out of them"),
      "trainable_only", NULL, NULL, AT(trainable_only), SAVED },
    { TEXT("checkpoint.resume", NULL, "go on from: a file, a run's folder, last, best or auto (also without a "
      "value): the newest in output_dir"), "resume", "[WHICH]", NULL, AT(resume), EMPTY | AWAY },

    /* ranks */
    { BOOL("ddp.enabled", "true", "true: ranks as the environment says; false: refuse to be one of several"),
      "distributed", NULL, NULL, AT(ddp), LOCAL | HIDDEN },
    { INT("ddp.world_size", "-1", -1, 1e6, "number of ranks; a flag wins over WORLD_SIZE, which wins over a file"),
      "world_size", "N", NULL, AT(world_size), LOCAL | HIDDEN },
    { INT("ddp.rank", "-1", -1, 1e6, "of this process; like RANK"), "rank", "N", NULL, AT(rank), LOCAL | HIDDEN },
    { INT("ddp.local_rank", "-1", -1, 1e6, "of this process on its host; like LOCAL_RANK"),
      "local_rank", "N", NULL, AT(local_rank), LOCAL | HIDDEN },
    { TEXT("ddp.master_addr", NULL, "host of rank 0; like MASTER_ADDR"),
      "master_addr", "HOST", NULL, AT(master_addr), LOCAL | HIDDEN | AWAY },
    { INT("ddp.master_port", "0", 0, 65535, "port there; like MASTER_PORT"),
      "master_port", "N", NULL, AT(master_port), LOCAL | HIDDEN | AWAY },
    { TEXT("ddp.dist_url", "env://", "env://, or tcp://host:port; like GR_INIT_METHOD"),
      "dist_url", "URL", NULL, AT(dist_url), LOCAL | HIDDEN | AWAY },
    { INT("ddp.nproc", "0", 0, 4096, "without a launcher: start so many ranks here, under gradrun"),
      "nproc", "N", NULL, AT(nproc), LOCAL | HIDDEN },
    { CHOICE("ddp.group", "auto", "auto|nccl|ipc", "exchange between GPUs"), "group", NULL, NULL, AT(group), 0 },
    { TEXT("ddp.comm", NULL, "transport between CPUs: shm, tcp, hosts or mpi; default: chosen"),
      "comm", "NAME", "GR_COMM", AT(comm), 0 },
    { F64("ddp.timeout", "0", 0, 1e6, "longest wait for another rank, seconds; 0: 300"),
      "timeout", "X", "GR_TIMEOUT|NCCL_TIMEOUT|TORCH_DISTRIBUTED_TIMEOUT", AT(timeout_s), LOCAL },
    { INT("ddp.threads", "0", 0, 1024, "of a rank on the CPU; 0: 1"),
      "threads", "N", "GR_THREADS", AT(threads), LOCAL },
    { OTHER(GR_KEY_BYTES, "ddp.bucket", "25MiB", "largest bucket of gradients"),
      "bucket", "SIZE", NULL, AT(bucket_bytes), SAVED },
    { OTHER(GR_KEY_BYTES, "ddp.first_bucket", "1MiB", "and of the first one"),
      "first_bucket", "SIZE", NULL, AT(first_bucket_bytes), SAVED },
    { CHOICE("ddp.grad_dtype", "f32", "f32=fp32=float32|bf16=bfloat16|f16=fp16=float16", "gradients on the wire; "
      "sums are f32"), "grad_dtype", NULL, NULL, AT(grad_dtype), SAVED | FIXED },
    { BOOL("ddp.sync_bn", "false", "batch norm over all ranks"), "sync_bn", NULL, NULL, AT(sync_bn), SAVED | FIXED },
    { INT("ddp.zero", "0", 0, 2, "shard optimiser state (1) and gradients (2) over the ranks"),
      "zero", "N", NULL, AT(zero), SAVED },
    { INT("ddp.check_every", "100", 0, MANY, "steps between checks that all ranks hold the same parameters; 0: never"),
      "check_every", "N", NULL, AT(check_every), SAVED },
    { OTHER(GR_KEY_BYTES, "ddp.device_memory", "0", "check: plan for a device with so much memory: 24GiB"),
      "device_memory", "SIZE", NULL, AT(device_memory), HIDDEN },

    /* logging */
    { CHOICE("logging.level", "auto", "auto|error|warning=warn|info|debug", "on all ranks; auto: info on rank 0, "
      "warnings elsewhere; error: train says nothing else; GR_LOG wins"), "log_level", NULL, NULL, AT(log_level), LOCAL },
    { INT("logging.every", "20", 1, MANY, "steps between metrics records"),
      "log_every", "N", NULL, AT(log_every), SAVED },
    { BOOL("logging.grad_norm", "false", "record the gradients' norm without clipping, too"),
      "log_grad_norm", NULL, NULL, AT(log_grad_norm), SAVED },
    { CHOICE("logging.progress", "auto", "auto|live|plain", "one line that redraws itself, or lines"),
      "progress", NULL, NULL, AT(progress), LOCAL },
    { BOOL("logging.tensorboard", "true", "write event files"), "tensorboard", NULL, NULL, AT(tensorboard), SAVED },
    { BOOL("logging.csv", "true", "write metrics.csv"), "csv", NULL, NULL, AT(csv), SAVED },
    { BOOL("logging.plots", "true", "draw learning curves as PNG"), "plots", NULL, NULL, AT(plots), SAVED },
    { INT("logging.plot_every", "1", 1, MANY, "epochs between drawings, which follow a validation"),
      "plot_every", "N", NULL, AT(plot_every), 0 },
    { TEXT("logging.dump_after", NULL, "print the graphs after that pass, or after all"),
      "dump_after", "PASS", NULL, AT(dump_after), LOCAL },
    { TEXT("logging.dump_dot", NULL, "write the planned training graph for Graphviz"),
      "dump_dot", "FILE", NULL, AT(dump_dot), LOCAL | WRITES },

    /* wandb */
    { BOOL("wandb.enabled", "false", "write an offline run for W&B; synced at the end when WANDB_API_KEY is set"),
      "use_wandb", NULL, NULL, AT(use_wandb), SAVED | AWAY },
    { TEXT("wandb.project", NULL, "name of the project"),
      "wandb_project", "NAME", "WANDB_PROJECT", AT(wandb_project), SAVED | EMPTY | AWAY },
    { TEXT("wandb.name", NULL, "of the run; default: run_id"),
      "wandb_name", "NAME", "WANDB_NAME", AT(wandb_name), SAVED | EMPTY | AWAY },
    { TEXT("wandb.entity", NULL, "user or team"),
      "wandb_entity", "NAME", "WANDB_ENTITY", AT(wandb_entity), SAVED | EMPTY | AWAY },
    { CHOICE("wandb.mode", "auto", "auto|offline=dryrun|online=run=shared|disabled", "auto, online: sync at the end where "
      "that is possible"),
      "wandb_mode", NULL, "WANDB_MODE", AT(wandb_mode), SAVED | AWAY },
    { OTHER(GR_KEY_TEXTS, "wandb.tags", NULL, "labels of the run"),
      "wandb_tags", "WORD,...", "WANDB_TAGS", AT(wandb_tags), SAVED | AWAY },
    { TEXT("wandb.notes", NULL, "a longer text"), "wandb_notes", "TEXT", "WANDB_NOTES", AT(wandb_notes), SAVED | EMPTY | AWAY },
};
/* clang-format on */

const int gr_n_rows = (int)(sizeof(gr_rows) / sizeof(gr_rows[0]));

const gr_row *gr_row_find(const char *name)
{
    for (int i = 0; i < gr_n_rows; i++)
        if (strcmp(gr_rows[i].key.name, name) == 0 || strcmp(gr_rows[i].flag, name) == 0)
            return &gr_rows[i];
    return NULL;
}

/*
 * The trainer's settings by name: the table holds together, and every name of the five guides
 * is understood.
 */
#include "train/config/table.h"

#include "check.h"
#include "config_words.h"
#include "gradus/schedule.h"

#include <unistd.h>

#define N(a) ((int)(sizeof(a) / sizeof(a[0])))

static gr_train_options *const o = &config_options;

/* ---- the table ---- */

static bool is_key(const char *name)
{
    return name[0] >= 'a' && name[0] <= 'z' &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.")] == '\0' &&
           !strstr(name, "..");
}

static void test_table(void)
{
    GR_CHECK_OK(config_parse(""));
    for (int i = 0; i < gr_n_rows; i++) {
        const gr_row *r = &gr_rows[i];

        GR_CHECK(is_key(r->key.name) && is_key(r->flag) && !strchr(r->flag, '.'));
        GR_CHECK(r->key.help && strlen(r->key.help) > 3);
        GR_CHECK(!gr_is_secret_name(r->key.name) && !gr_is_secret_name(r->flag));
        for (int j = 0; j < i; j++) {
            GR_CHECK(strcmp(r->flag, gr_rows[j].flag) != 0);
            GR_CHECK(r->offset == GR_NO_FIELD || r->offset != gr_rows[j].offset);
        }
        if (r->use & GR_USE_FIXED) /* what may not change has to be known later */
            GR_CHECK(r->use & GR_USE_SAVED);
    }
    for (const gr_alias *a = gr_trainer_names.aliases; a->name; a++) {
        GR_CHECK(gr_row_find(a->key));
        GR_CHECK(gr_settings_way(o->settings, a->name, strlen(a->name)));
        for (const gr_alias *b = gr_trainer_names.aliases; b < a; b++)
            GR_CHECK(strcmp(a->name, b->name) != 0);
    }
    for (const gr_gone *g = gr_trainer_names.gone; g->name; g++)
        GR_CHECK(!gr_settings_way(o->settings, g->name, strlen(g->name)));
    for (const gr_prefix *p = gr_trainer_names.prefixes; p->name; p++)
        GR_CHECK(p->name[strlen(p->name) - 1] == '.' && p->means[strlen(p->means) - 1] == '.');
}

/* ---- guides ---- */

/* The flags of every command line in the guides, without the launcher's. */
static void test_guide_commands(void)
{
    GR_CHECK_OK(
        config_parse("--distributed --layers 50 --model_type res50_ASPP_lorm --batchsize 8 "
                     "--workers 4 --lr 1e-3 --world_size 1 --local_rank 0 --dist_url env://"));
    GR_CHECK(o->ddp && o->ddp_given);
    GR_CHECK_EQ(o->batch_size, 8);
    GR_CHECK_EQ(o->num_workers, 4);
    GR_CHECK_NEAR(o->lr, 1e-3, 0);
    GR_CHECK_EQ(gr_settings_int(o->settings, "model.layers"), 50);
    GR_CHECK_STR(gr_settings_text(o->settings, "model.name"), "res50_ASPP_lorm");
    GR_CHECK_OK(config_parse("--distributed --local_rank=0 --logdir=./log --master_port 12356"));
    GR_CHECK_STR(o->output_dir, "./log");
    GR_CHECK_EQ(o->master_port, 12356);

    GR_CHECK_OK(config_parse(
        "--ddp --pdb_path data/cache --cache_dir data/cache --epochs 50 --batch_size 8 "
        "--learning_rate 1e-4 --hidden_dim 256 --num_encoder_layers 3 "
        "--num_decoder_layers 3 --mask_ratio 0.15 --save_dir checkpoints"));
    GR_CHECK_EQ(o->epochs, 50);
    GR_CHECK_NEAR(o->lr, 1e-4, 0);
    GR_CHECK_STR(o->output_dir, "checkpoints");

    GR_CHECK_OK(config_parse(
        "--data_path ./data/train --model JiT-B/4 --img_size 64 --batch_size 64 --epochs "
        "100 --lr 1e-4 --use_amp --use_wandb --wandb_project jit-diffusion --wandb_name "
        "jit-v1-2gpu --gradient_accumulation_steps 1 --num_workers 8"));
    GR_CHECK_EQ(o->amp, GR_AMP_AUTO);
    GR_CHECK(o->use_wandb);
    GR_CHECK_STR(o->wandb_project, "jit-diffusion");
    GR_CHECK_STR(o->wandb_name, "jit-v1-2gpu");

    GR_CHECK_OK(config_parse_file("ddp: {enabled: true, log_level: \"INFO\"}\n", "--task predict"));
    GR_CHECK_EQ(o->task, GR_RUN_PREDICT);
    GR_CHECK_EQ(o->log_level, 3);
    GR_CHECK_OK(config_parse("--resume checkpoints/checkpoint_epoch_10.pt"));
    GR_CHECK_STR(o->resume, "checkpoints/checkpoint_epoch_10.pt");
}

/* Guide 003's file as it is used there. */
static void test_guide_003(void)
{
    static const char text[] = "task: train\n"
                               "run_id: \"ddp_example\"\n"
                               "seed: 42\n"
                               "device: cuda\n"
                               "\n"
                               "model:\n"
                               "  name: resnet18\n"
                               "  config:\n"
                               "    input_sizes: [3, 224, 224]\n"
                               "    num_classes: 10\n"
                               "  pretrained: null\n"
                               "  continue_checkpoint: \"\"\n"
                               "\n"
                               "train:\n"
                               "  epoch: 100\n"
                               "  batch_size: 32\n"
                               "  grad_accumulation_steps: 1\n"
                               "  optimizer:\n"
                               "    name: AdamW\n"
                               "    learning_rate: 0.001\n"
                               "    weight_decay: 0.01\n"
                               "  early_stopping:\n"
                               "    patience: 10\n"
                               "    min_delta: 0.001\n"
                               "valid:\n"
                               "  batch_size: 32\n"
                               "dataloader:\n"
                               "  num_workers: 4\n"
                               "  pin_memory: true\n"
                               "  drop_last: true\n"
                               "ddp:\n"
                               "  enabled: true\n"
                               "  log_level: \"INFO\"\n"
                               "dataset:\n"
                               "  name: imagefolder\n"
                               "  train_path: data/train\n"
                               "  valid_path: data/valid\n"
                               "  test_path: data/test\n"
                               "output:\n"
                               "  save_best: true\n"
                               "  save_last: true\n"
                               "  save_interval: 10\n";

    GR_CHECK_OK(config_parse_file(text, "--task test"));
    GR_CHECK_EQ(o->task, GR_RUN_TEST);
    GR_CHECK_STR(o->run_id, "ddp_example");
    GR_CHECK_EQ(o->seed, 42);
    GR_CHECK_STR(o->device, "cuda");
    GR_CHECK_EQ(o->epochs, 100);
    GR_CHECK_EQ(o->optimizer, GR_OPTIM_ADAMW);
    GR_CHECK_NEAR(o->lr, 0.001, 0);
    GR_CHECK_NEAR(o->weight_decay, 0.01, 0);
    GR_CHECK_EQ(o->patience, 10);
    GR_CHECK_NEAR(o->min_delta, 0.001, 0);
    GR_CHECK_EQ(o->valid_batch, 32);
    GR_CHECK(o->pin_memory && o->drop_last && o->save_best && o->save_last);
    GR_CHECK_EQ(o->save_epochs, 10);
    GR_CHECK(!o->resume && !o->pretrained);
    GR_CHECK_EQ(gr_settings_int_at(o->settings, "model.config.input_sizes", 2), 224);
    GR_CHECK_EQ(o->log_level, 3);
}

/* Guide 004's file, and the keys of its project. */
static void test_guide_004(void)
{
    static const char text[] =
        "data:\n"
        "  batch_size: 8  # per GPU\n"
        "  num_workers: 4\n"
        "training:\n"
        "  num_epochs: 50\n"
        "  learning_rate: 1e-4\n"
        "  weight_decay: .01\n"
        "  warmup_steps: 1000\n"
        "  gradient_accumulation_steps: 2\n"
        "  log_interval: 100\n"
        "  val_interval: 1000\n"
        "  save_interval: 5000\n"
        "model:\n"
        "  freeze_vggt: true\n"
        "  freeze_lang_encoder: true\n"
        "checkpoint:\n"
        "  save_dir: checkpoints\n"
        "  resume_from: null\n"
        "wandb: {enabled: true, project: atlas, entity: me, name: a, tags: [x, y],\n"
        "        notes: \"\"}\n"
        "device: cuda\n";

    GR_CHECK_OK(config_parse_file(text, ""));
    GR_CHECK_EQ(o->batch_size, 8);
    GR_CHECK_EQ(o->epochs, 50);
    GR_CHECK_NEAR(o->lr, 1e-4, 0);
    GR_CHECK_NEAR(o->weight_decay, 0.01, 0);
    GR_CHECK_EQ(o->warmup_steps, 1000);
    GR_CHECK_EQ(o->accumulate, 2);
    GR_CHECK_EQ(o->log_every, 100);
    GR_CHECK(o->val_interval.n == 1000 && !o->val_interval.epochs);
    GR_CHECK_EQ(o->save_every, 5000); /* there it counts steps */
    GR_CHECK_STR(o->output_dir, "checkpoints");
    GR_CHECK_STR(o->wandb_tags, "x,y");
    GR_CHECK(o->use_wandb && !o->wandb_notes);
}

/* Names of the five projects for what the trainer does; all lead somewhere. */
static void test_every_name(void)
{
    /* clang-format off */
    static const char *const names[] = {
        /* 1 */ "workers", "batchsize", "epochs", "chk_interval", "val_epoch", "lr",
        "warmup_epoch", "wdecay", "momentum", "distributed", "local_rank", "device", "logdir",
        "world_size", "dist_url", "master_port", "model_path",
        /* 2 */ "batch_size", "learning_rate", "weight_decay", "save_dir", "save_every",
        "plot_every", "visualize", "no_visualize", "ddp", "master_addr", "warmup_epochs",
        "max_train_samples", "max_val_samples", "resume", "early_stopping_patience",
        "early_stopping_min_delta", "debug_mode", "gpu_ids",
        /* 3 */ "use_amp", "gradient_accumulation_steps", "max_grad_norm", "output_dir",
        "save_interval", "log_interval", "use_wandb", "wandb_project", "wandb_name",
        "wandb_entity",
        /* 4 */ "task", "run_id", "seed", "model.pretrained", "model.continue_checkpoint",
        "model.continue_ext_checkpoint", "train.epoch", "train.batch_size",
        "train.grad_accumulation_steps", "train.optimizer.name", "train.optimizer.type",
        "train.optimizer.learning_rate", "train.optimizer.weight_decay", "train.optimizer.eps",
        "train.early_stopping.patience", "train.early_stopping.min_delta", "valid.batch_size",
        "test.batch_size", "dataloader.num_workers", "dataloader.shuffle",
        "dataloader.pin_memory", "dataloader.drop_last", "ddp.enabled", "ddp.log_level",
        "output.save_best", "output.save_last", "output.save_interval", "entity",
        "train.save_period", "train.save_recovery_period", "train.best_by",
        "train.metric_direction", "train.lr_scheduler.type", "train.lr_scheduler.warmup",
        "train.lr_scheduler.warmup_lr", "train.lr_scheduler.update_policy",
        "train.scaler.compute_type", "predict.input", "private.wandb", "private.mode",
        "private.log", "-c", "config", "train", "test", "predict", "check", "epoch", "-lr", "-b",
        "save_period", "grad_accumulation_steps", "amp", "lr_scheduler", "warmup", "warmup_lr",
        "early_stopping", "patience", "best_by", "metric_direction", "num_workers", "input",
        "continue_id", "continue_from", "continue_checkpoint", "pretrained", "wandb", "monitor",
        "web_monitor", "main_metric",
        /* 5 */ "data.batch_size", "data.num_workers", "training.num_epochs",
        "training.learning_rate", "training.weight_decay", "training.warmup_steps",
        "training.gradient_accumulation_steps", "training.log_interval", "training.val_interval",
        "training.save_interval", "checkpoint.save_dir", "checkpoint.resume_from",
        "logging.save_to_file", "logging.log_file", "logging.log_dir", "logging.console_output",
        "wandb.enabled", "wandb.project", "wandb.entity", "wandb.name", "wandb.tags",
        "wandb.notes", "wandb.save_code", "wandb.resume",
    };
    /* clang-format on */

    GR_CHECK_OK(config_parse(""));
    for (int i = 0; i < N(names); i++) {
        const gr_way *way = gr_settings_way(o->settings, names[i], strlen(names[i]));
        bool known = way != NULL;

        for (const gr_gone *g = gr_trainer_names.gone; g->name; g++)
            known = known || strcmp(g->name, names[i]) == 0;
        if (!known)
            fprintf(stderr, "nobody knows '%s'\n", names[i]);
        GR_CHECK(known);
    }
    GR_CHECK_FAILS(config_parse("--web_monitor"), GR_ERR_ARG,
                   "flag '--web_monitor': is not there: run tensorboard");
    GR_CHECK_FAILS(config_parse_file("train: {lr_scheduler: {warmup_lr: 1}}\n", ""), GR_ERR_ARG,
                   "test_config.yaml:1: 'train.lr_scheduler.warmup_lr': cannot be set");
}

/* Other spellings and meanings. */
static void test_meanings(void)
{
    GR_CHECK_OK(config_parse("-b 4 -lr 2e-3 --epoch 2 --amp float16 --early_stopping --wandb"));
    GR_CHECK_EQ(o->batch_size, 4);
    GR_CHECK_NEAR(o->lr, 2e-3, 0);
    GR_CHECK_EQ(o->amp, GR_AMP_F16);
    GR_CHECK_EQ(o->patience, 10);
    GR_CHECK(o->use_wandb);
    GR_CHECK_OK(config_parse("--amp f16"));
    GR_CHECK_EQ(o->amp, GR_AMP_F16);
    GR_CHECK_OK(config_parse(
        "--amp BFloat16 --early-stopping 4 --no_visualize --debug_mode --no_decay_norms"));
    GR_CHECK_EQ(o->amp, GR_AMP_BF16);
    GR_CHECK_EQ(o->patience, 4);
    GR_CHECK(!o->plots && !o->decay_all);
    GR_CHECK_EQ(o->log_level, 4);
    GR_CHECK_OK(
        config_parse("--val_interval 2~epochs --memory_limit 20GiB --bucket 1M --freeze a.*,b.*"));
    GR_CHECK(o->val_interval.n == 2 && o->val_interval.epochs);
    GR_CHECK_EQ(o->memory_limit, (int64_t)20 << 30);
    GR_CHECK_EQ(o->bucket_bytes, 1 << 20);
    GR_CHECK_STR(o->freeze, "a.*,b.*");
    GR_CHECK_OK(config_parse(
        "--lr_milestones [30,60] --no_decay *.bias,*.norm --betas 0.8,0.95 --val_interval 7"));
    GR_CHECK_STR(o->lr_milestones, "30,60");
    GR_CHECK_STR(o->no_decay, "*.bias|*.norm");
    GR_CHECK_NEAR(o->beta2, 0.95, 0);
    GR_CHECK(o->val_interval.n == 7 && !o->val_interval.epochs);
    GR_CHECK_OK(
        config_parse("--lr_scheduler CosineAnnealingWarmRestarts --best_by main_metric --test"));
    GR_CHECK_EQ(o->schedule, GR_SCHEDULE_RESTARTS);
    GR_CHECK(!o->best_by);
    GR_CHECK_EQ(o->task, GR_RUN_TEST);
    GR_CHECK_OK(config_parse("--resume"));
    GR_CHECK_STR(o->resume, "auto");
    GR_CHECK_OK(config_parse("--resume --epochs 9 --train.batch-size 5"));
    GR_CHECK_STR(o->resume, "auto");
    GR_CHECK_EQ(o->batch_size, 5);
    GR_CHECK_OK(config_parse("--resume=false"));
    GR_CHECK(!o->resume);
    GR_CHECK_OK(config_parse_file("optimizer: {type: Adam, lr: 3}\nscheduler: {T_0: 4}\nddp: true\n"
                                  "wandb: false\nresume: true\nearly_stopping: {enabled: true}\n",
                                  ""));
    GR_CHECK_EQ(o->optimizer, GR_OPTIM_ADAM);
    GR_CHECK_EQ(o->lr_period, 4);
    GR_CHECK_EQ(o->patience, 10);
    GR_CHECK_STR(o->resume, "auto");
}

/* A value where a group stands, and the name of a group as a flag. */
static void test_groups(void)
{
    static const char *const groups[] = { "train: false",   "train: true",      "test: no",
                                          "train: [1, 2]",  "checkpoint: true", "dataloader: 4",
                                          "logging: debug", "training: off" };

    for (int i = 0; i < N(groups); i++) {
        char text[64];

        snprintf(text, sizeof(text), "seed: 1\n%s\n", groups[i]);
        GR_CHECK_FAILS(config_parse_file(text, ""), GR_ERR_ARG, "test_config.yaml:2: '");
        GR_CHECK(strstr(gr_error_message(), "is a group of settings; write them below it"));
    }
    GR_CHECK_OK(config_parse_file("checkpoint: some/run\ndistributed: true\nearly_stopping: true\n"
                                  "ddp:\ntrain:\n",
                                  ""));
    GR_CHECK_STR(o->checkpoint, "some/run");
    GR_CHECK_EQ(o->patience, 10);
    GR_CHECK_FAILS(config_parse("--dataloader 4"), GR_ERR_ARG,
                   "flag '--dataloader' is a group of settings; give one of them: "
                   "--dataloader.num_workers, --dataloader.");
}

int main(void)
{
    test_groups();
    test_table();
    test_guide_commands();
    test_guide_003();
    test_guide_004();
    test_every_name();
    test_meanings();
    gr_train_options_fini(o);
    unlink("test_config.yaml");
    return 0;
}

/*
 * The trainer's settings: the table holds together, every name of the five guides is
 * understood, strong origins win over weak ones, and records read back as they were.
 */
#include "train/config/table.h"

#include "base/alloc.h"
#include "check.h"
#include "gradus/schedule.h"
#include "train/config/process.h"
#include "train/config/request.h"

#include <unistd.h>

#define N(a)     ((int)(sizeof(a) / sizeof(a[0])))
#define MAX_WORD 40

/* What the five projects have that a recipe would know. */
static const gr_key keys[] = {
    { .name = "model.name", .kind = GR_KEY_TEXT, .also = "model|model_type" },
    { .name = "model.config.input_sizes", .kind = GR_KEY_INTS },
    { .name = "model.config.num_classes", .kind = GR_KEY_INT, .also = "numclasses" },
    { .name = "model.layers", .kind = GR_KEY_INT, .also = "layers" },
    { .name = "model.hidden_dim", .kind = GR_KEY_INT, .also = "hidden_dim" },
    { .name = "model.num_encoder_layers", .kind = GR_KEY_INT, .also = "num_encoder_layers" },
    { .name = "model.num_decoder_layers", .kind = GR_KEY_INT, .also = "num_decoder_layers" },
    { .name = "model.mask_ratio", .kind = GR_KEY_F64, .also = "mask_ratio" },
    { .name = "model.freeze_vggt", .kind = GR_KEY_BOOL },
    { .name = "model.freeze_lang_encoder", .kind = GR_KEY_BOOL },
    { .name = "data.img_size", .kind = GR_KEY_INT, .also = "img_size" },
    { .name = "dataset.name", .kind = GR_KEY_TEXT },
    { .name = "dataset.train_path", .kind = GR_KEY_TEXT, .also = "data_path|pdb_path" },
    { .name = "dataset.valid_path", .kind = GR_KEY_TEXT },
    { .name = "dataset.test_path", .kind = GR_KEY_TEXT },
    { .name = "data.cache_dir", .kind = GR_KEY_TEXT, .also = "cache_dir" },
    { .name = "transform", .kind = GR_KEY_TREE },
    { .name = "dataset.ignore_index", .kind = GR_KEY_INT, .preset = "255" },
};

static const gr_recipe recipe = {
    .abi = GR_RECIPE_ABI,
    .name = "guides",
    .defaults = { .epochs = 3, .batch_size = 16, .lr = 0.1, .optim = GR_OPTIM_ADAMW_INIT },
    .keys = keys,
    .n_keys = N(keys),
};
static const gr_recipe *const recipes[] = { &recipe, NULL };

static gr_train_options o; /* the one under test; each parse ends the one before */

/* Words separated by single spaces; '~' stands for a space inside of one. */
static int split(const char *line, char *argv[MAX_WORD])
{
    static char text[2000];
    char *rest = text, *word;
    int n = 0;

    GR_CHECK(strlen(line) < sizeof(text));
    snprintf(text, sizeof(text), "%s", line);
    while ((word = strsep(&rest, " ")) && n < MAX_WORD)
        if (*word) {
            for (char *c = word; *c; c++)
                *c = *c == '~' ? ' ' : *c;
            argv[n++] = word;
        }
    return n;
}

static gr_status parse(const char *line)
{
    char *argv[MAX_WORD];
    int argc = split(line, argv);

    gr_train_options_fini(&o);
    GR_CHECK_OK(gr_train_options_init(&o, &recipe));
    return gr_train_options_parse(&o, argc, argv);
}

static const char *write_file(const char *text)
{
    static const char path[] = "test_config.yaml";
    FILE *f = fopen(path, "w");

    GR_CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
    return path;
}

/* A file and words beside it. */
static gr_status parse_file(const char *text, const char *line)
{
    char words[2000];

    snprintf(words, sizeof(words), "--config %s %s", write_file(text), line);
    return parse(words);
}

/* ---- the table ---- */

static bool is_key(const char *name)
{
    return name[0] >= 'a' && name[0] <= 'z' &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.")] == '\0' &&
           !strstr(name, "..");
}

static void test_table(void)
{
    GR_CHECK_OK(parse(""));
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
        if (r->use & GR_USE_BELOW)
            GR_CHECK(r->env && r->key.preset);
    }
    for (const gr_alias *a = gr_trainer_names.aliases; a->name; a++) {
        GR_CHECK(gr_row_find(a->key));
        GR_CHECK(gr_settings_way(o.settings, a->name, strlen(a->name)));
        for (const gr_alias *b = gr_trainer_names.aliases; b < a; b++)
            GR_CHECK(strcmp(a->name, b->name) != 0);
    }
    for (const gr_gone *g = gr_trainer_names.gone; g->name; g++)
        GR_CHECK(!gr_settings_way(o.settings, g->name, strlen(g->name)));
    for (const gr_prefix *p = gr_trainer_names.prefixes; p->name; p++)
        GR_CHECK(p->name[strlen(p->name) - 1] == '.' && p->means[strlen(p->means) - 1] == '.');
}

/* ---- guides ---- */

/* The flags of every command line in the guides, without the launcher's. */
static void test_guide_commands(void)
{
    GR_CHECK_OK(parse("--distributed --layers 50 --model_type res50_ASPP_lorm --batchsize 8 "
                      "--workers 4 --lr 1e-3 --world_size 1 --local_rank 0 --dist_url env://"));
    GR_CHECK(o.ddp && o.ddp_given);
    GR_CHECK_EQ(o.batch_size, 8);
    GR_CHECK_EQ(o.num_workers, 4);
    GR_CHECK_NEAR(o.lr, 1e-3, 0);
    GR_CHECK_EQ(gr_settings_int(o.settings, "model.layers"), 50);
    GR_CHECK_STR(gr_settings_text(o.settings, "model.name"), "res50_ASPP_lorm");
    GR_CHECK_OK(parse("--distributed --local_rank=0 --logdir=./log --master_port 12356"));
    GR_CHECK_STR(o.output_dir, "./log");
    GR_CHECK_EQ(o.master_port, 12356);

    GR_CHECK_OK(
        parse("--ddp --pdb_path data/cache --cache_dir data/cache --epochs 50 --batch_size 8 "
              "--learning_rate 1e-4 --hidden_dim 256 --num_encoder_layers 3 "
              "--num_decoder_layers 3 --mask_ratio 0.15 --save_dir checkpoints"));
    GR_CHECK_EQ(o.epochs, 50);
    GR_CHECK_NEAR(o.lr, 1e-4, 0);
    GR_CHECK_STR(o.output_dir, "checkpoints");

    GR_CHECK_OK(
        parse("--data_path ./data/train --model JiT-B/4 --img_size 64 --batch_size 64 --epochs "
              "100 --lr 1e-4 --use_amp --use_wandb --wandb_project jit-diffusion --wandb_name "
              "jit-v1-2gpu --gradient_accumulation_steps 1 --num_workers 8"));
    GR_CHECK_EQ(o.amp, GR_AMP_AUTO);
    GR_CHECK(o.use_wandb);
    GR_CHECK_STR(o.wandb_project, "jit-diffusion");
    GR_CHECK_STR(o.wandb_name, "jit-v1-2gpu");

    GR_CHECK_OK(parse_file("ddp: {enabled: true, log_level: \"INFO\"}\n", "--task predict"));
    GR_CHECK_EQ(o.task, GR_RUN_PREDICT);
    GR_CHECK_EQ(o.log_level, 3);
    GR_CHECK_OK(parse("--resume checkpoints/checkpoint_epoch_10.pt"));
    GR_CHECK_STR(o.resume, "checkpoints/checkpoint_epoch_10.pt");
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

    GR_CHECK_OK(parse_file(text, "--task test"));
    GR_CHECK_EQ(o.task, GR_RUN_TEST);
    GR_CHECK_STR(o.run_id, "ddp_example");
    GR_CHECK_EQ(o.seed, 42);
    GR_CHECK_STR(o.device, "cuda");
    GR_CHECK_EQ(o.epochs, 100);
    GR_CHECK_EQ(o.optimizer, GR_OPTIM_ADAMW);
    GR_CHECK_NEAR(o.lr, 0.001, 0);
    GR_CHECK_NEAR(o.weight_decay, 0.01, 0);
    GR_CHECK_EQ(o.patience, 10);
    GR_CHECK_NEAR(o.min_delta, 0.001, 0);
    GR_CHECK_EQ(o.valid_batch, 32);
    GR_CHECK(o.pin_memory && o.drop_last && o.save_best && o.save_last);
    GR_CHECK_EQ(o.save_epochs, 10);
    GR_CHECK(!o.resume && !o.pretrained);
    GR_CHECK_EQ(gr_settings_int_at(o.settings, "model.config.input_sizes", 2), 224);
    GR_CHECK_EQ(o.log_level, 3);
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

    GR_CHECK_OK(parse_file(text, ""));
    GR_CHECK_EQ(o.batch_size, 8);
    GR_CHECK_EQ(o.epochs, 50);
    GR_CHECK_NEAR(o.lr, 1e-4, 0);
    GR_CHECK_NEAR(o.weight_decay, 0.01, 0);
    GR_CHECK_EQ(o.warmup_steps, 1000);
    GR_CHECK_EQ(o.accumulate, 2);
    GR_CHECK_EQ(o.log_every, 100);
    GR_CHECK(o.val_interval.n == 1000 && !o.val_interval.epochs);
    GR_CHECK_EQ(o.save_every, 5000); /* there it counts steps */
    GR_CHECK_STR(o.output_dir, "checkpoints");
    GR_CHECK_STR(o.wandb_tags, "x,y");
    GR_CHECK(o.use_wandb && !o.wandb_notes);
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

    GR_CHECK_OK(parse(""));
    for (int i = 0; i < N(names); i++) {
        const gr_way *way = gr_settings_way(o.settings, names[i], strlen(names[i]));
        bool known = way != NULL;

        for (const gr_gone *g = gr_trainer_names.gone; g->name; g++)
            known = known || strcmp(g->name, names[i]) == 0;
        if (!known)
            fprintf(stderr, "nobody knows '%s'\n", names[i]);
        GR_CHECK(known);
    }
    GR_CHECK_FAILS(parse("--web_monitor"), GR_ERR_ARG,
                   "flag '--web_monitor': is not there: run tensorboard");
    GR_CHECK_FAILS(parse_file("train: {lr_scheduler: {warmup_lr: 1}}\n", ""), GR_ERR_ARG,
                   "test_config.yaml:1: 'train.lr_scheduler.warmup_lr': cannot be set");
}

/* Other spellings and meanings. */
static void test_meanings(void)
{
    GR_CHECK_OK(parse("-b 4 -lr 2e-3 --epoch 2 --amp float16 --early_stopping --wandb"));
    GR_CHECK_EQ(o.batch_size, 4);
    GR_CHECK_NEAR(o.lr, 2e-3, 0);
    GR_CHECK_EQ(o.amp, GR_AMP_F16);
    GR_CHECK_EQ(o.patience, 10);
    GR_CHECK(o.use_wandb);
    GR_CHECK_OK(
        parse("--amp BFloat16 --early-stopping 4 --no_visualize --debug_mode --no_decay_norms"));
    GR_CHECK_EQ(o.amp, GR_AMP_BF16);
    GR_CHECK_EQ(o.patience, 4);
    GR_CHECK(!o.plots && !o.decay_all);
    GR_CHECK_EQ(o.log_level, 4);
    GR_CHECK_OK(parse("--val_interval 2~epochs --memory_limit 20GiB --bucket 1M --freeze a.*,b.*"));
    GR_CHECK(o.val_interval.n == 2 && o.val_interval.epochs);
    GR_CHECK_EQ(o.memory_limit, (int64_t)20 << 30);
    GR_CHECK_EQ(o.bucket_bytes, 1 << 20);
    GR_CHECK_STR(o.freeze, "a.*,b.*");
    GR_CHECK_OK(parse(
        "--lr_milestones [30,60] --no_decay *.bias,*.norm --betas 0.8,0.95 --val_interval 7"));
    GR_CHECK_STR(o.lr_milestones, "30,60");
    GR_CHECK_STR(o.no_decay, "*.bias|*.norm");
    GR_CHECK_NEAR(o.beta2, 0.95, 0);
    GR_CHECK(o.val_interval.n == 7 && !o.val_interval.epochs);
    GR_CHECK_OK(parse("--lr_scheduler CosineAnnealingWarmRestarts --best_by main_metric --test"));
    GR_CHECK_EQ(o.schedule, GR_SCHEDULE_RESTARTS);
    GR_CHECK(!o.best_by);
    GR_CHECK_EQ(o.task, GR_RUN_TEST);
    GR_CHECK_OK(parse("--resume"));
    GR_CHECK_STR(o.resume, "auto");
    GR_CHECK_OK(parse("--resume --epochs 9 --train.batch-size 5"));
    GR_CHECK_STR(o.resume, "auto");
    GR_CHECK_EQ(o.batch_size, 5);
    GR_CHECK_OK(parse("--resume=false"));
    GR_CHECK(!o.resume);
    GR_CHECK_OK(parse_file("optimizer: {type: Adam, lr: 3}\nscheduler: {T_0: 4}\nddp: true\n"
                           "wandb: false\nresume: true\nearly_stopping: {enabled: true}\n",
                           ""));
    GR_CHECK_EQ(o.optimizer, GR_OPTIM_ADAM);
    GR_CHECK_EQ(o.lr_period, 4);
    GR_CHECK_EQ(o.patience, 10);
    GR_CHECK_STR(o.resume, "auto");
}

/* ---- origins ---- */

static void check_origin(const char *name, const char *want)
{
    gr_text t = GR_TEXT_INIT;

    gr_train_options_origin(&o, name, &t);
    GR_CHECK_STR(gr_text_str(&t), want);
    gr_text_fini(&t);
}

static void test_precedence(void)
{
    setenv("WANDB_PROJECT", "env", 1);
    setenv("GR_TIMEOUT", "7.5", 1);
    GR_CHECK_OK(parse_file("wandb: {project: file, entity: file}\nepochs: 6\nddp: {timeout: 9}\n",
                           "--epochs 7 --wandb_mode online"));
    GR_CHECK_STR(o.wandb_project, "env");
    GR_CHECK_STR(o.wandb_entity, "file");
    GR_CHECK_EQ(o.epochs, 7);
    GR_CHECK_EQ(o.batch_size, 16);
    GR_CHECK_EQ(o.timeout_s, 0); /* the group reads GR_TIMEOUT itself */
    GR_CHECK_EQ(o.wandb_mode, GR_WANDB_ONLINE);
    check_origin("wandb_project", "environment variable WANDB_PROJECT");
    check_origin("wandb.entity", "test_config.yaml:1");
    check_origin("epochs", "flag '--epochs'");
    check_origin("lr", "the recipe's default");
    check_origin("keep", "default");
    GR_CHECK_OK(parse("--wandb-project flag --timeout 3"));
    GR_CHECK_STR(o.wandb_project, "flag");
    GR_CHECK_EQ(o.timeout_s, 3);
    unsetenv("WANDB_PROJECT");
    setenv("WANDB_MODE", "sideways", 1);
    GR_CHECK_FAILS(
        parse(""), GR_ERR_ARG,
        "environment variable 'WANDB_MODE': 'sideways' is none of auto|offline|online|disabled");
    unsetenv("WANDB_MODE");
    unsetenv("GR_TIMEOUT");
    /* A value that loses is checked all the same. */
    GR_CHECK_FAILS(parse_file("epochs: many\n", "--epochs 7"), GR_ERR_ARG,
                   "test_config.yaml:1: 'epochs': 'many' is no whole number");
}

/* Guards P16, P17, P19: every message says where, what and what to do. */
static void test_wrong(void)
{
    static const struct {
        const char *text, *words, *part;
    } cases[] = {
        { "", "--lr fast", "flag '--lr': 'fast' is no number" },
        { "", "--epochs 0", "flag '--epochs': '0' is less than 1" },
        { "", "--zero 3", "flag '--zero': '3' is not between 0 and 2" },
        { "", "--val_interval weekly",
          "'weekly' is no interval; write steps, '100 steps' or '2 epochs'" },
        { "", "--memory_limit lots", "'lots' is no size" },
        { "", "--betas 0.9", "flag '--betas': has 1 numbers and needs two" },
        { "", "--betas 0.9,0.99 --beta1 0.8", "flag '--betas': stands beside beta1 or beta2" },
        { "", "--warmup_steps 5 --warmup_epochs 1",
          "'--warmup_epochs': stands beside warmup_steps" },
        { "", "--pretrained_map a.b", "'a.b' has no '=': write old prefix=new prefix" },
        { "", "--wandb_api_key=sekrit", "flag '--wandb_api_key': is a secret" },
        { "", "--hf_token sekrit", "set HF_TOKEN in the environment" },
        { "", "--optimizer lion", "flag '--optimizer': 'lion' is none of sgd|adamw|adam" },
        { "", "--beta1 1", "beta1 is 1, must be at least 0 and less than 1" },
        { "", "--eval_every 2", "flag '--eval_every': is called val_interval now" },
        { "", "--nnodes 2", "flag '--nnodes': is the launcher's" },
        { "", "--epoch", "flag '--epoch' needs a value" },
        { "train:\n  lr: 1e-3\n  learning_rate: 2e-3\n", "",
          "test_config.yaml:3: 'train.learning_rate' is the setting that line 2 gave as "
          "'train.lr'" },
        { "training:\n  bach_size: 3\n", "",
          "test_config.yaml:2: unknown key 'training.bach_size'; did you mean "
          "'train.batch_size'?" },
        { "train:\n  optimzer: {name: sgd}\n", "",
          "test_config.yaml:2: unknown key 'train.optimzer'; did you mean 'train.optimizer'?" },
        { "ddp:\n  enabled: maybe\n", "", "test_config.yaml:2: 'ddp.enabled': 'maybe' is neither" },
        { "wandb:\n  api_key: sekrit\n", "",
          "test_config.yaml:2: 'wandb.api_key': is a secret, and files and command lines are read "
          "by "
          "others; take it out and set WANDB_API_KEY in the environment instead" },
        { "huggingface:\n  token: sekrit\n", "",
          "test_config.yaml:2: 'huggingface.token': is a secret" },
        { "train: 5\n", "", "test_config.yaml:1: 'train': '5' is neither 'true' nor 'false'" },
        { "output_dir: \"\"\n", "", "test_config.yaml:1: 'output_dir': is empty" },
    };

    for (int i = 0; i < N(cases); i++) {
        GR_CHECK_FAILS(parse_file(cases[i].text, cases[i].words), GR_ERR_ARG, cases[i].part);
        GR_CHECK(!strstr(gr_error_message(), "sekrit"));
    }
    GR_CHECK_FAILS(parse("--config no/where.yaml"), GR_ERR_ARG,
                   "cannot open the configuration 'no/where.yaml'");
}

/* ---- records ---- */

static void take_record(gr_record what, gr_text *t)
{
    t->len = 0;
    gr_train_options_record(&o, what, t);
    GR_CHECK_OK(gr_text_status(t));
}

/* What is written reads back as itself, as a file and as a checkpoint's text. */
static void test_round_trip(void)
{
    gr_text first = GR_TEXT_INIT, again = GR_TEXT_INIT;

    GR_CHECK_OK(
        parse("--lr 0.30000000000000004 --freeze a.*,b~c --val_interval 3~epochs --memory_limit "
              "3GiB --lr_milestones 1,2 --transform [flip,~{crop:~[1,~\"a:b\"]}] --run_id a\"b "
              "--model.name x --model.config.input_sizes 1,2 --wandb_tags a --comm tcp "
              "--warmup_epochs 2.5"));
    take_record(GR_RECORD_YAML, &first);
    GR_CHECK(strstr(first.str, "recipe: \"guides\"\n"));
    GR_CHECK(strstr(first.str, "\n  interval: 3 epochs\n"));
    GR_CHECK(strstr(first.str, "\ntransform: [flip, {\"crop\": [1, \"a:b\"]}]\n"));
    GR_CHECK(strstr(first.str, "\nmodel:\n  name: \"x\"\n  config:\n    input_sizes: [1, 2]\n"));
    GR_CHECK(strstr(first.str, "\ndataset:\n  # ignore_index: 255\n"));
    GR_CHECK(strstr(first.str, "\n    warmup_epochs: 2.5\n") && !strstr(first.str, "warmup_steps"));
    GR_CHECK_OK(parse_file(first.str, ""));
    GR_CHECK(!gr_settings_given(o.settings, "dataset.ignore_index")); /* as it was */
    GR_CHECK_EQ(gr_settings_int(o.settings, "dataset.ignore_index"), 255);
    take_record(GR_RECORD_YAML, &again);
    GR_CHECK_STR(first.str, again.str);

    take_record(GR_RECORD_SAVE, &first);
    GR_CHECK(strstr(first.str, "\nfreeze = [\"a.*\", \"b c\"]\n"));
    GR_CHECK(strstr(first.str, "\nmodel.config.input_sizes = [1, 2]\n"));
    GR_CHECK_OK(gr_train_options_resume(&o, &recipe, first.str, true, 0, NULL));
    take_record(GR_RECORD_SAVE, &again);
    GR_CHECK_STR(first.str, again.str);
    GR_CHECK_STR(o.freeze, "a.*,b c");
    GR_CHECK(!gr_settings_given(o.settings, "dataset.ignore_index"));

    take_record(GR_RECORD_COMPARE, &first);
    GR_CHECK(strstr(first.str, "recipe = guides\n") && !strstr(first.str, "num_workers"));
    gr_text_fini(&first);
    gr_text_fini(&again);
}

static void test_resume(void)
{
    char *argv[MAX_WORD];
    int argc;

    GR_CHECK_OK(parse("--lr 1"));
    argc = split("--config test_config.yaml --keep 5", argv);
    write_file("epochs: 8\nlr: 0.25\n");
    GR_CHECK_OK(gr_train_options_resume(
        &o, &recipe, "lr = 0.5\nepochs = 4\nseed = 3\nold_one = 7\n", true, argc, argv));
    GR_CHECK_NEAR(o.lr, 0.25, 0); /* the file is stronger than the checkpoint */
    GR_CHECK_EQ(o.epochs, 8);
    GR_CHECK_EQ(o.seed, 3);
    check_origin("seed", "the checkpoint");
    write_file("seed: 4\n");
    GR_CHECK_FAILS(gr_train_options_resume(&o, &recipe, "seed = 3\n", true, argc, argv), GR_ERR_ARG,
                   "'--seed' was 3 when the run began and is 4 now");
    GR_CHECK_EQ(o.seed, 3); /* as it was */
    GR_CHECK_OK(gr_train_options_resume(&o, &recipe, "seed = 3\n", false, argc, argv));
    GR_CHECK_EQ(o.seed, 4); /* a test or prediction may have its own */
    GR_CHECK_FAILS(gr_train_options_resume(&o, &recipe, "seed = x\n", true, 0, NULL), GR_ERR_ARG,
                   "the checkpoint's setting 'seed': 'x' is no whole number");
}

/* ---- the first look ---- */

static gr_status look(gr_request *r, const char *line, const gr_recipe **out)
{
    static char *argv[MAX_WORD];
    static gr_command c = { .program = "gradus", .recipes = recipes };
    gr_status st;

    c.argc = split(line, argv);
    c.argv = argv;
    *out = NULL;
    st = gr_request_read(r, &c);
    return st == GR_OK ? gr_request_recipe(r, &c, out) : st;
}

static void check_look(const char *line, const char *word, int argc)
{
    const gr_recipe *found;
    gr_request r;

    GR_CHECK_OK(look(&r, line, &found));
    GR_CHECK_STR(r.word, word);
    GR_CHECK_EQ(r.argc, argc);
    gr_request_fini(&r);
}

static void refuse_look(const char *line, const char *part)
{
    const gr_recipe *found;
    gr_request r;

    GR_CHECK_FAILS(look(&r, line, &found), GR_ERR_ARG, part);
    gr_request_fini(&r);
}

static void test_look(void)
{
    write_file("recipe: guides\ntask: test\nnot_known: {yet: 1}\nddp: {nproc: 3}\n");
    check_look("guides", "guides", 0);
    check_look("guides --epochs 1", "guides", 2);
    check_look("--epochs 1 guides", "guides", 2);
    check_look("--epochs 1 --use_amp guides --lr=1", "guides", 4);
    check_look("--model.name guides guides", "guides", 2); /* the second: the first is a value */
    check_look("--model.name x guides", "guides", 2);
    check_look("--model.name guides", "guides", 1);
    check_look("--resume guides", "guides", 1);
    check_look("--config test_config.yaml", "guides", 2);
    check_look("--recipe guides", "guides", 2);
    refuse_look("guide", "there is no recipe 'guide'; did you mean 'guides'?");
    refuse_look("", "say what to train");
    refuse_look("guides more", "unexpected word 'more'");
    refuse_look("guides --recipe other", "flag '--recipe': 'other', but the word 'guides'");
    refuse_look("--epochs x guides", "flag '--epochs': 'x' is no whole number");
}

/* ---- ranks ---- */

static void clear_env(void)
{
    static const char *const names[] = {
        "RANK",        "WORLD_SIZE",     "LOCAL_RANK",      "MASTER_ADDR",
        "MASTER_PORT", "GR_INIT_METHOD", "LOCAL_WORLD_SIZE"
    };

    for (int i = 0; i < N(names); i++)
        unsetenv(names[i]);
}

static gr_status process(const char *line)
{
    GR_CHECK_OK(parse(line));
    return gr_train_options_process(&o);
}

static void test_process(void)
{
    clear_env();
    GR_CHECK_OK(process("--distributed")); /* a group of one */
    GR_CHECK(!getenv("RANK"));
    GR_CHECK_OK(process("--ddp --local_rank=0 --world_size 1 --dist_url env://"));
    GR_CHECK_OK(process("--local_rank -1 --world_size -1"));
    GR_CHECK_FAILS(process("--world_size 4"), GR_ERR_ARG,
                   "flag '--world_size': 4 ranks, but neither RANK nor --rank says which one this "
                   "is; start all of them with gradrun --nproc_per_node 4 gradus train");
    GR_CHECK_FAILS(process("--rank 1"), GR_ERR_ARG, "neither WORLD_SIZE nor --world_size");
    GR_CHECK_FAILS(process("--local_rank 2"), GR_ERR_ARG, "RANK and WORLD_SIZE are not set");
    GR_CHECK_OK(
        process("--world_size 4 --rank 2 --local_rank 0 --master_addr h --master_port 1234"));
    GR_CHECK_STR(getenv("RANK"), "2");
    GR_CHECK_STR(getenv("WORLD_SIZE"), "4");
    GR_CHECK_STR(getenv("MASTER_ADDR"), "h");
    GR_CHECK_STR(getenv("MASTER_PORT"), "1234");

    clear_env(); /* flags over the launcher's variables */
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("LOCAL_RANK", "1", 1);
    GR_CHECK_OK(process("--distributed"));
    GR_CHECK_OK(process("--world_size 8 --dist_url tcp://a:1"));
    GR_CHECK_STR(getenv("WORLD_SIZE"), "8");
    GR_CHECK_STR(getenv("RANK"), "1");
    GR_CHECK_STR(getenv("GR_INIT_METHOD"), "tcp://a:1");
    unsetenv("GR_INIT_METHOD");
    GR_CHECK_FAILS(process("--ddp=false"), GR_ERR_ARG,
                   "flag '--ddp': false, but this is rank 1 of 8");
    setenv("LOCAL_WORLD_SIZE", "8", 1);
    GR_CHECK_FAILS(process("--gpus 4"), GR_ERR_ARG,
                   "flag '--gpus': 4 ranks, but the launcher has started 8 on this host");
    GR_CHECK_OK(process("--gpus 8"));

    clear_env(); /* half of what is needed, from a launcher */
    setenv("WORLD_SIZE", "2", 1);
    GR_CHECK_FAILS(process("--distributed"), GR_ERR_ARG, "RANK");
    GR_CHECK_OK(process("--rank 1 --master_addr x --master_port 2"));
    clear_env();
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
    GR_CHECK_OK(process("--local_rank 0"));
    GR_CHECK_STR(getenv("WORLD_SIZE"), "3");
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    clear_env();
}

/* ---- help ---- */

static void test_help(void)
{
    gr_text t = GR_TEXT_INIT;

    GR_CHECK_OK(parse("--lr 0.5"));
    gr_train_options_help(&o, &t);
    GR_CHECK(strstr(t.str, "  --lr X ") && strstr(t.str, "before lr_scaling [0.5]\n"));
    GR_CHECK(strstr(t.str, "\ntrain.optimizer:\n"));
    GR_CHECK(strstr(t.str, "\nthe recipe's own:\n  --model.name VALUE"));
    for (int i = 0; i < gr_n_rows; i++)
        GR_CHECK(strstr(t.str, gr_rows[i].flag));
    t.len = 0;
    gr_train_options_keys(&o, &t);
    for (const gr_alias *a = gr_trainer_names.aliases; a->name; a++)
        GR_CHECK(strstr(t.str, a->name));
    GR_CHECK(strstr(t.str, "\nuse_amp                                  train.amp = auto\n"));
    gr_text_fini(&t);
}

/* Without memory everything fails in order. */
static void test_no_memory(void)
{
    write_file("train: {lr: 1e-3, freeze: [a, b]}\ntransform: [x, {y: z}]\n");
    for (long n = 0; n < 60; n++) {
        gr_train_options p = { 0 };
        char *argv[MAX_WORD];
        int argc = split("--config test_config.yaml --epochs 4 --wandb_tags a,b", argv);
        gr_status st;

        gr_alloc_fail_after(n);
        st = gr_train_options_init(&p, &recipe);
        if (st == GR_OK)
            st = gr_train_options_parse(&p, argc, argv);
        gr_alloc_fail_after(-1);
        GR_CHECK(st == GR_OK || st == GR_ERR_NOMEM);
        gr_train_options_fini(&p);
    }
}

int main(void)
{
    clear_env();
    test_table();
    test_guide_commands();
    test_guide_003();
    test_guide_004();
    test_every_name();
    test_meanings();
    test_precedence();
    test_wrong();
    test_round_trip();
    test_resume();
    test_look();
    test_process();
    test_help();
    test_no_memory();
    gr_train_options_fini(&o);
    unlink("test_config.yaml");
    return 0;
}

/* Settings of the trainer: aliases, records, and what a resumed run takes over. */
#include "train/options.h"

#include "check.h"
#include "gradus/schedule.h"

#include <stddef.h>

#define N(a) ((int)(sizeof(a) / sizeof(a[0])))

static const gr_preset presets[] = {
    { "train.epochs", "3", NULL },
    { "train.batch_size", "16", NULL },
    { "train.lr", "0.1", NULL },
    { "train.optimizer.name", "sgd", NULL },
};

static const gr_recipe recipe = {
    .abi = GR_RECIPE_ABI,
    .name = "test",
    .presets = presets,
    .n_presets = N(presets),
};

static gr_arena *arena;
static gr_train_options o; /* the one under test; each parse ends the one before */

static gr_status parse(int argc, const char *const *words)
{
    char *argv[16];

    for (int i = 0; i < argc; i++)
        argv[i] = gr_arena_strdup(arena, words[i]);
    gr_train_options_fini(&o);
    GR_CHECK_OK(gr_train_options_init(&o, &recipe));
    return gr_train_options_parse(&o, argc, argv);
}

static void test_defaults(void)
{
    GR_CHECK_OK(parse(0, NULL));
    GR_CHECK_EQ(o.epochs, 3);
    GR_CHECK_EQ(o.batch_size, 16);
    GR_CHECK_EQ(o.optimizer, GR_OPTIM_SGD);
    GR_CHECK_NEAR(o.lr, 0.1, 0);
    GR_CHECK(!o.output_dir && !o.resume);
}

/* Guards P16: '1e-4' is a number; and the names of other trainers. */
static void test_aliases(void)
{
    static const char *const words[] = {
        "--batchsize",     "8",  "--learning_rate=1e-4",          "--save-dir", "here",
        "--num_epochs",    "7",  "--gradient-accumulation-steps", "4",          "--use_amp",
        "--max_grad_norm", "1.5"
    };
    static const char *const off[] = { "--use-amp", "--use_amp=false", "--logdir=there" };

    GR_CHECK_OK(parse(N(words), words));
    GR_CHECK_EQ(o.batch_size, 8);
    GR_CHECK_NEAR(o.lr, 1e-4, 0);
    GR_CHECK_STR(o.output_dir, "here");
    GR_CHECK_EQ(o.epochs, 7);
    GR_CHECK_EQ(o.accumulate, 4);
    GR_CHECK_EQ(o.amp, GR_AMP_AUTO);
    GR_CHECK_NEAR(o.clip_norm, 1.5, 0);
    GR_CHECK_OK(parse(N(off), off));
    GR_CHECK_EQ(o.amp, GR_AMP_NONE);
    GR_CHECK_STR(o.output_dir, "there");
}

/* Guards P17: wrong names and values are errors that help. */
static void test_refused(void)
{
    GR_CHECK_FAILS(parse(2, (const char *const[]){ "--bath_size", "8" }), GR_ERR_ARG,
                   "did you mean '--batch_size'");
    GR_CHECK_FAILS(parse(2, (const char *const[]){ "--batchsize", "0" }), GR_ERR_ARG,
                   "flag '--batchsize': '0' is not between 1 and 1000000000");
    GR_CHECK_FAILS(parse(2, (const char *const[]){ "--amp", "int8" }), GR_ERR_ARG,
                   "'int8' is none of none|bf16|fp16|auto");
    GR_CHECK_FAILS(parse(1, (const char *const[]){ "shapes" }), GR_ERR_ARG, "'shapes'");
    GR_CHECK_FAILS(parse(1, (const char *const[]){ "--output_dir=" }), GR_ERR_ARG,
                   "flag '--output_dir': is empty; give the name of a folder");
    GR_CHECK_FAILS(parse(1, (const char *const[]){ "--group=foo" }), GR_ERR_ARG, "auto|nccl|ipc");
    /* Where an update would divide by zero. */
    GR_CHECK_FAILS(parse(2, (const char *const[]){ "--optim=adamw", "--beta1=1" }), GR_ERR_ARG,
                   "less than 1");
    GR_CHECK_FAILS(parse(2, (const char *const[]){ "--optim=adamw", "--eps=0" }), GR_ERR_ARG,
                   "more than 0");
    GR_CHECK_FAILS(parse(2, (const char *const[]){ "--optim=adamw", "--eps=1e-60" }), GR_ERR_ARG,
                   "more than 0");
    GR_CHECK_OK(parse(1, (const char *const[]){ "--eps=0" })); /* sgd has none */
}

static gr_status resume(const char *saved, int argc, const char *const *words)
{
    char *argv[16];

    for (int i = 0; i < argc; i++)
        argv[i] = gr_arena_strdup(arena, words[i]);
    return gr_train_options_resume(&o, &recipe, &(gr_saved){ .lines = saved, .trains = true }, argc,
                                   argv);
}

static void test_resume(void)
{
    static const char *const first[] = { "--lr",
                                         "0.1",
                                         "--epochs",
                                         "5",
                                         "--seed",
                                         "9",
                                         "--max_steps",
                                         "10",
                                         "--batch",
                                         "24",
                                         "--lr_schedule=constant",
                                         "--drop_last" };
    static const char *const second[] = { "--resume", "--lr", "0.3", "--batch_size", "24" };
    static const char *const other[] = { "--seed", "8" };
    gr_text saved = GR_TEXT_INIT;

    GR_CHECK_OK(parse(N(first), first));
    o.lr = 0.1 + 0.2; /* needs 17 digits */
    gr_train_options_record(&o, GR_RECORD_SAVE, &saved);
    GR_CHECK_OK(gr_text_status(&saved));
    GR_CHECK(strstr(saved.str, "seed = 9\n"));
    GR_CHECK(!strstr(saved.str, "\nmax_steps"));

    GR_CHECK_OK(resume(saved.str, 0, NULL));
    GR_CHECK_NEAR(o.lr, 0.1 + 0.2, 0);
    GR_CHECK_EQ(o.epochs, 5);
    GR_CHECK_EQ(o.seed, 9);
    GR_CHECK_EQ(o.schedule, GR_SCHEDULE_CONSTANT);
    GR_CHECK_EQ(o.drop_last, true);
    GR_CHECK_EQ(o.max_steps, 0); /* a limit is for one start */

    GR_CHECK_OK(resume(saved.str, N(second), second));
    GR_CHECK_NEAR(o.lr, 0.3, 0);
    GR_CHECK_STR(o.resume, "auto");
    GR_CHECK_FAILS(resume(saved.str, N(other), other), GR_ERR_ARG,
                   "'--seed' was 9 when the run began and is 8 now");
    GR_CHECK_FAILS(resume("seed 9", 0, NULL), GR_ERR_FORMAT, "'seed 9'");
    gr_text_fini(&saved);
}

/* What ranks compare leaves out what a rank may have alone. */
static void test_records(void)
{
    static const char *const words[] = { "--progress", "live", "--output_dir", "a \"b\"" };
    gr_text t = GR_TEXT_INIT;

    GR_CHECK_OK(parse(N(words), words));
    gr_train_options_record(&o, GR_RECORD_COMPARE, &t);
    GR_CHECK(strstr(gr_text_str(&t), "output_dir = a \"b\"\n"));
    GR_CHECK(!strstr(gr_text_str(&t), "progress"));
    t.len = 0;
    gr_train_options_record(&o, GR_RECORD_YAML, &t);
    GR_CHECK(strstr(gr_text_str(&t), "\noutput_dir: \"a \\\"b\\\"\"\n"));
    GR_CHECK(strstr(gr_text_str(&t), "\n  progress: live\n"));
    GR_CHECK(strstr(gr_text_str(&t), "\ntrain:\n  epochs: 3\n"));
    GR_CHECK(strstr(gr_text_str(&t), "\n  lr: 0.1\n"));
    GR_CHECK(strstr(gr_text_str(&t), "\n  optimizer:\n    name: sgd\n"));
    gr_text_fini(&t);
}

int main(void)
{
    GR_CHECK_OK(gr_arena_create(&arena));
    test_defaults();
    test_aliases();
    test_refused();
    test_resume();
    test_records();
    gr_train_options_fini(&o);
    gr_arena_destroy(arena);
    return 0;
}

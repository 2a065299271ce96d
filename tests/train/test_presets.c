/* Presets of a recipe, and its own names for settings. */
#include "train/options.h"

#include "check.h"
#include "config_words.h"
#include "gradus/schedule.h"
#include "train/config/request.h"
#include "train/config/settings.h"
#include "train/train.h"

#include <string.h>

#define N(a) ((int)(sizeof(a) / sizeof(a[0])))

static const gr_key keys[] = {
    { .name = "form", .kind = GR_KEY_CHOICE, .preset = "seed", .choices = "seed|newest=new" },
    { .name = "data.noise", .kind = GR_KEY_F64, .preset = "0.02" },
    { .name = "ode", .kind = GR_KEY_CHOICE, .preset = "heun", .choices = "heun|euler" },
};

static const gr_preset presets[] = {
    { "train.epochs", "50", NULL },
    { "train.batch_size", "8", NULL },
    { "train.batch_size", "4", "ranks=1" },
    { "train.lr_scheduler.name", "plateau", NULL },
    { "train.lr_scheduler.warmup_steps", "0", NULL },
    { "output_dir", "log", NULL },
    { "valid.interval", "2 epochs", NULL },
    { "train.epochs", "300", "form=newest" },
    { "train.lr_scheduler.name", "cosine", "form=new" },
    { "data.noise", "0.01", "form=newest" },
    { "train.lr", "5e-4", "form=newest, ranks=1" },
};

static const gr_recipe_alias aliases[] = {
    { .name = "save_every", .key = "checkpoint.save_epochs" },
    { .name = "model_path", .key = "test.checkpoint", .tasks = "test|predict", .none = "None" },
    { .name = "sampler", .key = "ode", .tasks = "predict" },
    { .name = "output_dir", .key = "predict.output", .tasks = "predict" },
    { .name = "val-every", .key = "valid.interval", .unit = "epochs" },
    { .name = "training.every", .key = "valid.interval", .unit = "epochs" },
};

static const gr_recipe recipe = { .abi = GR_RECIPE_ABI,
                                  .name = "protein",
                                  .keys = keys,
                                  .n_keys = N(keys),
                                  .presets = presets,
                                  .n_presets = N(presets),
                                  .aliases = aliases,
                                  .n_aliases = N(aliases) };

static gr_train_options o;

static gr_status parse(gr_task task, int n_ranks, const char *line)
{
    char *argv[CONFIG_MAX_WORDS];
    int argc = config_split(line, argv);

    gr_train_options_fini(&o);
    GR_CHECK_OK(gr_train_options_init(&o, &recipe));
    o.settings->task = task;
    GR_TRY(gr_train_options_parse(&o, argc, argv));
    return gr_train_options_of_ranks(&o, n_ranks);
}

static void check_origin(const char *name, const char *want)
{
    gr_text text = GR_TEXT_INIT;

    gr_train_options_origin(&o, name, &text);
    GR_CHECK_STR(gr_text_str(&text), want);
    gr_text_fini(&text);
}

static void check_record(const char *want)
{
    gr_text text = GR_TEXT_INIT;

    gr_train_options_record(&o, GR_RECORD_YAML, &text);
    GR_CHECK(strstr(gr_text_str(&text), want));
    gr_text_fini(&text);
}

/* ---- presets ---- */

static void test_presets(void)
{
    GR_CHECK_OK(parse(GR_TASK_TRAIN, 2, ""));
    GR_CHECK_EQ(o.epochs, 50);
    GR_CHECK_EQ(o.batch_size, 8);
    GR_CHECK_EQ(o.schedule, GR_SCHEDULE_PLATEAU);
    GR_CHECK_EQ(o.warmup_steps, 0);
    GR_CHECK_STR(o.output_dir, "log");
    GR_CHECK(o.val_interval.n == 2 && o.val_interval.epochs);
    check_origin("epochs", "preset of recipe protein");
    check_origin("lr", "default");
    GR_CHECK(!gr_settings_given(o.settings, "train.epochs"));
}

static void test_conditions(void)
{
    GR_CHECK_OK(parse(GR_TASK_TRAIN, 2, "--form newest"));
    GR_CHECK_EQ(o.epochs, 300);
    GR_CHECK_EQ(o.schedule, GR_SCHEDULE_COSINE);
    GR_CHECK_NEAR(gr_settings_f64(o.settings, "data.noise"), 0.01, 0);
    GR_CHECK(!gr_settings_given(o.settings, "data.noise"));
    check_record("\n  # noise: 0.01 # preset of recipe protein (form=newest)\n");
    check_record("\ntrain:\n  epochs: 300\n");
    GR_CHECK_NEAR(o.lr, 1e-3, 0);
    GR_CHECK_EQ(o.batch_size, 8);
    check_origin("epochs", "preset of recipe protein (form=newest)");
    GR_CHECK_OK(gr_train_options_of_ranks(&o, 1)); /* what no longer holds goes, too */
    GR_CHECK_EQ(o.batch_size, 4);
    GR_CHECK_NEAR(o.lr, 5e-4, 0);
    GR_CHECK_OK(gr_train_options_of_ranks(&o, 3));
    GR_CHECK_EQ(o.batch_size, 8);
    GR_CHECK_NEAR(o.lr, 1e-3, 0);
    check_origin("lr", "default");
}

static void test_user_wins(void)
{
    char words[200];

    GR_CHECK_OK(parse(GR_TASK_TRAIN, 1, "--form newest --epochs 7 --batchsize 8 --data.noise .02"));
    GR_CHECK_EQ(o.epochs, 7);
    GR_CHECK_EQ(o.batch_size, 8);
    GR_CHECK_NEAR(gr_settings_f64(o.settings, "data.noise"), 0.02, 0);
    snprintf(words, sizeof(words), "--config %s",
             config_write("form: newest\nepochs: 9\noutput_dir: there\n"));
    GR_CHECK_OK(parse(GR_TASK_TRAIN, 1, words));
    GR_CHECK_EQ(o.epochs, 9);
    GR_CHECK_STR(o.output_dir, "there");
    GR_CHECK_NEAR(o.lr, 5e-4, 0);
}

/* What a run had stays when it goes on, and what it did not have comes from the presets. */
static void test_resume(void)
{
    gr_saved saved = { .is_own = true, .trains = true };
    gr_text lines = GR_TEXT_INIT;

    GR_CHECK_OK(parse(GR_TASK_TRAIN, 2, "--form newest --epochs 11"));
    gr_train_options_record(&o, GR_RECORD_SAVE, &lines);
    GR_CHECK(!strstr(gr_text_str(&lines), "data.noise"));
    saved.lines = gr_text_str(&lines);
    GR_CHECK_OK(parse(GR_TASK_TRAIN, 1, ""));
    GR_CHECK_OK(gr_train_options_resume(&o, &recipe, &saved, 0, NULL));
    GR_CHECK_EQ(o.epochs, 11);
    GR_CHECK_EQ(o.batch_size, 8);
    GR_CHECK_EQ(o.schedule, GR_SCHEDULE_COSINE);
    GR_CHECK_NEAR(gr_settings_f64(o.settings, "data.noise"), 0.01, 0);
    GR_CHECK_EQ(o.settings->n_ranks, 1);
    gr_text_fini(&lines);
}

static gr_status try_preset(const gr_preset *p)
{
    gr_recipe wrong = recipe;
    gr_train_options own;
    gr_status st;

    wrong.presets = p;
    wrong.n_presets = 1;
    st = gr_train_options_init(&own, &wrong);
    gr_train_options_fini(&own);
    return st;
}

/* Found by the first run of the recipe, whether the condition holds or not. */
static void test_wrong_presets(void)
{
    GR_CHECK_FAILS(try_preset(&(gr_preset){ "train.epoch", "3", NULL }), GR_ERR_ARG,
                   "recipe 'protein': preset of 'train.epoch': there is no such setting");
    GR_CHECK_FAILS(try_preset(&(gr_preset){ "train.epochs", "few", "form=newest" }), GR_ERR_ARG,
                   "preset of 'train.epochs' (form=newest): 'few' is no whole number");
    GR_CHECK_FAILS(try_preset(&(gr_preset){ "train.epochs", "3", "forms=newest" }), GR_ERR_ARG,
                   "asks for 'forms', and there is no such setting");
    GR_CHECK_FAILS(try_preset(&(gr_preset){ "train.epochs", "3", "form=old" }), GR_ERR_ARG,
                   "'old' is none of seed|newest");
    GR_CHECK_FAILS(try_preset(&(gr_preset){ "train.epochs", "3", "newest" }), GR_ERR_ARG,
                   "'newest' is no condition: write key=value");
}

/* ---- names ---- */

static void test_aliases(void)
{
    GR_CHECK_OK(parse(GR_TASK_TRAIN, 1,
                      "--save_every 10 --val_every=3 --model_path w.pt "
                      "--output_dir here --sampler weighted"));
    GR_CHECK_EQ(o.save_epochs, 10);
    check_origin("save_steps", "default");
    GR_CHECK(o.val_interval.n == 3 && o.val_interval.epochs);
    GR_CHECK_STR(o.pretrained, "w.pt"); /* as with other recipes */
    GR_CHECK_STR(o.output_dir, "here");
    GR_CHECK_EQ(o.sampler, GR_ORDER_WEIGHTED);
    GR_CHECK_OK(parse(GR_TASK_PREDICT, 1,
                      "--model-path run --output-dir here --sampler euler "
                      "--val_every 5~steps"));
    GR_CHECK_STR(o.checkpoint, "run");
    GR_CHECK_STR(o.output, "here");
    GR_CHECK_STR(o.output_dir, "log");
    GR_CHECK_STR(gr_settings_text(o.settings, "ode"), "euler");
    GR_CHECK(!o.pretrained);
    GR_CHECK_OK(parse(GR_TASK_TEST, 1, "--model_path None"));
    GR_CHECK(!o.checkpoint && !o.pretrained);
    GR_CHECK_FAILS(parse(GR_TASK_PREDICT, 1, "--sampler weighted"), GR_ERR_ARG,
                   "flag '--sampler': 'weighted' is none of heun|euler");
}

/* Another's file is read by the recipe's names, and the record of a run as it was written. */
static void test_aliases_in_files(void)
{
    char words[200];

    snprintf(words, sizeof(words), "--config %s",
             config_write("save_every: 5\noutput_dir: run\ntraining: {every: 4}\n"));
    GR_CHECK_OK(parse(GR_TASK_PREDICT, 1, words));
    GR_CHECK_EQ(o.save_epochs, 5);
    GR_CHECK_STR(o.output_dir, "run");
    GR_CHECK(!o.output);
    GR_CHECK(o.val_interval.n == 4 && o.val_interval.epochs);
}

static gr_status try_alias(const gr_recipe_alias *a)
{
    gr_recipe wrong = recipe;
    gr_train_options own;
    gr_status st;

    wrong.aliases = a;
    wrong.n_aliases = 1;
    st = gr_train_options_init(&own, &wrong);
    gr_train_options_fini(&own);
    return st;
}

static void test_wrong_aliases(void)
{
    GR_CHECK_FAILS(try_alias(&(gr_recipe_alias){ .name = "a", .key = "b" }), GR_ERR_ARG,
                   "recipe 'protein': name 'a': there is no setting 'b'");
    GR_CHECK_FAILS(
        try_alias(&(gr_recipe_alias){ .name = "a", .key = "form", .tasks = "test|bench" }),
        GR_ERR_ARG, "'bench' is none of train, test and predict");
}

/* Which recipe it is comes first, and does not fail on what only the recipe understands. */
static void test_first_look(void)
{
    static const gr_recipe *const recipes[] = { &recipe, NULL };
    static const gr_recipe *const others[] = { &config_recipe, NULL };
    char *argv[CONFIG_MAX_WORDS];
    gr_command c = { .verb = "predict", .argv = argv, .recipes = recipes };
    const gr_recipe *found = NULL;
    gr_request r;

    c.argc = config_split("--sampler euler protein --output_dir there", argv);
    GR_CHECK_OK(gr_request_read(&r, &c));
    GR_CHECK_OK(gr_request_recipe(&r, &c, &found));
    GR_CHECK(found == &recipe);
    gr_request_fini(&r);
    c.argc = config_split("--sampler euler --form newest", argv); /* nobody names it */
    GR_CHECK_OK(gr_request_read(&r, &c));
    GR_CHECK_OK(gr_request_recipe(&r, &c, &found));
    GR_CHECK(found == &recipe);
    gr_request_fini(&r);
    c.recipes = others;
    GR_CHECK_FAILS(gr_request_read(&r, &c), GR_ERR_ARG, "'euler' is none of distributed");
    gr_request_fini(&r);
}

static void test_help(void)
{
    static const gr_recipe *const recipes[] = { &recipe, NULL };
    char *argv[] = { (char[]){ "protein" }, (char[]){ "sampler" } };
    gr_command c = { .argc = 1, .argv = argv, .recipes = recipes };
    gr_text text = GR_TEXT_INIT;

    GR_CHECK_OK(gr_keys_help(&c, &text));
    GR_CHECK(strstr(text.str, "predict.output (with predict)\n"));
    GR_CHECK(strstr(text.str, "test.checkpoint; None: not given (with test|predict)\n"));
    GR_CHECK(strstr(text.str, "valid.interval, in epochs\n"));
    GR_CHECK(strstr(text.str, "300    with form=newest\n"));
    text.len = 0;
    c.argc = 2;
    GR_CHECK_OK(gr_keys_help(&c, &text));
    GR_CHECK(strstr(text.str, "sampler (of recipe protein, with predict)"));
    text.len = 0;
    gr_train_help(&c, &text);
    GR_CHECK(strstr(text.str, "[50, preset of recipe protein]"));
    gr_text_fini(&text);
}

int main(void)
{
    test_presets();
    test_conditions();
    test_user_wins();
    test_resume();
    test_wrong_presets();
    test_aliases();
    test_aliases_in_files();
    test_wrong_aliases();
    test_first_look();
    test_help();
    gr_train_options_fini(&o);
    return 0;
}

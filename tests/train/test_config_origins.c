/*
 * The trainer's settings by origin: strong ones win over weak ones, messages say where a value
 * stood, records read back as they were, and a first look finds recipe and ranks.
 */
#include "train/config/table.h"

#include "base/alloc.h"
#include "check.h"
#include "config_words.h"
#include "train/config/process.h"
#include "train/config/request.h"

#include <unistd.h>

#define N(a) ((int)(sizeof(a) / sizeof(a[0])))

static gr_train_options *const o = &config_options;

static const gr_recipe *const recipes[] = { &config_recipe, NULL };

/* ---- origins ---- */

static void check_origin(const char *name, const char *want)
{
    gr_text t = GR_TEXT_INIT;

    gr_train_options_origin(o, name, &t);
    GR_CHECK_STR(gr_text_str(&t), want);
    gr_text_fini(&t);
}

/* The file of a run says what the run had, also from the environment. */
static void check_yaml_of_env(void)
{
    gr_text t = GR_TEXT_INIT;

    setenv("GR_THREADS", "2", 1);
    GR_CHECK_OK(config_parse(""));
    gr_train_options_record(o, GR_RECORD_YAML, &t);
    GR_CHECK(strstr(gr_text_str(&t), "\n  timeout: 7.5\n"));
    GR_CHECK(strstr(gr_text_str(&t), "\n  threads: 2\n"));
    gr_text_fini(&t);
    unsetenv("GR_THREADS");
}

static void test_precedence(void)
{
    setenv("WANDB_PROJECT", "env", 1);
    setenv("GR_TIMEOUT", "7.5", 1);
    GR_CHECK_OK(
        config_parse_file("wandb: {project: file, entity: file}\nepochs: 6\nddp: {timeout: 9}\n",
                          "--epochs 7 --wandb_mode online"));
    GR_CHECK_STR(o->wandb_project, "env");
    GR_CHECK_STR(o->wandb_entity, "file");
    GR_CHECK_EQ(o->epochs, 7);
    GR_CHECK_EQ(o->batch_size, 16);
    GR_CHECK_NEAR(o->timeout_s, 7.5, 0);
    GR_CHECK_EQ(o->wandb_mode, GR_WANDB_ONLINE);
    check_origin("wandb_project", "environment variable WANDB_PROJECT");
    check_origin("wandb.entity", "test_config.yaml:1");
    check_origin("epochs", "flag '--epochs'");
    check_origin("lr", "preset of recipe guides");
    check_origin("keep", "default");
    GR_CHECK_OK(config_parse("--wandb-project flag --timeout 3"));
    GR_CHECK_STR(o->wandb_project, "flag");
    GR_CHECK_NEAR(o->timeout_s, 3, 0);
    unsetenv("WANDB_PROJECT");
    check_yaml_of_env();
    setenv("WANDB_MODE", "sideways", 1);
    GR_CHECK_FAILS(
        config_parse(""), GR_ERR_ARG,
        "environment variable 'WANDB_MODE': 'sideways' is none of auto|offline|online|disabled");
    unsetenv("WANDB_MODE");
    unsetenv("GR_TIMEOUT");
    /* A value that loses is checked all the same. */
    GR_CHECK_FAILS(config_parse_file("epochs: many\n", "--epochs 7"), GR_ERR_ARG,
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
        { "", "--token_budget 9", "flag '--token_budget': is for the sampler 'bucketed' only" },
        { "", "--recompute limit", "flag '--recompute': 'limit' needs memory_limit" },
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
        { "train:\n  nesterov: true\n", "",
          "unknown key 'train.nesterov'; did you mean 'train.optimizer.nesterov'?" },
        { "ddp:\n  enabled: maybe\n", "", "test_config.yaml:2: 'ddp.enabled': 'maybe' is neither" },
        { "wandb:\n  api_key: sekrit\n", "",
          "test_config.yaml:2: 'wandb.api_key': is a secret, and files and command lines are read "
          "by "
          "others; take it out and set WANDB_API_KEY in the environment instead" },
        { "huggingface:\n  token: sekrit\n", "",
          "test_config.yaml:2: 'huggingface.token': is a secret" },
        { "train: 5\n", "", "test_config.yaml:1: 'train: 5': 'train' is a group of settings" },
        { "output_dir: \"\"\n", "", "test_config.yaml:1: 'output_dir': is empty" },
    };

    for (int i = 0; i < N(cases); i++) {
        GR_CHECK_FAILS(config_parse_file(cases[i].text, cases[i].words), GR_ERR_ARG, cases[i].part);
        GR_CHECK(!strstr(gr_error_message(), "sekrit"));
    }
    GR_CHECK_FAILS(config_parse("--config no/where.yaml"), GR_ERR_ARG,
                   "cannot open the configuration 'no/where.yaml'");
}

static gr_status resume_from(const gr_saved *saved, int argc, char **argv)
{
    return gr_train_options_resume(o, &config_recipe, saved, argc, argv);
}

static gr_status resume(const char *lines, bool trains, int argc, char **argv)
{
    return resume_from(&(gr_saved){ .lines = lines, .is_own = true, .trains = trains }, argc, argv);
}

/* ---- records ---- */

static void take_record(gr_record what, gr_text *t)
{
    t->len = 0;
    gr_train_options_record(o, what, t);
    GR_CHECK_OK(gr_text_status(t));
}

/* What is written reads back as itself, as a file and as a checkpoint's text. */
static void test_round_trip(void)
{
    gr_text first = GR_TEXT_INIT, again = GR_TEXT_INIT;

    GR_CHECK_OK(config_parse(
        "--lr 0.30000000000000004 --freeze a.*,b~c --val_interval 3~epochs --memory_limit "
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
    GR_CHECK_OK(config_parse_file(first.str, ""));
    GR_CHECK(!gr_settings_given(o->settings, "dataset.ignore_index")); /* as it was */
    GR_CHECK_EQ(gr_settings_int(o->settings, "dataset.ignore_index"), 255);
    take_record(GR_RECORD_YAML, &again);
    GR_CHECK_STR(first.str, again.str);

    take_record(GR_RECORD_SAVE, &first);
    GR_CHECK(strstr(first.str, "\nfreeze = [\"a.*\", \"b c\"]\n"));
    GR_CHECK(strstr(first.str, "\nmodel.config.input_sizes = [1, 2]\n"));
    GR_CHECK_OK(resume(first.str, true, 0, NULL));
    take_record(GR_RECORD_SAVE, &again);
    GR_CHECK_STR(first.str, again.str);
    GR_CHECK_STR(o->freeze, "a.*,b c");
    GR_CHECK(!gr_settings_given(o->settings, "dataset.ignore_index"));

    take_record(GR_RECORD_COMPARE, &first);
    GR_CHECK(strstr(first.str, "recipe = guides\n") && !strstr(first.str, "num_workers"));
    gr_text_fini(&first);
    gr_text_fini(&again);
}

static void test_resume(void)
{
    char *argv[CONFIG_MAX_WORDS];
    int argc;

    GR_CHECK_OK(config_parse("--lr 1"));
    argc = config_split("--config test_config.yaml --keep 5", argv);
    config_write("epochs: 8\nlr: 0.25\n");
    GR_CHECK_OK(resume("lr = 0.5\nepochs = 4\nseed = 3\nold_one = 7\n", true, argc, argv));
    GR_CHECK_NEAR(o->lr, 0.25, 0); /* the file is stronger than the checkpoint */
    GR_CHECK_EQ(o->epochs, 8);
    GR_CHECK_EQ(o->seed, 3);
    check_origin("seed", "the checkpoint");
    config_write("seed: 4\n");
    GR_CHECK_FAILS(resume("seed = 3\n", true, argc, argv), GR_ERR_ARG,
                   "'--seed' was 3 when the run began and is 4 now");
    GR_CHECK_EQ(o->seed, 3); /* as it was */
    config_write("freeze: [a.*]\n");
    GR_CHECK_FAILS(resume("seed = 3\n", true, argc, argv), GR_ERR_ARG,
                   "'--freeze' was '' when the run began");
    config_write("seed: 4\n");
    GR_CHECK_OK(resume("seed = 3\n", false, argc, argv));
    GR_CHECK_EQ(o->seed, 4); /* a test or prediction may have its own */
    GR_CHECK_FAILS(resume("seed = x\n", true, 0, NULL), GR_ERR_ARG,
                   "the checkpoint's setting 'seed': 'x' is no whole number");
}

/* Of a checkpoint's settings only those are taken that checkpoints keep; of a stranger's none that
 * lead out of the run. */
static void test_foreign(void)
{
    static const char lines[] = "lr = 0.5\ndump_dot = /x\nlogging.dump_dot = /x\nconfig = /x\n"
                                "output_dir = /\nmaster_addr = h\nnum_workers = 900\n"
                                "pretrained = /x\nuse_wandb = true\ndata.cache_dir = /x\n";
    gr_saved theirs = { .lines = lines, .trains = true }, ours = theirs;

    ours.is_own = true;
    GR_CHECK_OK(config_parse(""));
    GR_CHECK_OK(resume_from(&theirs, 0, NULL));
    GR_CHECK_NEAR(o->lr, 0.5, 0);
    GR_CHECK(!o->dump_dot && !o->config && !o->output_dir && !o->master_addr && !o->pretrained);
    GR_CHECK(!o->use_wandb && o->num_workers == -1);
    GR_CHECK(!gr_settings_text(o->settings, "data.cache_dir")); /* GR_KEY_WRITES */
    GR_CHECK_EQ(o->settings->ignored[GR_IGNORED_UNKNOWN].n, 7);
    GR_CHECK_STR(gr_text_str(&o->settings->ignored[GR_IGNORED_AWAY].names),
                 "pretrained, use_wandb");
    GR_CHECK_OK(resume_from(&ours, 0, NULL));
    GR_CHECK(!o->dump_dot && !o->config && !o->output_dir && !o->master_addr);
    GR_CHECK_STR(o->pretrained, "/x");
    GR_CHECK(o->use_wandb && !gr_settings_text(o->settings, "data.cache_dir"));

    /* Data must be named again, by whatever name. */
    theirs.lines = "dataset.train_path = /x\n";
    GR_CHECK_FAILS(resume_from(&theirs, 0, NULL), GR_ERR_ARG,
                   "the checkpoint says dataset.train_path '/x', which is out of its run");
    {
        char *argv[CONFIG_MAX_WORDS];
        int argc = config_split("--data_path mine", argv);

        GR_CHECK_OK(resume_from(&theirs, argc, argv));
        GR_CHECK_STR(gr_settings_text(o->settings, "dataset.train_path"), "mine");
    }
    for (int i = 0; i < gr_n_rows; i++)
        GR_CHECK((gr_rows[i].use & (GR_USE_SAVED | GR_USE_WRITES)) !=
                 (GR_USE_SAVED | GR_USE_WRITES));
}

/* ---- the first look ---- */

static gr_status look(gr_request *r, const char *line, const gr_recipe **out)
{
    static char *argv[CONFIG_MAX_WORDS];
    static gr_command c = { .program = "gradus", .recipes = recipes };
    gr_status st;

    c.argc = config_split(line, argv);
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
    config_write("recipe: guides\ntask: test\nnot_known: {yet: 1}\nddp: {nproc: 3}\n");
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
    /* A value, since the recipe is named elsewhere. */
    refuse_look("--recipe other --model.name guides", "there is no recipe 'other'");
    refuse_look("--epochs x guides", "flag '--epochs': 'x' is no whole number");
}

/* Nobody is named: the only recipe that knows all settings, when one of them is its own. */
static void test_guess(void)
{
    const gr_recipe *found;
    gr_request r;

    config_write("model: {name: x}\nepochs: 2\n");
    GR_CHECK_OK(look(&r, "--config test_config.yaml", &found));
    GR_CHECK(!r.word && found == &config_recipe);
    gr_request_fini(&r);
    config_write("epochs: 2\n");
    refuse_look("--config test_config.yaml", "say what to train");
    refuse_look("", "the recipes are guides");
    refuse_look("--confg x.yaml", "unknown flag '--confg'; did you mean '--config'?; and say what");
    config_write("model: {name: x}\nnot_known: 2\n");
    refuse_look("--config test_config.yaml", "the recipes are guides");
}

/* ---- ranks ---- */

static void clear_env(void)
{
    static const char *const names[] = {
        "RANK",        "WORLD_SIZE",     "LOCAL_RANK",       "MASTER_ADDR",
        "MASTER_PORT", "GR_INIT_METHOD", "LOCAL_WORLD_SIZE", "TORCHELASTIC_USE_AGENT_STORE",
        "GR_LAUNCHER"
    };

    for (int i = 0; i < N(names); i++)
        unsetenv(names[i]);
}

static gr_status process(const char *line)
{
    GR_CHECK_OK(config_parse(line));
    return gr_train_options_process(o);
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

static void set_launcher(void)
{
    clear_env();
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("LOCAL_RANK", "1", 1);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "29500", 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
}

/* The launcher serves its own port only; on another one rank 0 has to. */
static void test_place(void)
{
    set_launcher();
    GR_CHECK_OK(process("--master_port 29500 --master_addr 127.0.0.1"));
    GR_CHECK_STR(getenv("TORCHELASTIC_USE_AGENT_STORE"), "True");
    GR_CHECK_OK(process("--master_port 29501"));
    GR_CHECK_STR(getenv("MASTER_PORT"), "29501");
    GR_CHECK_STR(getenv("TORCHELASTIC_USE_AGENT_STORE"), "False");
    set_launcher();
    GR_CHECK_OK(process("--master_addr localhost"));
    GR_CHECK_STR(getenv("TORCHELASTIC_USE_AGENT_STORE"), "False");
    set_launcher();
    setenv("GR_INIT_METHOD", "tcp://a:1", 1);
    GR_CHECK_OK(process("--dist_url env://"));
    GR_CHECK(!getenv("GR_INIT_METHOD"));
    clear_env();
}

/* Flag > environment > file. */
static void test_process_file(void)
{
    set_launcher();
    GR_CHECK_OK(
        config_parse_file("ddp: {master_port: 30123, master_addr: h, dist_url: 'tcp://h:1', "
                          "world_size: 1, rank: 0, local_rank: 0}\n",
                          ""));
    GR_CHECK_OK(gr_train_options_process(o));
    GR_CHECK_STR(getenv("MASTER_PORT"), "29500");
    GR_CHECK_STR(getenv("MASTER_ADDR"), "127.0.0.1");
    GR_CHECK_STR(getenv("RANK"), "1");
    GR_CHECK_STR(getenv("LOCAL_RANK"), "1");
    GR_CHECK_STR(getenv("WORLD_SIZE"), "2");
    GR_CHECK_STR(getenv("TORCHELASTIC_USE_AGENT_STORE"), "True");
    GR_CHECK(!getenv("GR_INIT_METHOD"));

    clear_env(); /* what the environment does not say */
    setenv("MASTER_PORT", "29500", 1);
    setenv("RANK", "1", 1);
    GR_CHECK_OK(config_parse_file("ddp: {master_port: 30123, master_addr: h, world_size: 3, rank: "
                                  "0, local_rank: 0}\n",
                                  ""));
    GR_CHECK_OK(gr_train_options_process(o));
    GR_CHECK_STR(getenv("MASTER_PORT"), "29500");
    GR_CHECK_STR(getenv("MASTER_ADDR"), "h");
    GR_CHECK_STR(getenv("RANK"), "1");
    GR_CHECK_STR(getenv("WORLD_SIZE"), "3");
    GR_CHECK_STR(getenv("LOCAL_RANK"), "0");
    clear_env();
}

/* Messages name what the user wrote, not the variables that came of it. */
static void test_process_words(void)
{
    clear_env();
    GR_CHECK_FAILS(process("--dist_url foo://x"), GR_ERR_ARG,
                   "flag '--dist_url': 'foo://x' is neither env:// nor tcp://host:port");
    clear_env();
    GR_CHECK_FAILS(process("--world_size 2 --rank 0"), GR_ERR_ARG,
                   "flag '--world_size': 2 ranks, but nothing says where rank 0 is: give "
                   "--master_addr HOST --master_port PORT to all of them");
    clear_env();
    GR_CHECK_FAILS(process("--world_size 2 --rank 0 --master_addr h"), GR_ERR_ARG,
                   "give --master_port PORT to all");
    clear_env();
    GR_CHECK_FAILS(process("--world_size 1 --rank 1"), GR_ERR_ARG,
                   "flag '--rank': rank 1 of 1: ranks are counted from 0, and the last one is 0");
    set_launcher();
    GR_CHECK_FAILS(process("--world_size 1"), GR_ERR_ARG, "flag '--world_size': rank 1 of 1");
    set_launcher();
    GR_CHECK_FAILS(process("--local_rank 2"), GR_ERR_ARG,
                   "flag '--local_rank': local rank 2, but of 2 on this host: the last one is 1");
    set_launcher(); /* ours has started all ranks that there are */
    setenv("GR_LAUNCHER", "gradrun", 1);
    GR_CHECK_FAILS(process("--world_size 3"), GR_ERR_ARG,
                   "flag '--world_size': 3 ranks, but gradrun has started 2 (WORLD_SIZE); take it "
                   "out, or start as many ranks: gradrun --nproc_per_node 3 gradus train ...");
    GR_CHECK_FAILS(process("--rank 0"), GR_ERR_ARG,
                   "flag '--rank': rank 0, but gradrun has started this process as rank 1 of 2 "
                   "(RANK); take it out");
    GR_CHECK_OK(process("--rank 1 --world_size 2"));
    GR_CHECK_OK(process("--rank 0 --world_size 3 --master_port 29511")); /* a group of its own */
    clear_env();
}

/* ---- help ---- */

static void test_help(void)
{
    gr_text t = GR_TEXT_INIT;

    GR_CHECK_OK(config_parse("--lr 0.5"));
    gr_train_options_help(o, &t);
    GR_CHECK(strstr(t.str, "  --lr X ") && strstr(t.str, "before lr_scaling [0.5]\n"));
    GR_CHECK(strstr(t.str, "\ntrain.optimizer:\n"));
    GR_CHECK(strstr(t.str, "\nthe recipe's own:\n  --model.name VALUE"));
    for (int i = 0; i < gr_n_rows; i++)
        GR_CHECK(strstr(t.str, gr_rows[i].flag));
    t.len = 0;
    gr_train_options_keys(o, &t);
    for (const gr_alias *a = gr_trainer_names.aliases; a->name; a++)
        GR_CHECK(strstr(t.str, a->name));
    GR_CHECK(strstr(t.str, "\nuse_amp                                  train.amp = auto\n"));
    gr_text_fini(&t);
}

/* Without memory everything fails in order. */
static void test_no_memory(void)
{
    config_write("train: {lr: 1e-3, freeze: [a, b]}\ntransform: [x, {y: z}]\n");
    for (long n = 0; n < 60; n++) {
        gr_train_options p = { 0 };
        char *argv[CONFIG_MAX_WORDS];
        int argc = config_split("--config test_config.yaml --epochs 4 --wandb_tags a,b", argv);
        gr_status st;

        gr_alloc_fail_after(n);
        st = gr_train_options_init(&p, &config_recipe);
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
    test_precedence();
    test_wrong();
    test_round_trip();
    test_resume();
    test_foreign();
    test_look();
    test_guess();
    test_process();
    test_place();
    test_process_file();
    test_process_words();
    test_help();
    test_no_memory();
    gr_train_options_fini(o);
    unlink("test_config.yaml");
    return 0;
}

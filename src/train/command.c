/* The commands of `gradus`, and the choice among them. */
#include "train/command.h"

#include "base/alloc.h"
#include "base/option.h"
#include "train/config/request.h"
#include "train/config/settings.h"
#include "train/own_command.h"
#include "train/pack.h"
#include "train/version.h"

#include <string.h>

/* ---- what they run ---- */

static gr_status run_train(const gr_command *c, gr_text *out, int *signal)
{
    (void)out;
    return gr_train(c, signal);
}

static gr_status run_debug(const gr_command *c, gr_text *out, int *signal)
{
    (void)out, (void)signal;
    return gr_debug(c);
}

static gr_status run_test(const gr_command *c, gr_text *out, int *signal)
{
    (void)out, (void)signal;
    return gr_test(c);
}

static gr_status run_predict(const gr_command *c, gr_text *out, int *signal)
{
    (void)out, (void)signal;
    return gr_predict(c);
}

static gr_status run_check(const gr_command *c, gr_text *out, int *signal)
{
    (void)out, (void)signal;
    return gr_check(c);
}

static gr_status run_export(const gr_command *c, gr_text *out, int *signal)
{
    (void)out, (void)signal;
    return gr_export_command(c);
}

static void help_export(const gr_command *c, gr_text *out)
{
    (void)c;
    gr_export_help(out);
}

static gr_status run_list(const gr_command *c, gr_text *out, int *signal)
{
    (void)signal;
    return gr_list_command(c, out);
}

static void help_list(const gr_command *c, gr_text *out)
{
    (void)c;
    gr_list_help(out);
}

static gr_status run_bench(const gr_command *c, gr_text *out, int *signal)
{
    (void)out, (void)signal;
    return gr_bench(c);
}

static void help_bench(const gr_command *c, gr_text *out)
{
    (void)c;
    gr_bench_help(out);
}

static gr_status run_pack(const gr_command *c, gr_text *out, int *signal)
{
    (void)out, (void)signal;
    return gr_pack_command(c);
}

static void help_pack(const gr_command *c, gr_text *out)
{
    (void)c;
    gr_pack_help(out);
}

static gr_status run_version(const gr_command *c, gr_text *out, int *signal)
{
    (void)signal;
    gr_version_print(c, out);
    return gr_text_status(out);
}

static void help_version(const gr_command *c, gr_text *out)
{
    (void)c;
    gr_text_add(out, "usage: gradus --version\n\n"
                     "Gradus and every library with its version, and what is absent.\n");
}

static gr_status run_help(const gr_command *c, gr_text *out, int *signal);

static void help_help(const gr_command *c, gr_text *out)
{
    gr_text_addf(out, "gradus %s: data-parallel training\n\n", GR_VERSION);
    gr_text_add(out, "usage: gradus COMMAND [RECIPE] [FLAG...]\n"
                     "       gradus --config FILE.yaml [--task train|test|predict|check]\n\n");
    for (const gr_verb *v = gr_verbs; v->name; v++)
        gr_text_addf(out, "  %-9s%s\n", v->name, v->help);
    gr_own_commands_list(c, out);
}

/* ---- the table ---- */

const gr_verb gr_verbs[] = {
    { "train", "train a recipe, here or on all ranks under gradrun", GR_VERB_TASK | GR_VERB_JOB,
      run_train, gr_train_help },
    { "test", "metrics of a checkpoint on the test samples", GR_VERB_TASK | GR_VERB_JOB, run_test,
      gr_test_help },
    { "predict", "what a checkpoint makes of samples without labels", GR_VERB_TASK | GR_VERB_JOB,
      run_predict, gr_predict_help },
    { "check", "try what train would do, one step of it, and write nothing",
      GR_VERB_TASK | GR_VERB_JOB, run_check, gr_check_help },
    { "debug", "find the first value that is not finite: gradus debug --nan RECIPE", GR_VERB_JOB,
      run_debug, gr_debug_help },
    { "export", "write the model of a checkpoint to a file of its own", 0, run_export,
      help_export },
    { "list", "recipes and their models, and the runs in a folder", 0, run_list, help_list },
    { "bench", "measure this machine with this program", 0, run_bench, help_bench },
    { "pack", "write a data set as shards: gradus pack FROM OUT", 0, run_pack, help_pack },
    { "help", "this text, that of a command (help train), or names of settings (help keys lr)", 0,
      run_help, help_help },
    { "version", "Gradus and every library with its version, and what is absent", 0, run_version,
      help_version },
    { NULL, NULL, 0, NULL, NULL },
};

static const gr_verb *find_verb(const char *word)
{
    for (const gr_verb *v = gr_verbs; v->name; v++)
        if (strcmp(v->name, word) == 0)
            return v;
    return NULL;
}

static gr_status run_own(const gr_command *c, gr_text *out, int *signal)
{
    (void)out, (void)signal;
    return gr_own_command_run(c);
}

static void help_own(const gr_command *c, gr_text *out)
{
    gr_own_command_help(c, c->verb, out);
}

/* Whatever a recipe brings along; c->verb says which. */
static const gr_verb own_verb = { "", "", 0, run_own, help_own };

/* ---- choosing ---- */

static gr_status unknown_command(const gr_command *c, const char *word)
{
    const char **names;
    const char *near;
    int n = 0;

    for (int i = 0; c->recipes[i]; i++)
        if (strcmp(c->recipes[i]->name, word) == 0)
            return gr_fail(GR_ERR_ARG, "'%s' is a recipe; say what to do with it: gradus train %s",
                           word, word);
    while (gr_verbs[n].name)
        n++;
    names = gr_calloc((size_t)(n + gr_own_commands_names(c, NULL)) + 1, sizeof(*names));
    if (!names)
        return GR_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        names[i] = gr_verbs[i].name;
    gr_own_commands_names(c, names + n);
    near = gr_nearest(word, names);
    gr_free(names);
    if (near)
        return gr_fail(GR_ERR_ARG, "there is no command '%s'; did you mean '%s'?", word, near);
    return gr_fail(GR_ERR_ARG, "there is no command '%s'; see 'gradus help'", word);
}

static gr_status run_help(const gr_command *c, gr_text *out, int *signal)
{
    const gr_verb *about;
    gr_command rest = *c;

    (void)signal;
    if (c->argc < 1 || c->argv[0][0] == '-') {
        help_help(c, out);
        return gr_text_status(out);
    }
    rest.argc--;
    rest.argv++;
    if (strcmp(c->argv[0], "keys") == 0)
        return gr_keys_help(&rest, out);
    about = find_verb(c->argv[0]);
    if (!about && gr_own_command_is(c, c->argv[0])) {
        gr_own_command_help(&rest, c->argv[0], out);
        return gr_text_status(out);
    }
    if (!about)
        return unknown_command(c, c->argv[0]);
    about->show_help(&rest, out);
    return gr_text_status(out);
}

static bool asks_for_help(const gr_command *c)
{
    for (int i = 0; i < c->argc && strcmp(c->argv[i], "--") != 0; i++)
        if (strcmp(c->argv[i], "--help") == 0 || strcmp(c->argv[i], "-h") == 0)
            return true;
    return false;
}

/* The command that the task of flags and file names. */
static gr_status verb_of_task(const gr_command *c, const gr_verb **verb)
{
    gr_request r;
    gr_status st = gr_request_read(&r, c);
    const char *name = st == GR_OK ? gr_settings_text(r.o.settings, "task") : NULL;

    if (st == GR_OK) {
        *verb = find_verb(name);
        if (!*verb)
            st = gr_settings_fail(r.o.settings, "task", "there is no command '%s'", name);
    }
    gr_request_fini(&r);
    return st;
}

/* A word is stronger than the file, and a flag may only repeat it. */
static gr_status check_task(const gr_command *c, const gr_verb *verb)
{
    gr_request r;
    gr_status st = gr_request_read(&r, c);

    if (st == GR_OK && gr_settings_slot(r.o.settings, "task")->origin.kind == GR_FROM_FLAG &&
        strcmp(gr_settings_text(r.o.settings, "task"), verb->name) != 0)
        st = gr_settings_fail(r.o.settings, "task",
                              "'%s', but the command is '%s'; leave one of "
                              "them out",
                              gr_settings_text(r.o.settings, "task"), verb->name);
    gr_request_fini(&r);
    return st;
}

/* ---- flags before the command ---- */

typedef struct search {
    const char *sure, *maybe; /* the command's word: points into argv */
    bool has_other;           /* a word that is none came first */
} search;

static gr_status take_word(void *arg, const char *word, bool after_unknown)
{
    search *s = arg;

    if (after_unknown)
        s->maybe = s->maybe || !find_verb(word) ? s->maybe : word;
    else if (!s->sure && !s->has_other && find_verb(word))
        s->sure = word;
    else
        s->has_other = true;
    return GR_OK;
}

static bool is_verb(void *arg, const char *word)
{
    (void)arg;
    return find_verb(word) != NULL;
}

/* Launchers put "--local-rank=0" before everything: the command's word goes to the front of
 * them. Values that are wrong are told later. */
static gr_status front_verb(int argc, char **argv)
{
    search s = { 0 };
    gr_words w = { .extra = take_word, .is_apart = is_verb, .arg = &s };
    gr_train_options o;
    const char *word;
    gr_status st;

    GR_TRY(gr_train_options_init(&o, NULL));
    o.settings->is_lenient = true;
    st = gr_settings_take_words(o.settings, argc - 1, argv + 1, &w);
    gr_train_options_fini(&o);
    word = s.sure ? s.sure : s.maybe;
    if (st == GR_ERR_NOMEM || !word)
        return st == GR_ERR_NOMEM ? st : GR_OK;
    for (int i = 2; i < argc; i++) {
        char *found = argv[i];

        if (found != word)
            continue;
        memmove(argv + 2, argv + 1, (size_t)(i - 1) * sizeof(*argv));
        argv[1] = found;
        break;
    }
    return GR_OK;
}

gr_status gr_command_choose(gr_command *c, int argc, char **argv, const gr_verb **verb,
                            bool *wants_help)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    bool is_flag;

    *wants_help = false;
    if (!word)
        return gr_fail(GR_ERR_ARG, "say what to do: gradus train RECIPE; see 'gradus help'");
    if (word[0] == '-' && strcmp(word, "--help") != 0 && strcmp(word, "-h") != 0 &&
        strcmp(word, "--version") != 0)
        GR_TRY(front_verb(argc, argv));
    word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        word = "help";
    if (strcmp(word, "--version") == 0)
        word = "version";
    is_flag = word[0] == '-';
    c->argc = argc - (is_flag ? 1 : 2);
    c->argv = argv + (is_flag ? 1 : 2);
    *wants_help = asks_for_help(c);
    if (is_flag && *wants_help)
        *verb = find_verb("train");
    else if (is_flag)
        GR_TRY(verb_of_task(c, verb));
    else
        *verb = find_verb(word);
    if (!*verb && gr_own_command_is(c, word)) {
        *verb = &own_verb;
        c->verb = word;
        return GR_OK;
    }
    if (!*verb)
        return unknown_command(c, word);
    c->verb = (*verb)->name;
    if (is_flag)
        return GR_OK;
    return (*verb)->use & GR_VERB_TASK && !*wants_help ? check_task(c, *verb) : GR_OK;
}

/*
 * The first look. A word that is neither flag nor value names the recipe. After a flag that
 * is not known (yet) a word may be its value: it counts as the recipe only when it is the name
 * of one, and neither another word nor a setting names one.
 */
#include "train/config/request.h"

#include "base/option.h"
#include "gradus/ckpt.h"
#include "train/checkpoint.h"
#include "train/config/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_RECIPES 64

static bool is_recipe(const gr_command *c, const char *word)
{
    for (int i = 0; c->recipes[i]; i++)
        if (strcmp(c->recipes[i]->name, word) == 0)
            return true;
    return false;
}

typedef struct look {
    const gr_command *command;
    const char *sure, *maybe; /* the recipe's word: points into argv */
} look;

static bool is_apart(void *arg, const char *word)
{
    return is_recipe(((look *)arg)->command, word);
}

static gr_status extra(void *arg, const char *word, bool after_unknown)
{
    look *l = arg;

    if (after_unknown) {
        if (!l->maybe && is_recipe(l->command, word))
            l->maybe = word;
        return GR_OK;
    }
    if (l->sure)
        return gr_fail(GR_ERR_ARG, "unexpected word '%s'; flags begin with '--'", word);
    l->sure = word;
    return GR_OK;
}

static gr_status copy_words(gr_request *r, const gr_command *c, const char *without)
{
    r->argv = gr_arena_array(r->o.settings->arena, (size_t)c->argc + 1, sizeof(*r->argv));
    if (!r->argv)
        return GR_ERR_NOMEM;
    for (int i = 0; i < c->argc; i++)
        if (c->argv[i] != without)
            r->argv[r->argc++] = c->argv[i];
    return GR_OK;
}

gr_status gr_request_read(gr_request *r, const gr_command *c)
{
    look l = { .command = c };
    gr_words w = { .extra = extra, .is_apart = is_apart, .arg = &l };
    const char *word;

    *r = (gr_request){ .verb = c->verb };
    GR_TRY(gr_train_options_init(&r->o, NULL));
    r->o.settings->is_lenient = true;
    r->o.settings->recipes = c->recipes;
    GR_TRY(gr_train_options_look(&r->o, c->argc > 0 ? c->argc : 0, c->argv, &w));
    word = l.sure ? l.sure : l.maybe;
    if (!l.sure && l.maybe && r->o.recipe && strcmp(l.maybe, r->o.recipe) != 0)
        word = NULL;
    if (word && gr_settings_slot(r->o.settings, "recipe")->origin.kind == GR_FROM_FLAG &&
        strcmp(word, r->o.recipe) != 0)
        return gr_settings_fail(r->o.settings, "recipe", "'%s', but the word '%s' names one, too",
                                r->o.recipe, word);
    r->word = word ? word : r->o.recipe;
    r->has_task = gr_settings_given(r->o.settings, "task");
    return copy_words(r, c, word);
}

void gr_request_fini(gr_request *r)
{
    gr_train_options_fini(&r->o);
}

static gr_status unknown_recipe(const gr_command *c, const char *word)
{
    const char *names[MAX_RECIPES + 1] = { NULL };
    const char *near;

    for (int i = 0; i < MAX_RECIPES && c->recipes[i]; i++)
        names[i] = c->recipes[i]->name;
    near = gr_nearest(word, names);
    if (near)
        return gr_fail(GR_ERR_ARG, "there is no recipe '%s'; did you mean '%s'?", word, near);
    return gr_fail(GR_ERR_ARG, "there is no recipe '%s'; 'gradus list' shows them", word);
}

static const gr_recipe *recipe_in(const gr_command *c, const gr_snapshot *texts)
{
    const char *name = gr_snapshot_get(texts, GR_KEY_RECIPE);

    for (int i = 0; name && c->recipes[i]; i++)
        if (strcmp(c->recipes[i]->name, name) == 0)
            return c->recipes[i];
    return NULL;
}

/* The recipe that a checkpoint says it is of; NULL: it does not say. */
static gr_status recipe_of_file(const gr_command *c, const char *path, const gr_recipe **out)
{
    gr_snapshot *texts;

    GR_TRY(gr_ckpt_peek(path, &texts));
    *out = recipe_in(c, texts);
    gr_snapshot_destroy(texts);
    return GR_OK;
}

/* By the newest whole one: a whole read, so only where a look at the usual ones did not tell. */
static gr_status recipe_of_newest(const gr_command *c, const char *folder, const gr_recipe **out)
{
    gr_snapshot *snap;
    char *path, *note;

    GR_TRY(gr_ckpt_find(folder, GR_CKPT_LAST, &snap, &path, &note));
    *out = recipe_in(c, snap);
    gr_snapshot_destroy(snap);
    free(path);
    free(note);
    return GR_OK;
}

static gr_status recipe_of_folder(const gr_command *c, gr_arena *arena, const char *folder,
                                  const gr_recipe **out)
{
    static const char *const names[] = { "last.safetensors", "last.pt", "best_model.safetensors",
                                         "best_model.pt" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *path = gr_arena_printf(arena, "%s/%s", folder, names[i]);

        if (!path)
            return GR_ERR_NOMEM;
        if (access(path, R_OK) == 0 && recipe_of_file(c, path, out) == GR_OK && *out)
            return GR_OK;
    }
    return recipe_of_newest(c, folder, out);
}

/* A command that goes on from a run, or uses it, need not say the recipe again. *out is NULL
 * where no run is named. */
static gr_status recipe_of_run(const gr_request *r, const gr_command *c, const gr_recipe **out)
{
    const char *word = r->o.checkpoint ? r->o.checkpoint : r->o.resume;
    bool may_be_new = word && (!*word || strcmp(word, "auto") == 0);
    gr_arena *arena = r->o.settings->arena;
    const char *inner;
    struct stat info;

    if (!word)
        return GR_OK;
    if (!*word || strcmp(word, "best") == 0 || strcmp(word, "last") == 0 ||
        strcmp(word, "auto") == 0) {
        word = r->o.output_dir;
        if (r->o.run_id)
            word = gr_arena_printf(arena, "%s/%s", word ? word : GR_RUNS, r->o.run_id);
    }
    if (!word || (may_be_new && access(word, F_OK) != 0))
        return GR_OK;
    if (stat(word, &info) != 0)
        return gr_fail(GR_ERR_IO, "cannot open '%s': %s", word, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return recipe_of_file(c, word, out);
    if (!(inner = gr_arena_printf(arena, "%s/%s", word, GR_CKPT_FOLDER)))
        return GR_ERR_NOMEM;
    word = access(inner, F_OK) == 0 ? inner : word;
    return may_be_new && gr_ckpt_count(word) == 0 ? GR_OK : recipe_of_folder(c, arena, word, out);
}

/* ---- no recipe was named ---- */

/* The names of a recipe may depend on it. */
static int task_of(const char *verb)
{
    if (verb && strcmp(verb, "predict") == 0)
        return GR_TASK_PREDICT;
    return verb && strcmp(verb, "test") == 0 ? GR_TASK_TEST : GR_TASK_TRAIN;
}

/* Whether every setting is known with this recipe, and one of them is its own. A value that is
 * wrong counts as no. *why: what it would refuse; NULL: nothing. */
static gr_status knows_all(const gr_request *r, const gr_recipe *recipe, bool *out,
                           const char **why)
{
    gr_train_options o;
    gr_status st;

    *out = false;
    *why = NULL;
    if (recipe->abi != GR_RECIPE_ABI)
        return GR_OK;
    GR_TRY(gr_train_options_init(&o, recipe));
    o.settings->task = task_of(r->verb);
    st = gr_train_options_parse(&o, r->argc, r->argv);
    for (int i = gr_n_rows; st == GR_OK && i < o.settings->n_slots; i++)
        *out |= o.settings->slots[i].origin.kind > GR_FROM_SAVED;
    if (st != GR_OK && st != GR_ERR_NOMEM) {
        *why = gr_arena_strdup(r->o.settings->arena, gr_error_message());
        st = *why ? GR_OK : GR_ERR_NOMEM;
    }
    gr_train_options_fini(&o);
    return st;
}

/* "train", and "debug --nan", which nobody says without. */
static const char *verb_of(const gr_command *c)
{
    if (c->verb && strcmp(c->verb, "debug") == 0)
        return "debug --nan";
    return c->verb ? c->verb : "train";
}

/* wrong: what every recipe would refuse, such as a flag that nobody knows; or NULL. */
static gr_status no_recipe(const gr_command *c, const char *file, const char *wrong)
{
    gr_text names = GR_TEXT_INIT;
    gr_status st;

    for (int i = 0; c->recipes[i]; i++)
        gr_text_addf(&names, "%s%s", i ? ", " : "", c->recipes[i]->name);
    if (file && !wrong)
        st = gr_fail(GR_ERR_ARG,
                     "'%s' does not say what to train: write 'recipe: NAME' in it, or 'gradus %s "
                     "NAME --config %s'; the recipes are %s",
                     file, verb_of(c), file, gr_text_str(&names));
    else
        st = gr_fail(GR_ERR_ARG,
                     "%s%ssay what to train: a recipe's name as the first word, as in 'gradus "
                     "%s NAME', or the key 'recipe' in the file; the recipes are %s",
                     wrong ? wrong : "", wrong ? "; and " : "", verb_of(c), gr_text_str(&names));
    gr_text_fini(&names);
    return st;
}

/* The only recipe that knows all settings, if there is just one. */
static gr_status guess(const gr_request *r, const gr_command *c, const gr_recipe **out)
{
    const gr_recipe *found = NULL;
    const char *why, *wrong = NULL;
    int n_found = 0;

    for (int i = 0; c->recipes[i]; i++) {
        bool fits;

        GR_TRY(knows_all(r, c->recipes[i], &fits, &why));
        found = fits ? c->recipes[i] : found;
        n_found += fits;
        if (i == 0)
            wrong = why;
        else if (wrong && (!why || strcmp(wrong, why) != 0))
            wrong = NULL;
    }
    if (n_found != 1)
        return no_recipe(c, r->o.config, wrong);
    *out = found;
    return GR_OK;
}

static gr_status nobody_named(const gr_request *r, const gr_command *c, const gr_recipe **out)
{
    const char *word = r->o.checkpoint ? r->o.checkpoint : r->o.resume, *why = NULL;
    gr_status run_st = recipe_of_run(r, c, out), st;

    if (run_st == GR_OK && *out)
        return GR_OK;
    if (run_st != GR_OK && !(why = gr_arena_strdup(r->o.settings->arena, gr_error_message())))
        return GR_ERR_NOMEM;
    st = guess(r, c, out);
    if (st != GR_ERR_ARG || !word)
        return st;
    if (why)
        return gr_fail(run_st, "%s", why);
    return gr_fail(GR_ERR_ARG,
                   "'%s' does not tell the recipe: say it, as in 'gradus %s RECIPE'; 'gradus "
                   "list' shows the recipes",
                   word, verb_of(c));
}

gr_status gr_request_recipe(const gr_request *r, const gr_command *c, const gr_recipe **out)
{
    const gr_recipe *recipe = NULL;

    if (!r->word)
        GR_TRY(nobody_named(r, c, &recipe));
    for (int i = 0; c->recipes[i] && !recipe; i++)
        if (strcmp(c->recipes[i]->name, r->word) == 0)
            recipe = c->recipes[i];
    if (!recipe)
        return unknown_recipe(c, r->word);
    if (recipe->abi != GR_RECIPE_ABI)
        return gr_fail(GR_ERR_ARG, "recipe '%s' was built for interface %u, this program has %u",
                       recipe->name, (unsigned)recipe->abi, (unsigned)GR_RECIPE_ABI);
    *out = recipe;
    return GR_OK;
}

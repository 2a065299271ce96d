/* Help for `gradus train`, and the list of settings. */
#include "base/alloc.h"
#include "base/option.h"
#include "train/config/settings.h"
#include "train/options.h"
#include "train/train.h"

#include <string.h>

void gr_train_help(const gr_command *c, gr_text *out)
{
    const char *word = c->argc > 0 && c->argv[0][0] != '-' ? c->argv[0] : NULL;
    const gr_recipe *recipe = c->recipes[0];
    bool found = false;
    gr_train_options o;

    GR_BUG_IF(!recipe); /* main() brings at least one */
    gr_text_add(out, "usage: gradus train RECIPE [FLAG...]\n\n"
                     "Trains on this process, or on all ranks when started by gradrun:\n"
                     "  gradrun --nproc-per-node 2 gradus train RECIPE [FLAG...]\n\nRecipes:\n");
    for (int i = 0; c->recipes[i]; i++) {
        gr_text_addf(out, "  %s  %s\n", c->recipes[i]->name, c->recipes[i]->help);
        if (word && strcmp(word, c->recipes[i]->name) == 0) {
            recipe = c->recipes[i];
            found = true;
        }
    }
    if (word && !found)
        gr_text_addf(out, "There is no recipe '%s'.\n", word);
    gr_text_addf(out, "\nSettings, with the values for %s:\n", recipe->name);
    if (gr_train_options_init(&o, recipe) != GR_OK)
        gr_text_addf(out, "  %s\n", gr_error_message()); /* a recipe with a wrong table */
    else
        gr_train_options_help(&o, out);
    gr_train_options_fini(&o);
    gr_text_add(
        out,
        "\nA first SIGINT (Ctrl-C), SIGTERM or SIGHUP ends the run after its step and saves it;\n"
        "more within 2 s are the same stop, one after 3 s ends it at once.\n"
        "Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 128+N stopped by signal N\n"
        "and saved; docs/errors.md has the rest.\n");
}

/* The nearest name among the trainer's and the recipe's; false: none is near. */
static bool find_near(const gr_recipe *recipe, const char *word, gr_text *out)
{
    gr_train_options o;
    const char **names = NULL, *near = NULL;

    if (gr_train_options_init(&o, recipe) == GR_OK)
        names = gr_calloc((size_t)o.settings->n_ways + 1, sizeof(*names));
    for (int i = 0; names && i < o.settings->n_ways; i++)
        names[i] = o.settings->ways[i].alias.name;
    if (names)
        near = gr_nearest(word, names);
    gr_text_add(out, near ? near : "");
    gr_free(names);
    gr_train_options_fini(&o);
    return near != NULL;
}

static gr_status no_such_key(const gr_command *c, const gr_recipe *recipe, const char *word)
{
    gr_text near = GR_TEXT_INIT;
    bool found = recipe && find_near(recipe, word, &near);
    gr_status st;

    for (int i = 0; !recipe && !found && c->recipes[i]; i++)
        found = find_near(c->recipes[i], word, &near);
    if (found)
        st = gr_fail(GR_ERR_ARG, "no setting has '%s' in its name; did you mean '%s'?", word,
                     gr_text_str(&near));
    else
        st = gr_fail(GR_ERR_ARG, "no setting has '%s' in its name; 'gradus help keys' lists all",
                     word);
    gr_text_fini(&near);
    return st;
}

/* Of the trainer and of this recipe, or of all. */
static gr_status find_keys(const gr_command *c, const gr_recipe *recipe, const char *word,
                           gr_text *out)
{
    gr_train_options o;
    int n = 0;

    GR_TRY(gr_train_options_init(&o, recipe));
    n += gr_train_options_like(&o, word, false, out);
    gr_train_options_fini(&o);
    for (int i = 0; c->recipes[i]; i++) {
        gr_text own = GR_TEXT_INIT;
        int n_own;

        if (recipe && recipe != c->recipes[i])
            continue;
        GR_TRY(gr_train_options_init(&o, c->recipes[i]));
        n_own = gr_train_options_like(&o, word, true, &own);
        if (n_own > 0)
            gr_text_addf(out, "\nof recipe %s:\n%s", c->recipes[i]->name, gr_text_str(&own));
        n += n_own;
        gr_text_fini(&own);
        gr_train_options_fini(&o);
    }
    return n > 0 ? gr_text_status(out) : no_such_key(c, recipe, word);
}

/* Names that recipes add to the trainer's. */
static gr_status add_own_keys(const gr_command *c, gr_text *out)
{
    for (int i = 0; c->recipes[i]; i++) {
        gr_train_options o;

        if (c->recipes[i]->n_keys > 0) {
            GR_TRY(gr_train_options_init(&o, c->recipes[i]));
            gr_text_addf(out, "\nOf recipe %s:\n", c->recipes[i]->name);
            gr_train_options_own_keys(&o, out);
            gr_train_options_fini(&o);
        }
        gr_recipe_aliases_print(c->recipes[i], out);
    }
    return GR_OK;
}

gr_status gr_keys_help(const gr_command *c, gr_text *out)
{
    const gr_recipe *recipe = NULL;
    gr_train_options o;

    for (int i = 0; c->argc > 0 && c->recipes[i]; i++)
        if (strcmp(c->argv[0], c->recipes[i]->name) == 0)
            recipe = c->recipes[i];
    if (c->argc > (recipe ? 2 : 1))
        return gr_fail(GR_ERR_ARG, "help keys: takes a recipe and one word, not '%s'",
                       c->argv[c->argc - 1]);
    if (c->argc > (recipe ? 1 : 0))
        return find_keys(c, recipe, c->argv[c->argc - 1], out);
    GR_TRY(gr_train_options_init(&o, recipe));
    gr_train_options_keys(&o, out);
    gr_train_options_fini(&o);
    if (recipe) {
        gr_recipe_aliases_print(recipe, out);
        gr_presets_print(recipe, out);
    } else {
        GR_TRY(add_own_keys(c, out));
    }
    return gr_text_status(out);
}

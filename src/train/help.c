/* Help for `gradus train`, and the list of settings. */
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
        "a second one ends it at once.\n"
        "Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 128+N stopped by signal N\n"
        "and saved; docs/errors.md has the rest.\n");
}

gr_status gr_keys_help(const gr_command *c, gr_text *out)
{
    const gr_recipe *recipe = NULL;
    gr_train_options o;

    for (int i = 0; c->argc > 0 && c->recipes[i]; i++)
        if (strcmp(c->argv[0], c->recipes[i]->name) == 0)
            recipe = c->recipes[i];
    GR_TRY(gr_train_options_init(&o, recipe));
    gr_train_options_keys(&o, out);
    gr_train_options_fini(&o);
    return gr_text_status(out);
}

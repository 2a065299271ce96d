/*
 * The first look. A word that is neither flag nor value names the recipe. After a flag that
 * is not known (yet) a word may be its value: it counts as the recipe only when it is the name
 * of one and no other word is.
 */
#include "train/config/request.h"

#include "base/option.h"
#include "train/config/table.h"

#include <string.h>

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

    *r = (gr_request){ 0 };
    GR_TRY(gr_train_options_init(&r->o, NULL));
    r->o.settings->is_lenient = true;
    GR_TRY(gr_train_options_look(&r->o, c->argc > 0 ? c->argc : 0, c->argv, &w));
    word = l.sure ? l.sure : l.maybe;
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

gr_status gr_request_recipe(const gr_request *r, const gr_command *c, const gr_recipe **out)
{
    const gr_recipe *recipe = NULL;

    if (!r->word)
        return gr_fail(GR_ERR_ARG, "say what to train: 'gradus train RECIPE', or the key 'recipe' "
                                   "in the file; 'gradus list' shows the recipes");
    for (int i = 0; c->recipes[i] && !recipe; i++)
        if (strcmp(c->recipes[i]->name, r->word) == 0)
            recipe = c->recipes[i];
    if (!recipe)
        return unknown_recipe(c, r->word);
    if (recipe->abi != GR_RECIPE_ABI)
        return gr_fail(GR_ERR_ARG, "recipe '%s' was built for interface %u, this program has %u",
                       r->word, (unsigned)recipe->abi, (unsigned)GR_RECIPE_ABI);
    *out = recipe;
    return GR_OK;
}

/*
 * Commands of recipes: `gradus sample-data seg DIR`. Where several recipes have one of a name, the
 * first word says whose is meant; it may be left out where one alone has it.
 */
#include "train/own_command.h"

#include "base/alloc.h"
#include "base/shown.h"
#include "train/config/print.h"
#include "train/config/settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const gr_recipe_command *find(const gr_recipe *r, const char *name)
{
    for (int i = 0; r->abi == GR_RECIPE_ABI && i < r->n_commands; i++)
        if (strcmp(r->commands[i].name, name) == 0)
            return &r->commands[i];
    return NULL;
}

bool gr_own_command_is(const gr_command *c, const char *name)
{
    for (int i = 0; c->recipes[i]; i++)
        if (find(c->recipes[i], name))
            return true;
    return false;
}

/* *n_words: of the words that named it, 1 or 0. */
static gr_status choose(const gr_command *c, const gr_recipe_command **out, int *n_words)
{
    gr_text names = GR_TEXT_INIT;
    int n = 0;
    gr_status st = GR_OK;

    *n_words = 0;
    for (int i = 0; c->recipes[i]; i++) {
        const gr_recipe_command *own = find(c->recipes[i], c->verb);

        if (!own)
            continue;
        gr_text_addf(&names, "%s%s", n++ ? ", " : "", c->recipes[i]->name);
        *out = own;
        if (c->argc > 0 && strcmp(c->argv[0], c->recipes[i]->name) == 0) {
            *n_words = 1;
            break;
        }
    }
    if (n != 1 && *n_words == 0)
        st = gr_fail(GR_ERR_ARG,
                     "several recipes have the command '%s': gradus %s RECIPE ..., of %s", c->verb,
                     c->verb, gr_text_str(&names));
    gr_text_fini(&names);
    return st;
}

/* ---- settings and words ---- */

typedef struct words {
    const char **list;
    int n;
} words;

static gr_status take_word(void *arg, const char *word, bool after_unknown)
{
    words *w = arg;

    (void)after_unknown;
    w->list[w->n++] = word;
    return GR_OK;
}

static gr_status run_it(const gr_command *c, const gr_recipe_command *own, int argc, char **argv,
                        words *w)
{
    gr_settings *s = NULL;
    gr_words how = { .extra = take_word, .arg = w };
    gr_recipe_call call = { .out = c->out };
    gr_status st;

    GR_TRY(gr_settings_create(&s, own->keys, own->n_keys));
    s->listed_by = own->name;
    st = gr_settings_take_words(s, argc, argv, &how);
    call.settings = s;
    call.words = w->list;
    call.n_words = w->n;
    if (st == GR_OK && w->n > own->n_words)
        st = gr_fail(GR_ERR_ARG, "unexpected word '%s'; flags begin with '--'",
                     w->list[own->n_words]);
    if (st == GR_OK && w->n < own->n_words)
        st = gr_fail(GR_ERR_ARG, "say %s; see 'gradus %s --help'", own->words, own->name);
    if (st == GR_OK)
        st = own->run(&call);
    gr_settings_destroy(s);
    return gr_wrap(st, "%s", own->name);
}

gr_status gr_own_command_run(const gr_command *c)
{
    const gr_recipe_command *own = NULL;
    words w = { 0 };
    int n_named;
    gr_status st;

    GR_TRY(choose(c, &own, &n_named));
    GR_BUG_IF(!own); /* whoever came here has asked */
    w.list = gr_calloc((size_t)c->argc + 1, sizeof(*w.list));
    if (!w.list)
        return GR_ERR_NOMEM;
    st = run_it(c, own, c->argc - n_named, c->argv + n_named, &w);
    gr_free(w.list);
    return st;
}

void gr_say(const gr_recipe_call *call, const char *fmt, ...)
{
    gr_text line = GR_TEXT_INIT;
    char text[4096];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    gr_text_addf(&line, "%s\n", text);
    gr_shown_printf(call->out, GR_SHOWN_LINES, "%s", gr_text_str(&line));
    gr_text_fini(&line);
}

/* ---- help ---- */

static void add_key(const gr_settings *s, int i, gr_text *out)
{
    const gr_slot *slot = &s->slots[i];
    gr_text left = GR_TEXT_INIT;

    gr_text_addf(&left, "  --%s%s", slot->key->name,
                 slot->key->kind == GR_KEY_BOOL     ? ""
                 : slot->key->kind == GR_KEY_CHOICE ? " "
                                                    : " VALUE");
    if (slot->key->kind == GR_KEY_CHOICE)
        gr_text_add(&left, slot->key->choices);
    gr_text_addf(out, "%-34s %s", gr_text_str(&left), slot->key->help ? slot->key->help : "");
    if (slot->value.n > 0) {
        gr_text_add(out, " [");
        gr_setting_print(slot->key, &slot->value, GR_FORM_LINE, out);
        gr_text_add(out, "]");
    }
    gr_text_add(out, "\n");
    gr_text_fini(&left);
}

static void help_of(const gr_recipe *r, const gr_recipe_command *own, bool is_alone, gr_text *out)
{
    gr_settings *s = NULL;

    gr_text_addf(out, "usage: gradus %s%s%s%s%s%s\n\nOf recipe %s: %s\n\n", own->name,
                 is_alone ? "" : " ", is_alone ? "" : r->name, own->words ? " " : "",
                 own->words ? own->words : "", own->n_keys ? " [FLAG...]" : "", r->name, own->help);
    if (gr_settings_create(&s, own->keys, own->n_keys) != GR_OK) {
        gr_text_addf(out, "  %s\n", gr_error_message()); /* a recipe with a wrong table */
        return;
    }
    for (int i = 0; i < s->n_slots; i++)
        add_key(s, i, out);
    gr_settings_destroy(s);
}

void gr_own_command_help(const gr_command *c, const char *name, gr_text *out)
{
    const char *word = c->argc > 0 ? c->argv[0] : "";
    bool is_named = false;
    int n = 0;

    for (int i = 0; c->recipes[i]; i++) {
        n += find(c->recipes[i], name) != NULL;
        is_named =
            is_named || (find(c->recipes[i], name) && strcmp(c->recipes[i]->name, word) == 0);
    }
    for (int i = 0; c->recipes[i]; i++) {
        const gr_recipe_command *own = find(c->recipes[i], name);

        if (own && (!is_named || strcmp(c->recipes[i]->name, word) == 0))
            help_of(c->recipes[i], own, n == 1, out);
    }
}

void gr_own_commands_list(const gr_command *c, gr_text *out)
{
    for (int i = 0; c->recipes[i]; i++)
        for (int k = 0; c->recipes[i]->abi == GR_RECIPE_ABI && k < c->recipes[i]->n_commands; k++)
            gr_text_addf(out, "  %-9s%s%s (recipe %s)\n", c->recipes[i]->commands[k].name,
                         strlen(c->recipes[i]->commands[k].name) > 8 ? "  " : "",
                         c->recipes[i]->commands[k].help, c->recipes[i]->name);
}

int gr_own_commands_names(const gr_command *c, const char **names)
{
    int n = 0;

    for (int i = 0; c->recipes[i]; i++)
        for (int k = 0; c->recipes[i]->abi == GR_RECIPE_ABI && k < c->recipes[i]->n_commands; k++) {
            if (names)
                names[n] = c->recipes[i]->commands[k].name;
            n++;
        }
    return n;
}

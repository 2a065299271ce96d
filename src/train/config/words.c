/*
 * Settings from words: "--lr 1e-3", "--lr=1e-3", "--use_amp". A name of the tables that begins
 * with one dash ("-b") takes one; all others take two.
 */
#include "train/config/settings.h"

#include <string.h>

typedef struct reader {
    gr_settings *s;
    const gr_words *w;
    int argc, at;
    char **argv;
    bool after_unknown;
} reader;

static bool is_switch(const reader *r, const gr_way *way)
{
    return way->alias.on ? way->alias.off != NULL : r->s->slots[way->slot].key->kind == GR_KEY_BOOL;
}

static bool is_bool_word(const char *word)
{
    bool on;

    return word[0] > '9' && !gr_scalar_bool(&(gr_tree){ .type = GR_TREE_TEXT, .text = word }, &on);
}

/* The value that follows a flag; NULL with GR_OK: there is none and need not be. */
static gr_status next_value(reader *r, const gr_way *way, const gr_origin *from, const char **out)
{
    const char *next = r->at < r->argc ? r->argv[r->at] : NULL;
    bool optional = way->alias.on && !way->alias.off;

    if (is_switch(r, way) && !(next && is_bool_word(next)))
        return GR_OK;
    if (optional &&
        (!next || next[0] == '-' || (r->w->is_apart && r->w->is_apart(r->w->arg, next))))
        return GR_OK;
    if (!next)
        return gr_fail(GR_ERR_ARG, "flag '%s' needs a value", from->name);
    if (strncmp(next, "--", 2) == 0)
        return gr_fail(GR_ERR_ARG,
                       "flag '%s' needs a value, but '%s' follows; write '%s=%s' if that is the "
                       "value",
                       from->name, next, from->name, next);
    *out = next;
    r->at++;
    return GR_OK;
}

/* The flag at r->at and its value. */
static gr_status take_flag(reader *r)
{
    const char *word = r->argv[r->at++];
    const char *name = word[1] == '-' ? word + 2 : word;
    size_t n = strcspn(name, "=");
    const char *value = name[n] == '=' ? name + n + 1 : NULL;
    gr_origin from = { .kind = GR_FROM_FLAG,
                       .name =
                           gr_arena_printf(r->s->arena, "%.*s", (int)strcspn(word, "="), word) };
    const char *bare = from.name ? gr_arena_printf(r->s->arena, "%.*s", (int)n, name) : NULL;
    const gr_way *way = gr_settings_said(r->s, name, n, GR_FROM_FLAG);

    if (!bare)
        return GR_ERR_NOMEM;
    r->after_unknown = !way && !value;
    if (!way && r->s->is_lenient)
        return GR_OK;
    if (!way)
        return gr_settings_unknown(r->s, &from, bare + strspn(bare, "-"));
    if (!value)
        GR_TRY(next_value(r, way, &from, &value));
    if (!value)
        value = is_switch(r, way) ? "true" : way->alias.on;
    return gr_settings_forgive(r->s, bare, gr_settings_put_word(r->s, way, value, &from));
}

static gr_status take_extra(reader *r)
{
    const char *word = r->argv[r->at++];
    bool after_unknown = r->after_unknown;

    r->after_unknown = false;
    if (r->w->extra)
        return r->w->extra(r->w->arg, word, after_unknown);
    return gr_fail(GR_ERR_ARG, "unexpected word '%s'; flags begin with '--'", word);
}

gr_status gr_settings_take_words(gr_settings *s, int argc, char **argv, const gr_words *w)
{
    reader r = { .s = s, .w = w, .argc = argc, .argv = argv };
    bool only_extra = false;

    while (r.at < argc) {
        const char *word = argv[r.at];

        if (!only_extra && strcmp(word, "--") == 0) {
            only_extra = true;
            r.at++;
        } else if (!only_extra && word[0] == '-' && word[1]) {
            GR_TRY(take_flag(&r));
        } else {
            GR_TRY(take_extra(&r));
        }
    }
    return GR_OK;
}

gr_status gr_settings_words(gr_settings *s, int argc, char **argv)
{
    return gr_settings_take_words(s, argc, argv, &(gr_words){ 0 });
}

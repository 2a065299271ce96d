/*
 * Settings that a file of a run brings along: its checkpoint, or its config.yaml.
 *
 * Such a file may come from anyone, and going on from it must not do more than training as it
 * says. So what it is asked for is decided here, by the rows of the settings:
 *
 *     the row                          a checkpoint's      the record's of a run, by --config
 *     a checkpoint does not keep it    never taken         taken
 *     it WRITES                        never taken         of one's own run only
 *     it leads AWAY                    of one's own run    of one's own run only
 *     any other                        taken               taken
 *
 * What is left out is kept by name, for one line. Whose run it is, train/own.c says.
 */
#include "train/config/saved.h"

#include "base/log.h"
#include "train/config/table.h"

#include <string.h>

#define MOST_NAMES 8 /* that a line has; there may be any number */

bool gr_settings_may_take(const gr_settings *s, const gr_slot *slot, const gr_origin *from)
{
    if (from->kind == GR_FROM_SAVED)
        return slot->is_saved && !(slot->reach & GR_KEY_WRITES) &&
               (s->is_own || !(slot->reach & GR_KEY_AWAY));
    return from->kind != GR_FROM_FILE || !s->is_foreign || !slot->reach;
}

void gr_ignored_add(gr_ignored *g, const char *name)
{
    if (g->n++ < MOST_NAMES)
        gr_text_addf(&g->names, "%s%s", g->names.len ? ", " : "", name);
}

void gr_ignored_fini(gr_ignored *g)
{
    gr_text_fini(&g->names);
}

static void print_names(const gr_ignored *g, const char *why, gr_text *out)
{
    if (g->n == 0)
        return;
    gr_text_addf(out, "%s%s", out->len ? "; " : "", gr_text_str(&g->names));
    if (g->n > MOST_NAMES)
        gr_text_addf(out, " and %d more", g->n - MOST_NAMES);
    gr_text_addf(out, " (%s)", why);
}

void gr_train_options_say_ignored(const gr_train_options *o, bool of_file)
{
    static const char why[] = "leads out of the run, which you did not begin here: say it yourself "
                              "if it is meant";
    const gr_ignored *g = o->settings->ignored;
    gr_text text = GR_TEXT_INIT;

    if (of_file) {
        print_names(&g[GR_IGNORED_FILE], why, &text);
    } else {
        print_names(&g[GR_IGNORED_UNKNOWN], "no setting that checkpoints keep", &text);
        print_names(&g[GR_IGNORED_AWAY], why, &text);
    }
    if (text.len > 0)
        gr_log(TRAIN, WARN, "settings of %s that are ignored: %s",
               of_file ? o->config : "the checkpoint", gr_text_str(&text));
    gr_text_fini(&text);
}

/* ---- lines ---- */

static gr_status put_line(gr_settings *s, const char *line, size_t n_name, size_t n)
{
    const gr_way *way = gr_settings_way(s, line, n_name);
    const gr_slot *slot = way ? &s->slots[way->slot] : NULL;
    gr_origin from = { .kind = GR_FROM_SAVED,
                       .name = gr_arena_printf(s->arena, "%.*s", (int)n_name, line) };
    const char *word = gr_arena_printf(s->arena, "%.*s", (int)(n - n_name - 3), line + n_name + 3);

    if (!from.name || !word)
        return GR_ERR_NOMEM;
    if (slot && gr_settings_may_take(s, slot, &from))
        return gr_settings_put_word(s, &(gr_way){ .slot = way->slot }, word, &from);
    if (slot && slot->key->preset && strcmp(slot->key->preset, word) == 0)
        return GR_OK; /* it is that anyway */
    if (slot && slot->is_saved && !(slot->reach & GR_KEY_WRITES))
        gr_ignored_add(&s->ignored[GR_IGNORED_AWAY], from.name);
    else
        gr_ignored_add(&s->ignored[GR_IGNORED_UNKNOWN], from.name);
    return GR_OK;
}

gr_status gr_settings_put_saved(gr_settings *s, const char *saved)
{
    while (*saved) {
        size_t n = strcspn(saved, "\n");
        const char *mark = strstr(saved, " = ");

        if (n > GR_YAML_MAX_BYTES)
            return gr_fail(GR_ERR_FORMAT, "a setting in the checkpoint has %zu bytes", n);
        if (!mark || mark + 3 > saved + n)
            return gr_fail(GR_ERR_FORMAT, "setting '%.*s' in the checkpoint has no value",
                           (int)(n < 100 ? n : 100), saved);
        GR_TRY(put_line(s, saved, (size_t)(mark - saved), n));
        saved += n + (saved[n] == '\n');
    }
    return GR_OK;
}

/* ---- what a run cannot do without ---- */

/* Data are what a recipe finds by such a setting: other data in their place are no resumption. */
gr_status gr_train_options_check_away(const gr_train_options *o, const char *saved)
{
    const gr_settings *s = o->settings;

    for (int i = gr_n_rows; i < s->n_slots && !s->is_own; i++) {
        const char *name = s->slots[i].key->name, *at = saved;
        size_t n = strlen(name);

        if (!(s->slots[i].reach & GR_KEY_AWAY) || s->slots[i].origin.kind > GR_FROM_SAVED)
            continue;
        for (; *at; at += strcspn(at, "\n"), at += *at == '\n')
            if (strncmp(at, name, n) == 0 && strncmp(at + n, " = ", 3) == 0)
                return gr_fail(GR_ERR_ARG,
                               "the checkpoint says %s '%.*s', which is out of its run, and that "
                               "run was not begun here by you, or has been copied: give --%s "
                               "yourself",
                               name, (int)strcspn(at + n + 3, "\n"), at + n + 3, name);
    }
    return GR_OK;
}

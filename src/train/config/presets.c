/*
 * Presets of a recipe: weaker than whatever a user says, stronger than defaults. They may depend
 * on other settings and on the number of ranks, so they are put once those are known; and put
 * again, after the old ones were taken back, whenever these may have changed.
 */
#include "train/config/print.h"
#include "train/config/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gr_status wrap_row(const gr_settings *s, const gr_preset *p, gr_status st)
{
    return gr_wrap(st, "recipe '%s': preset of '%s'%s%s%s", s->recipe->name, p->key,
                   p->when ? " (" : "", p->when ? p->when : "", p->when ? ")" : "");
}

/* Whether the word says what the slot has. */
static gr_status has_value(gr_settings *s, const gr_slot *slot, const char *word, bool *out)
{
    gr_text want = GR_TEXT_INIT, has = GR_TEXT_INIT;
    gr_tree *t = NULL;
    gr_setting v;
    gr_status st;

    GR_TRY(gr_setting_word(s->arena, slot->key, word, slot->key->name, &t));
    GR_TRY(gr_setting_read(s->arena, slot->key, t, &v));
    gr_setting_print(slot->key, &v, GR_FORM_LINE, &want);
    gr_setting_print(slot->key, &slot->value, GR_FORM_LINE, &has);
    *out = strcmp(gr_text_str(&want), gr_text_str(&has)) == 0;
    st = gr_text_status(&want) == GR_OK ? gr_text_status(&has) : gr_text_status(&want);
    gr_text_fini(&want);
    gr_text_fini(&has);
    return st;
}

/* One "key=value" of a condition. */
static gr_status holds_one(gr_settings *s, const char *part, bool *out)
{
    const char *mark = strchr(part, '=');
    const char *key = mark ? gr_arena_printf(s->arena, "%.*s", (int)(mark - part), part) : NULL;
    const gr_slot *slot;

    if (!mark)
        return gr_fail(GR_ERR_ARG, "'%s' is no condition: write key=value", part);
    if (!key)
        return GR_ERR_NOMEM;
    if (strcmp(key, "ranks") == 0) {
        *out = strtol(mark + 1, NULL, 10) == (s->n_ranks > 0 ? s->n_ranks : 1);
        return GR_OK;
    }
    slot = gr_settings_slot(s, key);
    if (!slot)
        return gr_fail(GR_ERR_ARG, "the condition asks for '%s', and there is no such setting",
                       key);
    return has_value(s, slot, mark + 1, out);
}

static gr_status holds(gr_settings *s, const gr_preset *p, bool *out)
{
    const char *at = p->when ? p->when : "";

    *out = true;
    while (*at) {
        size_t n = strcspn(at, ",");
        const char *part = gr_arena_printf(s->arena, "%.*s", (int)n, at);
        bool one = false;

        if (!part)
            return GR_ERR_NOMEM;
        GR_TRY(holds_one(s, part, &one));
        *out = *out && one;
        at += n + strspn(at + n, ", ");
    }
    return GR_OK;
}

/* A row is read whether it holds or not, so that a wrong one is found by the first run. */
static gr_status put_row(gr_settings *s, const gr_preset *p)
{
    const gr_slot *slot = gr_settings_slot(s, p->key);
    gr_origin from = { .kind = GR_FROM_RECIPE, .name = p->key };
    gr_tree *t = NULL;
    gr_setting v;
    bool is_on;

    if (!slot)
        return gr_fail(GR_ERR_ARG, "there is no such setting");
    GR_TRY(holds(s, p, &is_on));
    GR_TRY(gr_setting_word(s->arena, slot->key, p->value, p->key, &t));
    GR_TRY(gr_setting_read(s->arena, slot->key, t, &v));
    if (!is_on)
        return GR_OK;
    from.file =
        p->when ? gr_arena_printf(s->arena, "%s (%s)", s->recipe->name, p->when) : s->recipe->name;
    if (!from.file)
        return GR_ERR_NOMEM;
    return gr_settings_put(s, &(gr_way){ .slot = (int)(slot - s->slots) }, t, &from);
}

/* What the recipe found in its data is no preset. */
static gr_status take_back(gr_settings *s)
{
    for (int i = 0; i < s->n_slots; i++) {
        gr_slot *slot = &s->slots[i];

        if (slot->origin.kind != GR_FROM_RECIPE || slot->is_found)
            continue;
        slot->origin = (gr_origin){ 0 };
        slot->value = (gr_setting){ 0 };
        if (slot->key->preset)
            GR_TRY(gr_settings_put_key(s, slot->key->name, slot->key->preset, GR_FROM_DEFAULT));
    }
    return GR_OK;
}

gr_status gr_settings_settle(gr_settings *s)
{
    if (!s->recipe)
        return GR_OK;
    GR_TRY(take_back(s));
    for (int i = 0; i < s->recipe->n_presets; i++)
        GR_TRY(wrap_row(s, &s->recipe->presets[i], put_row(s, &s->recipe->presets[i])));
    return GR_OK;
}

void gr_presets_print(const gr_recipe *recipe, gr_text *out)
{
    if (recipe->n_presets > 0)
        gr_text_addf(out, "\nPresets of recipe %s, in place of the defaults:\n", recipe->name);
    for (int i = 0; i < recipe->n_presets; i++) {
        const gr_preset *p = &recipe->presets[i];

        gr_text_addf(out, "%-40s %s%s%s\n", p->key, p->value, p->when ? "    with " : "",
                     p->when ? p->when : "");
    }
}

/* Settings: slots, values and their origins; the typed readers. */
#include "train/config/settings.h"

#include "base/alloc.h"
#include "train/config/choice.h"
#include "train/config/saved.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- making ---- */

gr_status gr_settings_make(gr_settings **out, const gr_names *names)
{
    gr_settings *s = gr_calloc(1, sizeof(*s));
    gr_status st;

    if (!s)
        return GR_ERR_NOMEM;
    st = gr_arena_create(&s->arena);
    if (st != GR_OK) {
        gr_settings_destroy(s);
        return st;
    }
    s->names = *names;
    *out = s;
    return GR_OK;
}

void gr_settings_destroy(gr_settings *s)
{
    if (!s)
        return;
    gr_settings_destroy(s->before);
    for (int i = 0; i < GR_N_IGNORED; i++)
        gr_ignored_fini(&s->ignored[i]);
    gr_arena_destroy(s->arena);
    gr_free(s->slots);
    gr_free(s->ways);
    gr_free(s->own);
    gr_free(s);
}

gr_way *gr_settings_find(const gr_settings *s, const char *name)
{
    uint32_t hash = gr_name_hash(name);

    for (int i = 0; i < s->n_ways; i++)
        if (s->ways[i].hash == hash && gr_same_name(s->ways[i].alias.name, name))
            return &s->ways[i];
    return NULL;
}

static gr_status add_way(gr_settings *s, const gr_alias *alias, int slot)
{
    const gr_way *before = gr_settings_find(s, alias->name);

    if (before && before->slot == slot)
        return GR_OK;
    if (before)
        return gr_fail(GR_ERR_ARG, "the name '%s' of setting '%s' is one of '%s' already",
                       alias->name, s->slots[slot].key->name, s->slots[before->slot].key->name);
    GR_TRY(gr_grow((void **)&s->ways, &s->cap_ways, s->n_ways + 1, sizeof(*s->ways)));
    s->ways[s->n_ways++] =
        (gr_way){ .alias = *alias, .hash = gr_name_hash(alias->name), .slot = slot };
    return GR_OK;
}

static gr_status add_also(gr_settings *s, const gr_key *key, int slot)
{
    const char *at = key->also ? key->also : "";

    while (*at) {
        int n = (int)strcspn(at, "|");
        const char *name = gr_arena_printf(s->arena, "%.*s", n, at);

        if (!name)
            return GR_ERR_NOMEM;
        GR_TRY(add_way(s, &(gr_alias){ .name = name, .key = key->name }, slot));
        at += n + (at[n] == '|');
    }
    return GR_OK;
}

gr_status gr_settings_add(gr_settings *s, const gr_key *key, const char *flag)
{
    int slot = s->n_slots;

    if ((key->kind == GR_KEY_CHOICE) != (key->choices != NULL))
        return gr_fail(GR_ERR_ARG, "setting '%s': choices belong to GR_KEY_CHOICE", key->name);
    if (gr_settings_slot(s, key->name))
        return gr_fail(GR_ERR_ARG, "setting '%s' is there twice", key->name);
    GR_TRY(gr_grow((void **)&s->slots, &s->cap_slots, slot + 1, sizeof(*s->slots)));
    s->slots[s->n_slots++] = (gr_slot){
        .key = key, .reach = key->use, .is_saved = true, .hash = gr_name_hash(key->name)
    };
    GR_TRY(add_way(s, &(gr_alias){ .name = key->name, .key = key->name }, slot));
    if (flag)
        GR_TRY(add_way(s, &(gr_alias){ .name = flag, .key = key->name }, slot));
    GR_TRY(add_also(s, key, slot));
    return key->preset ? gr_settings_put_key(s, key->name, key->preset, GR_FROM_DEFAULT) : GR_OK;
}

gr_status gr_settings_link(gr_settings *s)
{
    for (const gr_alias *a = s->names.aliases; a && a->name; a++) {
        const gr_slot *slot = gr_settings_slot(s, a->key);
        gr_way *before = gr_settings_find(s, a->name);

        if (before && a->on && slot == &s->slots[before->slot])
            before->alias = *a;   /* one of the slot's own names can go without a value */
        else if (slot && !before) /* names of the recipe win */
            GR_TRY(add_way(s, a, (int)(slot - s->slots)));
    }
    return GR_OK;
}

gr_status gr_settings_create(gr_settings **out, const gr_key *keys, int n_keys)
{
    gr_settings *s;
    gr_status st;

    GR_TRY(gr_settings_make(&s, &(gr_names){ 0 }));
    for (int i = 0; i < n_keys; i++)
        GR_TRY_GOTO(st, gr_settings_add(s, &keys[i], NULL), fail);
    *out = s;
    return GR_OK;

fail:
    gr_settings_destroy(s);
    return st;
}

/* ---- origins ---- */

void gr_origin_print(const gr_origin *o, gr_text *out)
{
    switch (o->kind) {
    case GR_FROM_NOTHING:
    case GR_FROM_DEFAULT: gr_text_add(out, "default"); break;
    case GR_FROM_RECIPE: gr_text_addf(out, "preset of recipe %s", o->file ? o->file : ""); break;
    case GR_FROM_SAVED: gr_text_add(out, "the checkpoint"); break;
    case GR_FROM_FILE: gr_text_addf(out, "%s:%d", o->file, o->line); break;
    case GR_FROM_ENV: gr_text_addf(out, "environment variable %s", o->name); break;
    case GR_FROM_FLAG: gr_text_addf(out, "flag '%s'", o->name); break;
    }
}

gr_status gr_settings_wrap(gr_status st, const gr_origin *from)
{
    if (st != GR_ERR_ARG)
        return st;
    switch (from->kind) {
    case GR_FROM_NOTHING:
    case GR_FROM_DEFAULT: return gr_wrap(st, "setting '%s'", from->name ? from->name : "");
    case GR_FROM_RECIPE:
        return gr_wrap(st, "recipe %s: preset of '%s'", from->file ? from->file : "", from->name);
    case GR_FROM_SAVED: return gr_wrap(st, "the checkpoint's setting '%s'", from->name);
    case GR_FROM_FILE: return gr_wrap(st, "%s:%d: '%s'", from->file, from->line, from->name);
    case GR_FROM_ENV: return gr_wrap(st, "environment variable '%s'", from->name);
    case GR_FROM_FLAG: return gr_wrap(st, "flag '%s'", from->name);
    }
    return st;
}

gr_status gr_settings_fail(const gr_settings *s, const char *key, const char *fmt, ...)
{
    const gr_slot *slot = gr_settings_slot(s, key);
    gr_origin from = slot ? slot->origin : (gr_origin){ 0 };
    char text[GR_ERROR_TEXT];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (from.kind <= GR_FROM_DEFAULT || !from.name)
        from.name = key;
    return gr_settings_wrap(gr_fail(GR_ERR_ARG, "%s", text), &from);
}

/* ---- values ---- */

/* What a switch stands for: its `on` or `off`. Without `off` it may have a value of its own,
 * and false means that it is not there. */
static gr_status follow_switch(gr_settings *s, const gr_alias *a, const gr_tree *t,
                               const gr_tree **out)
{
    const char *why, *means;
    bool on = false;

    if (!a->on || t->type == GR_TREE_NULL)
        return GR_OK;
    why = gr_scalar_bool(t, &on);
    if (why && !a->off)
        return GR_OK;
    if (why)
        return gr_fail(GR_ERR_ARG, "'%.200s' %s", gr_scalar_show(t), why);
    means = on ? a->on : a->off;
    *out =
        means ? gr_tree_make_text(s->arena, means) : gr_tree_make(s->arena, GR_TREE_NULL, NULL, 0);
    return *out ? GR_OK : GR_ERR_NOMEM;
}

static gr_status refuse_twice(const gr_slot *slot, const gr_origin *from)
{
    return gr_fail(GR_ERR_ARG, "%s:%d: '%s' is the setting that line %d gave as '%s'", from->file,
                   from->line, from->name, slot->origin.line, slot->origin.name);
}

gr_status gr_settings_put(gr_settings *s, const gr_way *way, const gr_tree *t,
                          const gr_origin *from)
{
    gr_slot *slot = &s->slots[way->slot];
    gr_setting v;

    if (from->kind == GR_FROM_FILE && slot->origin.kind == GR_FROM_FILE)
        return refuse_twice(slot, from);
    if (!gr_settings_may_take(s, slot, from)) {
        if (t->type != GR_TREE_TEXT || !slot->key->preset ||
            strcmp(t->text, slot->key->preset) != 0)
            gr_ignored_add(&s->ignored[GR_IGNORED_FILE], from->name);
        return GR_OK;
    }
    if (way->own)
        GR_TRY(gr_settings_follow_own(s, way->own, t, &t));
    GR_TRY(gr_settings_wrap(follow_switch(s, &way->alias, t, &t), from));
    GR_TRY(gr_settings_wrap(gr_setting_read(s->arena, slot->key, t, &v), from));
    if (from->kind < slot->origin.kind || (v.n == 0 && t->type == GR_TREE_NULL))
        return GR_OK; /* null leaves the default */
    slot->value = v;
    slot->origin = *from;
    slot->is_found = false;
    return GR_OK;
}

gr_status gr_settings_put_word(gr_settings *s, const gr_way *way, const char *word,
                               const gr_origin *from)
{
    static const gr_key as_switch = { .kind = GR_KEY_BOOL };
    const gr_key *key = way->alias.on && way->alias.off ? &as_switch : s->slots[way->slot].key;
    gr_tree *t = NULL;

    GR_TRY(gr_settings_wrap(gr_setting_word(s->arena, key, word, from->name, &t), from));
    return gr_settings_put(s, way, t, from);
}

gr_status gr_settings_put_key(gr_settings *s, const char *key, const char *word,
                              gr_origin_kind kind)
{
    const gr_slot *slot = gr_settings_slot(s, key);
    gr_origin from = { .kind = kind, .name = key };

    GR_BUG_IF(!slot);
    return gr_settings_put_word(s, &(gr_way){ .slot = (int)(slot - s->slots) }, word, &from);
}

/* ---- reading ---- */

gr_slot *gr_settings_slot(const gr_settings *s, const char *key)
{
    uint32_t hash = gr_name_hash(key);

    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].hash == hash && strcmp(s->slots[i].key->name, key) == 0)
            return &s->slots[i];
    return NULL;
}

/* The slot of a key that a program asks for; kinds is a mask of gr_key_kind. */
static const gr_slot *ask(const gr_settings *s, const char *key, unsigned kinds)
{
    const gr_slot *slot = gr_settings_slot(s, key);
    char text[GR_ERROR_TEXT];

    if (slot && (1u << slot->key->kind) & kinds)
        return slot;
    snprintf(text, sizeof(text), "setting '%s' was asked for, and %s", key,
             slot ? "is of another kind" : "no table has it");
    gr_bug(__FILE__, __LINE__, text);
}

#define IS(kind) (1u << GR_KEY_##kind)

int64_t gr_settings_int(const gr_settings *s, const char *key)
{
    const gr_slot *slot = ask(s, key, IS(INT) | IS(CHOICE) | 1u << GR_KEY_BYTES);

    return slot->value.n ? slot->value.ints[0] : 0;
}

double gr_settings_f64(const gr_settings *s, const char *key)
{
    const gr_slot *slot = ask(s, key, IS(F64) | IS(INT));

    return slot->value.n ? slot->value.f64s[0] : 0;
}

bool gr_settings_bool(const gr_settings *s, const char *key)
{
    const gr_slot *slot = ask(s, key, IS(BOOL));

    return slot->value.n && slot->value.ints[0];
}

const char *gr_settings_text(const gr_settings *s, const char *key)
{
    const gr_slot *slot = ask(s, key, IS(TEXT) | IS(CHOICE));

    return slot->value.n ? slot->value.texts[0] : NULL;
}

int gr_settings_count(const gr_settings *s, const char *key)
{
    return ask(s, key, IS(INTS) | IS(F64S) | IS(TEXTS))->value.n;
}

int64_t gr_settings_int_at(const gr_settings *s, const char *key, int i)
{
    const gr_slot *slot = ask(s, key, IS(INTS));

    GR_BUG_IF(i < 0 || i >= slot->value.n);
    return slot->value.ints[i];
}

double gr_settings_f64_at(const gr_settings *s, const char *key, int i)
{
    const gr_slot *slot = ask(s, key, IS(F64S) | IS(INTS));

    GR_BUG_IF(i < 0 || i >= slot->value.n);
    return slot->value.f64s[i];
}

const char *gr_settings_text_at(const gr_settings *s, const char *key, int i)
{
    const gr_slot *slot = ask(s, key, IS(TEXTS));

    GR_BUG_IF(i < 0 || i >= slot->value.n);
    return slot->value.texts[i];
}

const gr_tree *gr_settings_tree(const gr_settings *s, const char *key)
{
    const gr_slot *slot = ask(s, key, IS(TREE));

    return slot->value.n ? slot->value.tree : NULL;
}

bool gr_settings_given(const gr_settings *s, const char *key)
{
    return ask(s, key, ~0u)->origin.kind > GR_FROM_RECIPE;
}

/*
 * Names of settings: from what is written to the slot that is meant, and the words for what
 * is not known. '-' and '_' are alike everywhere.
 */
#include "train/config/settings.h"

#include "base/alloc.h"
#include "base/option.h"
#include "gradus/recipe.h"
#include "train/config/choice.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool gr_name_canonical(const gr_settings *s, const char *name, size_t n, char out[GR_MAX_NAME])
{
    const gr_prefix *p = s->names.prefixes;

    for (; p && p->name; p++)
        if (n > strlen(p->name) && strncmp(name, p->name, strlen(p->name)) == 0)
            break;
    n -= p && p->name ? strlen(p->name) : 0;
    name += p && p->name ? strlen(p->name) : 0;
    if (snprintf(out, GR_MAX_NAME, "%s%.*s", p && p->name ? p->means : "", (int)(n < 999 ? n : 999),
                 name) >= GR_MAX_NAME)
        return false;
    for (; *out; out++)
        *out = *out == '-' ? '_' : *out;
    return true;
}

const gr_way *gr_settings_way(const gr_settings *s, const char *name, size_t n_name)
{
    char wanted[GR_MAX_NAME];

    return gr_name_canonical(s, name, n_name, wanted) ? gr_settings_find(s, wanted) : NULL;
}

/* "scheduler" to "train.lr_scheduler."; false: too long. */
static bool group_name(const gr_settings *s, const char *name, char out[GR_MAX_NAME])
{
    char dotted[GR_MAX_NAME];

    return snprintf(dotted, sizeof(dotted), "%s.", name) < (int)sizeof(dotted) &&
           gr_name_canonical(s, dotted, strlen(dotted) + 1, out);
}

bool gr_settings_group_has(const gr_settings *s, const char *group, const char *key)
{
    char wanted[GR_MAX_NAME];

    return group_name(s, group, wanted) && strncmp(key, wanted, strlen(wanted)) == 0;
}

bool gr_settings_is_group(const gr_settings *s, const char *name)
{
    char wanted[GR_MAX_NAME];
    size_t n;

    if (!group_name(s, name, wanted))
        return false;
    n = strlen(wanted);
    for (int i = 0; i < s->n_ways; i++)
        if (strncmp(s->ways[i].alias.name, wanted, n) == 0)
            return true;
    return false;
}

/* ---- secrets ---- */

bool gr_is_secret_name(const char *name)
{
    static const char *const words[] = { "token",    "api_key", "apikey",     "secret",
                                         "password", "passwd",  "secret_key", "access_key" };
    const char *last = strrchr(name, '.');
    size_t n;

    last = last ? last + 1 : name;
    n = strlen(last);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t n_word = strlen(words[i]);
        const char *end = n >= n_word ? last + n - n_word : NULL;

        if (!end || (end > last && end[-1] != '_' && end[-1] != '-'))
            continue;
        for (size_t j = 0; end && j < n_word; j++)
            if ((end[j] == '-' ? '_' : tolower((unsigned char)end[j])) != words[i][j])
                end = NULL;
        if (end)
            return true;
    }
    return false;
}

/* ---- what is not known ---- */

static gr_status refuse_secret(const gr_origin *from, const char *name)
{
    const char *advice = strcasestr(name, "wandb")                               ? "WANDB_API_KEY"
                         : strcasestr(name, "hugging") || strcasestr(name, "hf") ? "HF_TOKEN"
                                                                                 : "a variable";
    gr_status st = gr_fail(GR_ERR_ARG,
                           "is a secret, and files and command lines are read by others; take "
                           "it out and set %s in the environment instead",
                           advice);

    return gr_settings_wrap(st, from);
}

static const char *known_gone(const gr_settings *s, const char *name)
{
    char wanted[GR_MAX_NAME];

    if (!gr_name_canonical(s, name, strlen(name), wanted))
        return NULL;
    for (const gr_gone *g = s->names.gone; g && g->name; g++)
        if (gr_same_name(g->name, wanted))
            return g->instead;
    return NULL;
}

/* Another recipe that has it; NULL: none. */
static const char *who_knows(const gr_settings *s, const char *name)
{
    char wanted[GR_MAX_NAME];

    if (!s->recipes || !gr_name_canonical(s, name, strlen(name), wanted))
        return NULL;
    for (int i = 0; s->recipes[i]; i++)
        for (int k = 0; k < s->recipes[i]->n_keys; k++)
            if (gr_same_name(s->recipes[i]->keys[k].name, wanted))
                return s->recipes[i]->name;
    return NULL;
}

/* All names, and the parts of them that stand before a dot. */
static gr_status collect(const gr_settings *s, gr_arena *a, const char ***out)
{
    const char **names = gr_arena_array(a, 4 * (size_t)s->n_ways + 1, sizeof(*names));
    int n = 0;

    if (!names)
        return GR_ERR_NOMEM;
    for (int i = 0; i < s->n_ways; i++) {
        const char *name = s->ways[i].alias.name;
        const char *dot = strchr(name, '.');

        names[n++] = name;
        for (int k = 0; k < 3 && dot; k++, dot = strchr(dot + 1, '.')) {
            names[n] = gr_arena_printf(a, "%.*s", (int)(dot - name), name);
            if (!names[n++])
                return GR_ERR_NOMEM;
        }
    }
    *out = names;
    return GR_OK;
}

/* The setting that ends with the same word but stands in another group: the only one there is,
 * or the only one in the group that the name begins with; NULL: none, or several. */
static const char *same_end(const gr_settings *s, const char *name)
{
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    size_t n_group = dot ? strcspn(name, ".") + 1 : 0;
    const char *any = NULL, *here = NULL;
    int n_any = 0, n_here = 0;

    for (int i = 0; i < s->n_slots; i++) {
        const char *key = s->slots[i].key->name, *end = strrchr(key, '.');

        if (!gr_same_name(end ? end + 1 : key, last))
            continue;
        any = key;
        n_any++;
        if (n_group > 0 && strncmp(key, name, n_group) == 0) {
            here = key;
            n_here++;
        }
    }
    return n_here == 1 ? here : n_any == 1 ? any : NULL;
}

static gr_status fail_unknown(const gr_settings *s, const gr_origin *from, const char *near)
{
    const char *what = from->kind == GR_FROM_FLAG ? "flag" : "key";
    const char *dashes = from->kind == GR_FROM_FLAG ? "--" : "";

    if (from->kind == GR_FROM_FLAG && near)
        return gr_fail(GR_ERR_ARG, "unknown flag '%s'; did you mean '%s%s'?", from->name, dashes,
                       near);
    if (from->kind == GR_FROM_FLAG && s->listed_by)
        return gr_fail(GR_ERR_ARG, "unknown flag '%s'; 'gradus %s --help' lists all", from->name,
                       s->listed_by);
    if (from->kind == GR_FROM_FLAG)
        return gr_fail(GR_ERR_ARG, "unknown flag '%s'; 'gradus help keys' lists all", from->name);
    if (near)
        return gr_fail(GR_ERR_ARG, "%s:%d: unknown %s '%s'; did you mean '%s'?", from->file,
                       from->line, what, from->name, near);
    return gr_fail(GR_ERR_ARG, "%s:%d: unknown %s '%s'; 'gradus help keys' lists all", from->file,
                   from->line, what, from->name);
}

/* --dataset cifar10: the beginning of several names. */
static gr_status fail_group_flag(const gr_settings *s, const gr_origin *from, const char *name)
{
    const char *found[3] = { NULL };
    int k = 0;

    for (int i = 0; i < s->n_slots && k < 3; i++)
        if (gr_settings_group_has(s, name, s->slots[i].key->name))
            found[k++] = s->slots[i].key->name;
    return gr_fail(GR_ERR_ARG,
                   "flag '%s' is a group of settings; give one of them: --%s%s%s%s%s ...; 'gradus "
                   "help keys' lists all",
                   from->name, k > 0 ? found[0] : "group.name", k > 1 ? ", --" : "",
                   k > 1 ? found[1] : "", k > 2 ? ", --" : "", k > 2 ? found[2] : "");
}

gr_status gr_settings_unknown(const gr_settings *s, const gr_origin *from, const char *name)
{
    const char *instead = known_gone(s, name);
    const char **names = NULL;
    gr_arena *a;
    gr_status st;

    if (gr_is_secret_name(name))
        return refuse_secret(from, name);
    if (instead)
        return gr_settings_wrap(gr_fail(GR_ERR_ARG, "%s", instead), from);
    if (who_knows(s, name))
        return gr_settings_wrap(gr_fail(GR_ERR_ARG,
                                        "recipe '%s' has no such setting; recipe '%s' has",
                                        gr_settings_text(s, "recipe"), who_knows(s, name)),
                                from);
    if (from->kind == GR_FROM_FLAG && gr_settings_is_group(s, name))
        return fail_group_flag(s, from, name);
    GR_TRY(gr_arena_create(&a));
    st = collect(s, a, &names);
    if (st == GR_OK) {
        const char *near = same_end(s, name);

        st = fail_unknown(s, from, near ? near : gr_nearest(name, (const char *const *)names));
    }
    gr_arena_destroy(a);
    return st;
}

/*
 * Names of a recipe's own: another project's flags mean what they mean there, in this recipe
 * alone. They are looked for before all others in what a user says. A checkpoint's lines and the
 * dotted keys of a file are written by this program, and mean what they always do.
 */
#include "train/config/settings.h"

#include "base/alloc.h"
#include "train/config/choice.h"

#include <stdio.h>
#include <string.h>

enum { N_TASKS = 3 };
static const char *const tasks[N_TASKS] = { "train", "test", "predict" }; /* gr_task */

/* Whether "test|predict" has the task. */
static bool has_task(const char *list, int task)
{
    const char *name = task < N_TASKS ? tasks[task] : ""; /* GR_TASK_MODEL is no command */
    size_t n = strlen(name);

    for (; list && *list; list += strcspn(list, "|"), list += *list == '|')
        if (strcspn(list, "|") == n && strncmp(list, name, n) == 0)
            return true;
    return !list;
}

static gr_status check_tasks(const gr_settings *s, const gr_recipe_alias *a)
{
    for (const char *at = a->tasks; at && *at;) {
        size_t n = strcspn(at, "|");
        bool found = false;

        for (int i = 0; i < N_TASKS; i++)
            found = found || (strlen(tasks[i]) == n && strncmp(at, tasks[i], n) == 0);
        if (!found)
            return gr_fail(GR_ERR_ARG,
                           "recipe '%s': name '%s': '%.*s' is none of train, test and predict",
                           s->recipe->name, a->name, (int)n, at);
        at += n + (at[n] == '|');
    }
    return GR_OK;
}

static gr_status link_one(gr_settings *s, const gr_recipe_alias *a)
{
    const gr_slot *slot = gr_settings_slot(s, a->key);
    char name[GR_MAX_NAME];
    gr_way way = { .own = a };

    if (!slot)
        return gr_fail(GR_ERR_ARG, "recipe '%s': name '%s': there is no setting '%s'",
                       s->recipe->name, a->name, a->key);
    if (!gr_name_canonical(s, a->name, strlen(a->name), name))
        return gr_fail(GR_ERR_ARG, "recipe '%s': a name has more than %d characters",
                       s->recipe->name, GR_MAX_NAME - 1);
    GR_TRY(check_tasks(s, a));
    way.alias = (gr_alias){ .name = gr_arena_strdup(s->arena, name), .key = a->key };
    way.hash = gr_name_hash(name);
    way.slot = (int)(slot - s->slots);
    if (!way.alias.name)
        return GR_ERR_NOMEM;
    GR_TRY(gr_grow((void **)&s->own, &s->cap_own, s->n_own + 1, sizeof(*s->own)));
    s->own[s->n_own++] = way;
    return GR_OK;
}

gr_status gr_settings_link_own(gr_settings *s)
{
    for (int i = 0; s->recipe && i < s->recipe->n_aliases; i++)
        GR_TRY(link_one(s, &s->recipe->aliases[i]));
    return GR_OK;
}

const gr_way *gr_settings_said(const gr_settings *s, const char *name, size_t n_name,
                               gr_origin_kind from)
{
    char wanted[GR_MAX_NAME];
    uint32_t hash;

    if (!gr_name_canonical(s, name, n_name, wanted))
        return NULL;
    hash = gr_name_hash(wanted);
    if (s->n_own > 0 && (from != GR_FROM_FILE || !gr_settings_slot(s, wanted)))
        for (int i = 0; i < s->n_own; i++)
            if (s->own[i].hash == hash && gr_same_name(s->own[i].alias.name, wanted) &&
                has_task(s->own[i].own->tasks, s->task))
                return &s->own[i];
    return gr_settings_find(s, wanted);
}

gr_status gr_settings_follow_own(gr_settings *s, const gr_recipe_alias *a, const gr_tree *t,
                                 const gr_tree **out)
{
    const char *text = t->type == GR_TREE_TEXT ? t->text : NULL;

    *out = t;
    if (text && a->none && strcmp(text, a->none) == 0) {
        *out = gr_tree_make(s->arena, GR_TREE_NULL, NULL, 0);
        return *out ? GR_OK : GR_ERR_NOMEM;
    }
    if (!text || !a->unit || text[strspn(text, "0123456789.+-eE")] != '\0')
        return GR_OK;
    text = gr_arena_printf(s->arena, "%s %s", text, a->unit);
    *out = text ? gr_tree_make_text(s->arena, text) : NULL;
    return *out ? GR_OK : GR_ERR_NOMEM;
}

gr_status gr_settings_forgive(const gr_settings *s, const char *name, gr_status st)
{
    char wanted[GR_MAX_NAME];

    if (st != GR_ERR_ARG || !s->is_lenient || !s->recipes ||
        !gr_name_canonical(s, name, strlen(name), wanted))
        return st;
    for (int i = 0; s->recipes[i]; i++)
        for (int k = 0; s->recipes[i]->abi == GR_RECIPE_ABI && k < s->recipes[i]->n_aliases; k++) {
            const char *own = s->recipes[i]->aliases[k].name;
            char has[GR_MAX_NAME];

            if (gr_name_canonical(s, own, strlen(own), has) && gr_same_name(has, wanted))
                return GR_OK;
        }
    return st;
}

void gr_recipe_aliases_print(const gr_recipe *recipe, gr_text *out)
{
    if (recipe->n_aliases > 0)
        gr_text_addf(out, "\nNames that mean something else with recipe %s than with others:\n",
                     recipe->name);
    for (int i = 0; i < recipe->n_aliases; i++) {
        const gr_recipe_alias *a = &recipe->aliases[i];

        gr_text_addf(out, "%-40s %s", a->name, a->key);
        if (a->unit)
            gr_text_addf(out, ", in %s", a->unit);
        if (a->none)
            gr_text_addf(out, "; %s: not given", a->none);
        if (a->tasks)
            gr_text_addf(out, " (with %s)", a->tasks);
        gr_text_add(out, "\n");
    }
}

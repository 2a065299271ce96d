/* Trees: building and reading. */
#include "train/config/tree.h"

#include "train/config/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

gr_tree *gr_tree_make(gr_arena *a, gr_tree_type type, const char *file, int line)
{
    gr_tree *t = gr_arena_new(a, gr_tree);

    if (t)
        *t = (gr_tree){ .type = type, .file = file, .line = line };
    return t;
}

gr_tree *gr_tree_make_text(gr_arena *a, const char *text)
{
    gr_tree *t = gr_tree_make(a, GR_TREE_TEXT, NULL, 0);

    if (t)
        t->text = gr_arena_strdup(a, text);
    return t && t->text ? t : NULL;
}

gr_status gr_tree_add(gr_arena *a, gr_tree *t, gr_tree_entry e)
{
    if (t->n == t->cap) { /* the old entries stay behind in the arena: half as much at most */
        int cap = t->cap ? 2 * t->cap : 4;
        gr_tree_entry *grown = gr_arena_array(a, (size_t)cap, sizeof(*grown));

        if (!grown)
            return GR_ERR_NOMEM;
        if (t->n > 0)
            memcpy(grown, t->entries, (size_t)t->n * sizeof(*grown));
        t->entries = grown;
        t->cap = cap;
    }
    t->entries[t->n++] = e;
    return GR_OK;
}

gr_tree_type gr_tree_kind(const gr_tree *t)
{
    return t->type;
}

int gr_tree_count(const gr_tree *t)
{
    return t->n;
}

const gr_tree *gr_tree_at(const gr_tree *t, int i)
{
    GR_BUG_IF(i < 0 || i >= t->n);
    return t->entries[i].value;
}

const char *gr_tree_key(const gr_tree *t, int i)
{
    GR_BUG_IF(i < 0 || i >= t->n);
    return t->entries[i].key;
}

const gr_tree *gr_tree_get(const gr_tree *t, const char *key)
{
    for (int i = 0; t && t->type == GR_TREE_MAP && i < t->n; i++)
        if (strcmp(t->entries[i].key, key) == 0)
            return t->entries[i].value;
    return NULL;
}

const char *gr_tree_text(const gr_tree *t)
{
    return t->text;
}

int gr_tree_line(const gr_tree *t)
{
    return t->line;
}

gr_status gr_tree_fail(const gr_tree *t, const char *fmt, ...)
{
    char text[GR_ERROR_TEXT];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (t->file)
        return gr_fail(GR_ERR_ARG, "%s:%d: %s", t->file, t->line, text);
    return gr_fail(GR_ERR_ARG, "%s", text);
}

gr_status gr_tree_int(const gr_tree *t, int64_t *out)
{
    const char *why = gr_scalar_int(t, out);

    return why ? gr_tree_fail(t, "'%s' %s", gr_scalar_show(t), why) : GR_OK;
}

gr_status gr_tree_f64(const gr_tree *t, double *out)
{
    const char *why = gr_scalar_f64(t, out);

    return why ? gr_tree_fail(t, "'%s' %s", gr_scalar_show(t), why) : GR_OK;
}

gr_status gr_tree_bool(const gr_tree *t, bool *out)
{
    const char *why = gr_scalar_bool(t, out);

    return why ? gr_tree_fail(t, "'%s' %s", gr_scalar_show(t), why) : GR_OK;
}

/* Settings from a file: the tree is walked, and each leaf finds its slot by its dotted path. */
#include "train/config/settings.h"
#include "train/config/value.h"

#include <string.h>

static gr_status put_map(gr_settings *s, const gr_tree *map, const char *above);

static gr_status fail_group(const gr_tree *t, const gr_origin *from)
{
    return gr_fail(GR_ERR_ARG,
                   "%s:%d: '%s: %s': '%s' is a group of settings; write them below it, indented, "
                   "as 'name: value'",
                   from->file, from->line, from->name, gr_scalar_show(t), from->name);
}

static gr_status put_group(gr_settings *s, const gr_tree *t, const gr_origin *from)
{
    if (t->type == GR_TREE_MAP)
        return put_map(s, t, from->name);
    if (t->type == GR_TREE_NULL) /* all that was in it is commented out */
        return GR_OK;
    return fail_group(t, from);
}

/*
 * A group's name may be a flag's too: "train" is a group, and --train says what to do. In a file
 * `train: false` can only be meant for the group, unless the flag's setting is in it (`wandb:
 * true` is wandb.enabled).
 */
static bool is_for_group(const gr_settings *s, const gr_way *way, const gr_tree *t,
                         const char *path)
{
    bool yes;

    if (!gr_settings_is_group(s, path) ||
        gr_settings_group_has(s, path, s->slots[way->slot].key->name))
        return false;
    return t->type == GR_TREE_LIST || (way->alias.on && way->alias.off) ||
           gr_scalar_bool(t, &yes) == NULL;
}

/* A group that nobody knows may hold a secret: that is the worse of the two. */
static gr_status unknown_group(gr_settings *s, const gr_tree *t, const gr_origin *from)
{
    for (int i = 0; t->type == GR_TREE_MAP && i < t->n; i++) {
        gr_origin below = *from;

        below.line = t->entries[i].line;
        below.name = gr_arena_printf(s->arena, "%s.%s", from->name, t->entries[i].key);
        if (!below.name)
            return GR_ERR_NOMEM;
        if (gr_is_secret_name(below.name))
            return gr_settings_unknown(s, &below, below.name);
    }
    return gr_settings_unknown(s, from, from->name);
}

static gr_status put_entry(gr_settings *s, const gr_tree_entry *e, const char *path)
{
    gr_origin from = {
        .kind = GR_FROM_FILE, .name = path, .file = e->value->file, .line = e->line
    };
    const gr_way *way = gr_settings_said(s, path, strlen(path), GR_FROM_FILE);
    bool is_tree = way && s->slots[way->slot].key->kind == GR_KEY_TREE;
    bool is_map = e->value->type == GR_TREE_MAP;
    bool is_empty = e->value->type == GR_TREE_NULL && e->value->empty;

    if (way && !is_tree && !is_map && !is_empty && is_for_group(s, way, e->value, path))
        return fail_group(e->value, &from);
    if (way && (is_tree || !is_map) && !(is_empty && gr_settings_is_group(s, path)))
        return gr_settings_forgive(s, path, gr_settings_put(s, way, e->value, &from));
    if (gr_settings_is_group(s, path))
        return put_group(s, e->value, &from);
    if (way)
        return gr_settings_forgive(s, path, gr_settings_put(s, way, e->value, &from));
    return s->is_lenient ? GR_OK : unknown_group(s, e->value, &from);
}

/* Recursion is bounded by the depth that reading allows. */
static gr_status put_map(gr_settings *s, const gr_tree *map, const char *above)
{
    for (int i = 0; i < map->n; i++) {
        const gr_tree_entry *e = &map->entries[i];
        const char *path = above ? gr_arena_printf(s->arena, "%s.%s", above, e->key) : e->key;

        if (!path)
            return GR_ERR_NOMEM;
        GR_TRY(put_entry(s, e, path));
    }
    return GR_OK;
}

gr_status gr_settings_put_tree(gr_settings *s, const gr_tree *root)
{
    if (root->type != GR_TREE_MAP)
        return gr_fail(GR_ERR_ARG, "%s:%d: a configuration begins with 'name: value'", root->file,
                       root->line);
    return put_map(s, root, NULL);
}

gr_status gr_settings_read(gr_settings *s, const char *path)
{
    gr_tree *root = NULL;

    if (!s || !path)
        return gr_fail(GR_ERR_ARG, "settings: the settings or the path is NULL");
    GR_TRY(gr_yaml_read(s->arena, path, &root));
    return gr_settings_put_tree(s, root);
}

gr_status gr_settings_read_text(gr_settings *s, const char *name, const char *text, size_t n_bytes)
{
    gr_tree *root = NULL;

    if (!s || !name || (!text && n_bytes > 0))
        return gr_fail(GR_ERR_ARG, "settings: the settings, the name or the text is NULL");
    GR_TRY(gr_yaml_parse(s->arena, name, text ? text : "", n_bytes, &root));
    return gr_settings_put_tree(s, root);
}

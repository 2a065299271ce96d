/*
 * YAML through libyaml, into a tree.
 *
 * (1) Every node has the line it came from.
 * (2) Nothing grows without limit: bytes, nodes and depth are bounded, and an anchor's value
 *     is copied wherever it is used, so the copies count.
 * (3) A key stands once in its map. "<<" takes over the entries of other maps that the map
 *     itself does not have.
 *
 * Own stack instead of recursion: depth comes from the file.
 */
#include "base/alloc.h"
#include "base/outfile.h"
#include "train/config/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#define MAX_ANCHORS 256
#define MAX_TEXT    65536 /* of one scalar */
#define MAX_KEYS    4096  /* of one map: they are compared with each other */

typedef struct level {
    gr_tree *node;
    const char *key; /* of a map: waits for its value; NULL: a key is next */
    int key_line;
} level;

typedef struct anchor {
    const char *name;
    gr_tree *node;
} anchor;

typedef struct builder {
    gr_arena *arena;
    const char *file;
    const char *bytes, *end;
    gr_tree *root;
    level levels[GR_YAML_MAX_DEPTH];
    int depth;
    anchor anchors[MAX_ANCHORS];
    int n_anchors;
    int n_nodes, n_documents;
} builder;

static gr_status fail_at(const builder *b, int line, const char *what, const char *name)
{
    return gr_fail(GR_ERR_ARG, "%s:%d: %s%s%s%s", b->file, line, what, name ? " '" : "",
                   name ? name : "", name ? "'" : "");
}

static gr_status count_node(builder *b, int line)
{
    if (++b->n_nodes > GR_YAML_MAX_NODES)
        return fail_at(b, line, "more than 100000 values; that is no configuration", NULL);
    return GR_OK;
}

/* ---- maps ---- */

static const gr_tree_entry *find_entry(const gr_tree *map, const char *key)
{
    for (int i = 0; i < map->n; i++)
        if (strcmp(map->entries[i].key, key) == 0)
            return &map->entries[i];
    return NULL;
}

static gr_status merge_map(builder *b, gr_tree *into, const gr_tree *from)
{
    if (from->type != GR_TREE_MAP)
        return fail_at(b, from->line, "'<<' takes a map or a list of maps", NULL);
    if (into->n + from->n > MAX_KEYS)
        return fail_at(b, into->line, "more than 4096 keys in one map", NULL);
    for (int i = 0; i < from->n; i++)
        if (!find_entry(into, from->entries[i].key))
            GR_TRY(gr_tree_add(b->arena, into, from->entries[i]));
    return GR_OK;
}

/* "<<" was kept as an entry until all of the map's own were there. */
static gr_status finish_map(builder *b, gr_tree *map)
{
    const gr_tree *from = NULL;

    for (int i = 0; i < map->n && !from; i++)
        if (strcmp(map->entries[i].key, "<<") == 0) {
            from = map->entries[i].value;
            memmove(&map->entries[i], &map->entries[i + 1],
                    (size_t)(map->n - i - 1) * sizeof(map->entries[0]));
            map->n--;
        }
    if (!from)
        return GR_OK;
    if (from->type != GR_TREE_LIST)
        return merge_map(b, map, from);
    for (int i = 0; i < from->n; i++)
        GR_TRY(merge_map(b, map, from->entries[i].value));
    return GR_OK;
}

/* ---- placing nodes ---- */

static gr_status check_key(builder *b, const gr_tree *map, const char *key, int line)
{
    const gr_tree_entry *e = find_entry(map, key);

    if (!*key)
        return fail_at(b, line, "a key is empty", NULL);
    if (map->n >= MAX_KEYS)
        return fail_at(b, line, "more than 4096 keys in one map", NULL);
    if (e)
        return gr_fail(GR_ERR_ARG, "%s:%d: key '%s' is there twice; the first is in line %d",
                       b->file, line, key, e->line);
    return GR_OK;
}

static gr_status place(builder *b, gr_tree *node)
{
    level *top = b->depth > 0 ? &b->levels[b->depth - 1] : NULL;
    gr_tree_entry e = { .line = node->line, .value = node };

    if (!top) {
        b->root = node;
        return GR_OK;
    }
    if (top->node->type == GR_TREE_LIST)
        return gr_tree_add(b->arena, top->node, e);
    if (!top->key) {
        if (node->type != GR_TREE_TEXT)
            return fail_at(b, node->line, "a key must be a word", NULL);
        GR_TRY(check_key(b, top->node, node->text, node->line));
        top->key = node->text;
        top->key_line = node->line;
        return GR_OK;
    }
    e.key = top->key;
    e.line = top->key_line;
    top->key = NULL;
    return gr_tree_add(b->arena, top->node, e);
}

static gr_status keep_anchor(builder *b, const yaml_char_t *name, gr_tree *node)
{
    if (!name)
        return GR_OK;
    if (b->n_anchors == MAX_ANCHORS)
        return fail_at(b, node->line, "more than 256 anchors", NULL);
    b->anchors[b->n_anchors] =
        (anchor){ .name = gr_arena_strdup(b->arena, (const char *)name), .node = node };
    return b->anchors[b->n_anchors++].name ? GR_OK : GR_ERR_NOMEM;
}

static bool is_open(const builder *b, const gr_tree *node)
{
    for (int i = 0; i < b->depth; i++)
        if (b->levels[i].node == node)
            return true;
    return false;
}

/* Recursion is bounded by the depth of what was read. */
static gr_status copy_tree(builder *b, const gr_tree *from, int depth, gr_tree **out)
{
    gr_tree *t;

    GR_TRY(count_node(b, from->line));
    if (depth > GR_YAML_MAX_DEPTH)
        return fail_at(b, from->line, "nested too deep", NULL);
    t = gr_tree_make(b->arena, from->type, from->file, from->line);
    if (!t)
        return GR_ERR_NOMEM;
    t->text = from->text;
    t->quoted = from->quoted;
    t->empty = from->empty;
    for (int i = 0; i < from->n; i++) {
        gr_tree_entry e = from->entries[i];

        GR_TRY(copy_tree(b, from->entries[i].value, depth + 1, &e.value));
        GR_TRY(gr_tree_add(b->arena, t, e));
    }
    *out = t;
    return GR_OK;
}

static gr_status take_alias(builder *b, const char *name, int line)
{
    gr_tree *copy = NULL;

    for (int i = b->n_anchors - 1; i >= 0; i--) {
        if (strcmp(b->anchors[i].name, name) != 0)
            continue;
        if (is_open(b, b->anchors[i].node))
            return fail_at(b, line, "an anchor is used inside itself:", name);
        GR_TRY(copy_tree(b, b->anchors[i].node, b->depth, &copy));
        return place(b, copy);
    }
    return fail_at(b, line, "there is no anchor", name);
}

/* ---- events ---- */

/* Tags that only repeat what the text says are fine; others would ask for code. */
static bool is_plain_tag(const char *tag)
{
    static const char *const known[] = { "!",           YAML_STR_TAG,  YAML_INT_TAG, YAML_FLOAT_TAG,
                                         YAML_BOOL_TAG, YAML_NULL_TAG, YAML_SEQ_TAG, YAML_MAP_TAG };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!tag || strcmp(tag, known[i]) == 0)
            return true;
    return false;
}

static bool is_null_word(const char *text)
{
    return strcmp(text, "null") == 0 || strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0 ||
           strcmp(text, "~") == 0;
}

static gr_status take_scalar(builder *b, const yaml_event_t *e, int line)
{
    const char *text = (const char *)e->data.scalar.value;
    const char *tag = (const char *)e->data.scalar.tag;
    size_t length = e->data.scalar.length;
    gr_tree *t = gr_tree_make(b->arena, GR_TREE_TEXT, b->file, line);

    if (!t)
        return GR_ERR_NOMEM;
    if (!is_plain_tag(tag))
        return fail_at(b, line, "tag is not allowed:", tag);
    if (length > MAX_TEXT)
        return fail_at(b, line, "a value has more than 65536 characters", NULL);
    if (strlen(text) != length)
        return fail_at(b, line, "a value has a NUL character inside", NULL);
    t->quoted =
        e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || (tag && strcmp(tag, YAML_STR_TAG) == 0);
    t->empty = !t->quoted && length == 0;
    if (t->empty || (!t->quoted && is_null_word(text)))
        t->type = GR_TREE_NULL;
    t->text = gr_arena_strdup(b->arena, text);
    if (!t->text)
        return GR_ERR_NOMEM;
    GR_TRY(keep_anchor(b, e->data.scalar.anchor, t));
    return place(b, t);
}

static gr_status open_level(builder *b, gr_tree_type type, const yaml_event_t *e, int line)
{
    bool is_list = type == GR_TREE_LIST;
    const yaml_char_t *tag = is_list ? e->data.sequence_start.tag : e->data.mapping_start.tag;
    gr_tree *t = gr_tree_make(b->arena, type, b->file, line);

    if (!t)
        return GR_ERR_NOMEM;
    if (!is_plain_tag((const char *)tag))
        return fail_at(b, line, "tag is not allowed:", (const char *)tag);
    if (b->depth == GR_YAML_MAX_DEPTH)
        return fail_at(b, line, "nested more than 32 deep", NULL);
    GR_TRY(place(b, t));
    GR_TRY(
        keep_anchor(b, is_list ? e->data.sequence_start.anchor : e->data.mapping_start.anchor, t));
    b->levels[b->depth++] = (level){ .node = t };
    return GR_OK;
}

static gr_status close_level(builder *b)
{
    gr_tree *node = b->levels[--b->depth].node;

    return node->type == GR_TREE_MAP ? finish_map(b, node) : GR_OK;
}

static gr_status take_event(builder *b, const yaml_event_t *e)
{
    int line = (int)e->start_mark.line + 1;

    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++b->n_documents > 1)
            return fail_at(b, line, "a second document begins; a configuration is one", NULL);
        return GR_OK;
    case YAML_ALIAS_EVENT: return take_alias(b, (const char *)e->data.alias.anchor, line);
    case YAML_SCALAR_EVENT: GR_TRY(count_node(b, line)); return take_scalar(b, e, line);
    case YAML_SEQUENCE_START_EVENT:
        GR_TRY(count_node(b, line));
        return open_level(b, GR_TREE_LIST, e, line);
    case YAML_MAPPING_START_EVENT:
        GR_TRY(count_node(b, line));
        return open_level(b, GR_TREE_MAP, e, line);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: return close_level(b);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT: return GR_OK;
    }
    return GR_OK;
}

/* Whether the line, from 0 on, is indented by tabs. Most editors show no difference. */
static bool has_tab(const builder *b, size_t line)
{
    const char *at = b->bytes;

    for (; line > 0 && at; line--)
        if ((at = memchr(at, '\n', (size_t)(b->end - at))))
            at++;
    while (at && at < b->end && *at == ' ')
        at++;
    return at && at < b->end && *at == '\t';
}

static gr_status fail_parser(const builder *b, const yaml_parser_t *p)
{
    if (p->error == YAML_MEMORY_ERROR)
        return gr_fail(GR_ERR_NOMEM, "%s: no memory to read it", b->file);
    if (p->error == YAML_READER_ERROR)
        return gr_fail(GR_ERR_ARG, "%s: byte %zu: %s; save it as UTF-8", b->file, p->problem_offset,
                       p->problem ? p->problem : "cannot be read");
    if (has_tab(b, p->problem_mark.line))
        return gr_fail(GR_ERR_ARG, "%s:%zu: indented by a tab; YAML takes blanks only", b->file,
                       p->problem_mark.line + 1);
    return gr_fail(GR_ERR_ARG, "%s:%zu: %s%s%s (column %zu)", b->file, p->problem_mark.line + 1,
                   p->problem ? p->problem : "no YAML", p->context ? " " : "",
                   p->context ? p->context : "", p->problem_mark.column + 1);
}

static gr_status take_all(builder *b, yaml_parser_t *p)
{
    for (;;) {
        yaml_event_t e;
        yaml_event_type_t type;
        gr_status st;

        if (!yaml_parser_parse(p, &e))
            return fail_parser(b, p);
        type = e.type;
        st = take_event(b, &e);
        yaml_event_delete(&e);
        if (st != GR_OK || type == YAML_STREAM_END_EVENT)
            return st;
    }
}

gr_status gr_yaml_parse(gr_arena *a, const char *file, const char *bytes, size_t n_bytes,
                        gr_tree **out)
{
    builder *b;
    yaml_parser_t parser;
    gr_status st;

    if (n_bytes > GR_YAML_MAX_BYTES)
        return gr_fail(GR_ERR_ARG, "%s: more than 4 MiB; that is no configuration", file);
    b = gr_arena_new(a, builder);
    if (!b || !(file = gr_arena_strdup(a, file)))
        return GR_ERR_NOMEM;
    b->arena = a;
    b->file = file;
    b->bytes = bytes;
    b->end = bytes + n_bytes;
    if (!yaml_parser_initialize(&parser))
        return gr_fail(GR_ERR_NOMEM, "%s: no memory to read it", file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, n_bytes);
    st = take_all(b, &parser);
    yaml_parser_delete(&parser);
    if (st != GR_OK)
        return st;
    if (!b->root || (b->root->type == GR_TREE_NULL && b->root->empty))
        b->root = gr_tree_make(a, GR_TREE_MAP, file, 1);
    *out = b->root;
    return b->root ? GR_OK : GR_ERR_NOMEM;
}

/* ---- files ---- */

static gr_status read_bytes(int fd, const char *path, size_t n_bytes, char *bytes)
{
    size_t at = 0;

    while (at < n_bytes) {
        ssize_t n = read(fd, bytes + at, n_bytes - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return gr_fail(GR_ERR_IO, "cannot read '%s': %s", path,
                           n < 0 ? strerror(errno) : "it became shorter");
        at += (size_t)n;
    }
    return GR_OK;
}

gr_status gr_yaml_read(gr_arena *a, const char *path, gr_tree **out)
{
    int fd = gr_open_input(path);
    struct stat info;
    char *bytes = NULL;
    gr_status st;

    if (fd < 0)
        return gr_fail(GR_ERR_ARG, "cannot open the configuration '%s': %s", path, strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        st = gr_fail(GR_ERR_ARG, "the configuration '%s' is no regular file", path);
    else if (info.st_size > (off_t)GR_YAML_MAX_BYTES)
        st = gr_fail(GR_ERR_ARG, "%s: more than 4 MiB; that is no configuration", path);
    else if (!(bytes = gr_malloc((size_t)info.st_size + 1)))
        st = GR_ERR_NOMEM;
    else
        st = read_bytes(fd, path, (size_t)info.st_size, bytes);
    close(fd);
    if (st == GR_OK)
        st = gr_yaml_parse(a, path, bytes, (size_t)info.st_size, out);
    gr_free(bytes);
    return st;
}

const char *gr_yaml_version(void)
{
    return yaml_get_version_string();
}

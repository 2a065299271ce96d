/*
 * Trees: what a YAML file says, with the line of every part. A tree is built once, in an
 * arena, and only read afterwards.
 */
#ifndef GR_TRAIN_CONFIG_TREE_H
#define GR_TRAIN_CONFIG_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "gradus/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_tree_entry {
    const char *key; /* of a map; NULL in a list */
    int line;        /* of the key, or of the value in a list */
    gr_tree *value;
} gr_tree_entry;

struct gr_tree {
    gr_tree_type type;
    bool quoted;      /* a scalar between quotes: text, whatever it looks like */
    bool empty;       /* NULL because nothing was written */
    const char *file; /* NULL: not from a file */
    int line;
    const char *text;
    gr_tree_entry *entries;
    int n, cap;
};

#define GR_YAML_MAX_BYTES ((size_t)4 << 20)
#define GR_YAML_MAX_NODES 100000 /* also after anchors are followed */
#define GR_YAML_MAX_DEPTH 32

/* NULL: no memory (message set), as everywhere in arenas. */
gr_tree *gr_tree_make(gr_arena *a, gr_tree_type type, const char *file, int line);
gr_tree *gr_tree_make_text(gr_arena *a, const char *text);
gr_status gr_tree_add(gr_arena *a, gr_tree *t, gr_tree_entry e) GR_MUST_CHECK;

/* One YAML document of at most GR_YAML_MAX_BYTES; an empty one is a map without entries. The
 * texts are copied into the arena. GR_ERR_ARG with file and line. */
gr_status gr_yaml_parse(gr_arena *a, const char *file, const char *bytes, size_t n_bytes,
                        gr_tree **out) GR_MUST_CHECK;
gr_status gr_yaml_read(gr_arena *a, const char *path, gr_tree **out) GR_MUST_CHECK;

/* Of the library, "0.2.5". */
const char *gr_yaml_version(void);

#ifdef __cplusplus
}
#endif

#endif

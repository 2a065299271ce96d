/*
 * Settings: typed values by dotted key ("model.name"), from flags, the environment, a YAML
 * file and defaults, in that order of precedence. A recipe lists its own keys in a table of
 * gr_key rows; the trainer reads them with its own, checks them, and hands the result to the
 * recipe's create(). A program with a loop of its own can do the same with the functions at
 * the end.
 *
 * Everything handed out is owned by the gr_settings and lives as long. A gr_settings that is
 * complete is only read: any number of threads.
 */
#ifndef GRADUS_SETTINGS_H
#define GRADUS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradus/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_settings gr_settings;

typedef enum gr_key_kind {
    GR_KEY_INT,
    GR_KEY_F64,
    GR_KEY_BOOL,
    GR_KEY_TEXT,
    GR_KEY_CHOICE, /* one of `choices`, whatever the case; read as text or as its number */
    GR_KEY_INTS,   /* lists: [1, 2] in a file, 1,2 after a flag; one value is a list of one */
    GR_KEY_F64S,
    GR_KEY_TEXTS,
    GR_KEY_TREE /* anything; the recipe looks through it */
} gr_key_kind;

/* What a value can do beyond the run. A checkpoint or a run's config.yaml may be a stranger's, so
 * such settings are not taken from it: a place to write or a program to run never from a
 * checkpoint, and both kinds from neither unless this user began that run on this host. */
enum {
    GR_KEY_WRITES = 1, /* names a place to write to, or a program to run */
    GR_KEY_AWAY = 2    /* leads out of the run: a path to read, a service to send to */
};

/* One setting of a recipe. Rows are written with designated initialisers. */
typedef struct gr_key {
    const char *name; /* dotted, lower case, '_' between words: "model.hidden_dim" */
    gr_key_kind kind;
    const char *preset;  /* the value when nobody gives one, as a flag would write it; NULL: none */
    double min, max;     /* numbers, and those in lists; both 0: no limits */
    const char *choices; /* CHOICE: "none|bf16=bfloat16|fp16=float16"; after '=' other words for
                            the same, which read as the first */
    const char *help;    /* one line */
    const char *also;    /* other names, in files and as flags, '|' between them:
                            "model_type|hidden_dim"; may be NULL */
    unsigned use;        /* GR_KEY_WRITES, GR_KEY_AWAY, or 0 */
} gr_key;

/*
 * Reading. The key is one of the table, and of the function's kind: anything else is a
 * mistake in the program and ends it with a message (the exception of status.h). Not given and
 * without a preset: 0, false, NULL, or an empty list.
 */
GR_API int64_t gr_settings_int(const gr_settings *s, const char *key); /* CHOICE: its number */
GR_API double gr_settings_f64(const gr_settings *s, const char *key);  /* INT, too */
GR_API bool gr_settings_bool(const gr_settings *s, const char *key);
GR_API const char *gr_settings_text(const gr_settings *s, const char *key); /* TEXT, CHOICE */

/* Lists: how many, and the one at i < count. */
GR_API int gr_settings_count(const gr_settings *s, const char *key);
GR_API int64_t gr_settings_int_at(const gr_settings *s, const char *key, int i);
GR_API double gr_settings_f64_at(const gr_settings *s, const char *key, int i);
GR_API const char *gr_settings_text_at(const gr_settings *s, const char *key, int i);

/* Whether a flag, the environment or a file gave it: not a preset. */
GR_API bool gr_settings_given(const gr_settings *s, const char *key);

/* GR_ERR_ARG with the place in front: "a.yaml:12: model.name: " or "flag '--model': ". For
 * what only the recipe can judge. */
GR_API gr_status gr_settings_fail(const gr_settings *s, const char *key, const char *fmt, ...)
    GR_PRINTF(3, 4) GR_MUST_CHECK;

/* ---- free-form parts ---- */

typedef struct gr_tree gr_tree;

typedef enum gr_tree_type {
    GR_TREE_NULL,
    GR_TREE_TEXT, /* every scalar */
    GR_TREE_LIST,
    GR_TREE_MAP
} gr_tree_type;

/* The value of a TREE key; NULL when there is none. */
GR_API const gr_tree *gr_settings_tree(const gr_settings *s, const char *key);

/* t is not NULL; borrowed from the settings like all trees here. */
GR_API gr_tree_type gr_tree_kind(const gr_tree *t);
/* Entries of a list or map, in the order of the file; 0 for others. */
GR_API int gr_tree_count(const gr_tree *t);
GR_API const gr_tree *gr_tree_at(const gr_tree *t, int i);
/* The key of entry i of a map. */
GR_API const char *gr_tree_key(const gr_tree *t, int i);
/* The entry of a map by key; NULL when there is none or t is no map (or NULL). */
GR_API const gr_tree *gr_tree_get(const gr_tree *t, const char *key);
/* A scalar's text; NULL for others. */
GR_API const char *gr_tree_text(const gr_tree *t);
GR_API int gr_tree_line(const gr_tree *t); /* from 1; 0: not from a file */

/* A scalar as a value; GR_ERR_ARG with file and line when it is none of that type. */
GR_API gr_status gr_tree_int(const gr_tree *t, int64_t *out) GR_MUST_CHECK;
GR_API gr_status gr_tree_f64(const gr_tree *t, double *out) GR_MUST_CHECK;
GR_API gr_status gr_tree_bool(const gr_tree *t, bool *out) GR_MUST_CHECK;
/* GR_ERR_ARG with file and line in front. */
GR_API gr_status gr_tree_fail(const gr_tree *t, const char *fmt, ...) GR_PRINTF(2, 3) GR_MUST_CHECK;

/* ---- for programs of one's own, and for tests ---- */

/* All keys at their presets. Borrows `keys`. The caller owns *out. GR_ERR_ARG: a row is wrong
 * (a name twice, a preset that does not fit). */
GR_API gr_status gr_settings_create(gr_settings **out, const gr_key *keys,
                                    int n_keys) GR_MUST_CHECK;
GR_API void gr_settings_destroy(gr_settings *s);

/*
 * A YAML file. Unknown keys (with the nearest known one), keys twice, wrong types and missing
 * values are GR_ERR_ARG, with file, line and key. Settings that are secrets by their name (keys,
 * tokens, passwords) are refused: they belong into the environment. At most 4 MiB, one document.
 */
GR_API gr_status gr_settings_read(gr_settings *s, const char *path) GR_MUST_CHECK;
/* The same with the text itself; `name` stands for the file in messages. */
GR_API gr_status gr_settings_read_text(gr_settings *s, const char *name, const char *text,
                                       size_t n_bytes) GR_MUST_CHECK;

/* "--model.name=x", "--model.name x"; '-' and '_' are alike. Takes all words: one that is no
 * flag and no value is GR_ERR_ARG. Flags win over files, later ones over earlier ones. */
GR_API gr_status gr_settings_words(gr_settings *s, int argc, char **argv) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

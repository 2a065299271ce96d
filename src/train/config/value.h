/* Values: what a tree means for a key of a certain kind. No state; any thread. */
#ifndef GR_TRAIN_CONFIG_VALUE_H
#define GR_TRAIN_CONFIG_VALUE_H

#include "train/config/tree.h"
#include "train/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NULL and *out, or why the scalar is none of that type: "is no whole number". */
const char *gr_scalar_int(const gr_tree *t, int64_t *out);
const char *gr_scalar_f64(const gr_tree *t, double *out);
const char *gr_scalar_bool(const gr_tree *t, bool *out);
/* What to show of a tree in a message: its text, or "a list". */
const char *gr_scalar_show(const gr_tree *t);

/* Kinds of the trainer's own settings, beside those of gr_key. */
enum {
    GR_KEY_SPAN = GR_KEY_TREE + 1, /* "1000", "2 epochs", "100 steps" */
    GR_KEY_BYTES                   /* "24GiB", "512MB", a number of bytes */
};

/* A value of any kind. A scalar is a list of one; not given: n is 0. */
typedef struct gr_setting {
    int n;
    int64_t *ints; /* INT, CHOICE (number), BOOL, SPAN (n and 1 for epochs), BYTES */
    double *f64s;  /* F64, and INT again */
    const char **texts;
    const gr_tree *tree;
} gr_setting;

/*
 * Reads `t` as the key says. On failure the message has no place in it: who calls knows where
 * it stands. GR_TREE_NULL gives a value with n 0.
 */
gr_status gr_setting_read(gr_arena *a, const gr_key *key, const gr_tree *t,
                          gr_setting *out) GR_MUST_CHECK;

/* A word after a flag as a tree: lists split at commas, flow YAML for free forms. `name` stands
 * before messages about what is inside; it is borrowed. */
gr_status gr_setting_word(gr_arena *a, const gr_key *key, const char *word, const char *name,
                          gr_tree **out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

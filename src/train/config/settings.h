/*
 * Settings from the inside: slots, the names that lead to them, and where values came from.
 *
 * (1) A slot has one canonical name, the dotted key. Other names lead to it; nothing is
 *     looked up by them after reading.
 * (2) A value replaces another only when its origin is at least as strong; but every value
 *     that is given is checked.
 * (3) A file gives a setting once, whatever names it uses.
 */
#ifndef GR_TRAIN_CONFIG_SETTINGS_H
#define GR_TRAIN_CONFIG_SETTINGS_H

#include "base/arena.h"
#include "base/text.h"
#include "gradus/recipe.h"
#include "gradus/settings.h"
#include "train/config/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From weak to strong. */
typedef enum gr_origin_kind {
    GR_FROM_NOTHING,
    GR_FROM_DEFAULT,
    GR_FROM_RECIPE, /* a preset of it */
    GR_FROM_SAVED,  /* the checkpoint that a run goes on from */
    GR_FROM_FILE,
    GR_FROM_ENV,
    GR_FROM_FLAG
} gr_origin_kind;

typedef struct gr_origin {
    gr_origin_kind kind;
    const char *name; /* as it was written: "--lr", "training.lr", "WANDB_PROJECT" */
    const char *file; /* GR_FROM_RECIPE: whose it is, "protein (form=newest)" */
    int line;
} gr_origin;

typedef struct gr_slot {
    const gr_key *key;
    unsigned reach; /* GR_KEY_WRITES, GR_KEY_AWAY */
    bool is_saved;  /* a checkpoint keeps it */
    uint32_t hash;  /* of its name */
    gr_origin origin;
    gr_setting value;
    bool is_found; /* the recipe took the value from the data: it is that of a run and its
                      checkpoints, and nobody's wish for another one */
} gr_slot;

/* A way to a slot. */
typedef struct gr_alias {
    const char *name;
    const char *key;      /* canonical */
    const char *on, *off; /* a switch: it stands for that value, and false for `off`. Without
                             `off` it may have a value, too */
} gr_alias;

/* "training." stands for "train." wherever a name begins with it. */
typedef struct gr_prefix {
    const char *name, *means;
} gr_prefix;

/* A name that other trainers have and this one does not: what to do instead. */
typedef struct gr_gone {
    const char *name, *instead;
} gr_gone;

/* Tables of names; all may be NULL, and end with a NULL name. Borrowed. */
typedef struct gr_names {
    const gr_alias *aliases;
    const gr_prefix *prefixes;
    const gr_gone *gone;
} gr_names;

typedef struct gr_way {
    gr_alias alias;
    uint32_t hash; /* of its name */
    int slot;
    const struct gr_recipe_alias *own; /* the recipe's; NULL: it is none of those */
} gr_way;

/* Settings in files of a run that were not taken, by name (config/saved.c). */
typedef enum gr_ignored_kind {
    GR_IGNORED_UNKNOWN, /* in the checkpoint, which is never asked for them */
    GR_IGNORED_AWAY,    /* in the checkpoint of another's run */
    GR_IGNORED_FILE,    /* in the config.yaml of another's run */
    GR_N_IGNORED
} gr_ignored_kind;

typedef struct gr_ignored {
    gr_text names; /* the first of them */
    int n;
} gr_ignored;

struct gr_settings {
    gr_arena *arena;
    gr_slot *slots;
    int n_slots, cap_slots;
    gr_way *ways; /* every known name: the slots' own first */
    int n_ways, cap_ways;
    gr_way *own; /* names of the recipe that go before those (names_own.c) */
    int n_own, cap_own;
    gr_names names;
    const struct gr_recipe *recipe; /* whose presets and names they are; NULL: none */
    int task;                       /* gr_task: with which of the recipe's names */
    int n_ranks;                    /* for presets; 0: not known yet, which is one */
    const char *listed_by;          /* the command whose --help has all names; NULL: help keys */
    bool is_lenient;                /* names that are not known are passed over */
    bool is_own;                    /* the checkpoint that is gone on from is of one's own run */
    bool is_foreign;                /* the file that is read is the record of somebody else's */
    gr_ignored ignored[GR_N_IGNORED];
    const struct gr_recipe *const
        *recipes;        /* all there are, NULL at the end, for messages; or NULL */
    gr_settings *before; /* replaced by this one; lives on for the texts that were handed out */
};

/* Empty, with these tables; aliases become ways by gr_settings_link(). */
gr_status gr_settings_make(gr_settings **out, const gr_names *names) GR_MUST_CHECK;
/* A slot for `key` at its preset, reachable by its name, its `also` and `flag` (or NULL). */
gr_status gr_settings_add(gr_settings *s, const gr_key *key, const char *flag) GR_MUST_CHECK;
/* Aliases whose key has a slot. After all slots were added. */
gr_status gr_settings_link(gr_settings *s) GR_MUST_CHECK;

gr_slot *gr_settings_slot(const gr_settings *s, const char *key); /* canonical; NULL: none */

/* presets.c: takes back the presets that were put and puts those that hold now. GR_ERR_ARG: a row
 * is wrong. */
gr_status gr_settings_settle(gr_settings *s) GR_MUST_CHECK;
/* presets.c: the rows, as `gradus help keys RECIPE` has them. */
void gr_presets_print(const struct gr_recipe *recipe, gr_text *out);

/* names_own.c: the recipe's own names. After all slots were added. */
gr_status gr_settings_link_own(gr_settings *s) GR_MUST_CHECK;
/* names_own.c: gr_settings_way() of what a user says: the recipe's own names go first. */
const gr_way *gr_settings_said(const gr_settings *s, const char *name, size_t n_name,
                               gr_origin_kind from);
/* names_own.c: the value as the setting has it: with its unit, or nothing. */
gr_status gr_settings_follow_own(gr_settings *s, const gr_recipe_alias *a, const gr_tree *t,
                                 const gr_tree **out) GR_MUST_CHECK;
/* names_own.c: what is wrong with a value at the first look may be right with a recipe. */
gr_status gr_settings_forgive(const gr_settings *s, const char *name, gr_status st) GR_MUST_CHECK;
void gr_recipe_aliases_print(const struct gr_recipe *recipe, gr_text *out);

/* names.c: the name with '_' for '-' and its beginning as it is here; false: too long. */
#define GR_MAX_NAME 128 /* longer words are no names */
bool gr_name_canonical(const gr_settings *s, const char *name, size_t n, char out[GR_MAX_NAME]);
/* By the whole name; NULL: none. */
gr_way *gr_settings_find(const gr_settings *s, const char *name);
/* names.c: the way that a name as written leads; NULL: none. */
const gr_way *gr_settings_way(const gr_settings *s, const char *name, size_t n_name);
/* Whether names that begin with `name` and a dot are known. */
bool gr_settings_is_group(const gr_settings *s, const char *name);
/* Whether the key stands in the group, by any of the group's names. */
bool gr_settings_group_has(const gr_settings *s, const char *group, const char *key);
/* GR_ERR_ARG: a name that is known as gone or as a secret, or the nearest known one. */
gr_status gr_settings_unknown(const gr_settings *s, const gr_origin *from,
                              const char *name) GR_MUST_CHECK;
/* A setting that must not stand in a file or on a command line. */
bool gr_is_secret_name(const char *name);

/* A value for a slot; an alias that is a switch is followed. GR_ERR_ARG has the place. */
gr_status gr_settings_put(gr_settings *s, const gr_way *way, const gr_tree *t,
                          const gr_origin *from) GR_MUST_CHECK;
/* The same with a word, and by canonical key. */
gr_status gr_settings_put_word(gr_settings *s, const gr_way *way, const char *word,
                               const gr_origin *from) GR_MUST_CHECK;
gr_status gr_settings_put_key(gr_settings *s, const char *key, const char *word,
                              gr_origin_kind kind) GR_MUST_CHECK;
/* Everything that a file says. */
gr_status gr_settings_put_tree(gr_settings *s, const gr_tree *root) GR_MUST_CHECK;

/* GR_ERR_ARG: the place, and this thread's message after it. */
gr_status gr_settings_wrap(gr_status st, const gr_origin *from);
/* "a.yaml:12", "flag '--lr'", "default", for people. */
void gr_origin_print(const gr_origin *o, gr_text *out);

/* words.c: words from the command line. A word that is neither flag nor value goes to
 * extra() (or is refused when that is NULL); after_unknown: it may be the value of a flag that
 * was passed over. A word that is_apart() is no value for a flag that can go without one. */
typedef struct gr_words {
    gr_status (*extra)(void *arg, const char *word, bool after_unknown);
    bool (*is_apart)(void *arg, const char *word);
    void *arg;
} gr_words;
gr_status gr_settings_take_words(gr_settings *s, int argc, char **argv,
                                 const gr_words *w) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

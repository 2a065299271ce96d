/* The one table of the trainer's settings, and the tables of other names for them. */
#ifndef GR_TRAIN_CONFIG_TABLE_H
#define GR_TRAIN_CONFIG_TABLE_H

#include "train/config/settings.h"
#include "train/options.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GR_USE_SAVED = 1,  /* a checkpoint keeps it */
    GR_USE_FIXED = 2,  /* may not change when a run goes on */
    GR_USE_LOCAL = 4,  /* a rank's own business: not compared */
    GR_USE_HIDDEN = 8, /* in no record: it acts on others, or says where they come from */
    GR_USE_EMPTY = 16, /* an empty text stands for none */
    /* What it can do beyond the run: see gradus/settings.h. No row that writes is SAVED. */
    GR_USE_WRITES = 32,
    GR_USE_AWAY = 64
};

#define GR_NO_FIELD ((size_t)-1)

typedef struct gr_row {
    gr_key key;       /* .name dotted; .also is not used */
    const char *flag; /* without dashes */
    const char *arg;  /* word for the value in help; NULL: by its kind */
    const char *env;  /* variable; NULL: none */
    size_t offset;    /* of the field in gr_train_options, or GR_NO_FIELD */
    unsigned use;
} gr_row;

extern const gr_row gr_rows[];
extern const int gr_n_rows;
extern const gr_names gr_trainer_names;

/* NULL: none. By canonical key, or by flag. */
const gr_row *gr_row_find(const char *name);

/* gr_train_options_parse() with a say in what becomes of other words. */
gr_status gr_train_options_look(gr_train_options *o, int argc, char **argv,
                                const gr_words *w) GR_MUST_CHECK;
/* GR_ERR_ARG: a row that is FIXED differs. */
gr_status gr_train_options_check_fixed(const gr_train_options *was,
                                       const gr_train_options *now) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

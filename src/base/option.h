/*
 * One table of options: parser, --help and the record of a run come from its rows.
 * "--name value", "--name=value"; '-' and '_' are alike in names; a flag takes no
 * value, or =true/=false. A name of one letter also takes one dash. Unknown names are
 * errors that give the nearest known one.
 */
#ifndef GR_BASE_OPTION_H
#define GR_BASE_OPTION_H

#include "base/status.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_option_kind {
    GR_OPTION_INT,   /* target: int64_t */
    GR_OPTION_F64,   /* target: double */
    GR_OPTION_TEXT,  /* target: const char *; points into argv */
    GR_OPTION_FLAG,  /* target: bool */
    GR_OPTION_CHOICE /* target: int; `choices` separated by '|' */
} gr_option_kind;

typedef struct gr_option {
    const char *name; /* NULL ends the table */
    gr_option_kind kind;
    void *target;
    double min, max;     /* INT and F64; both 0: no limits */
    const char *choices; /* CHOICE */
    const char *arg;     /* word for the value in --help, "N" */
    const char *help;
} gr_option;

/* Parses argv[0..argc-1] up to the first word that is no option, or after "--";
 * *n_used says how many words were taken. GR_ERR_ARG names option and value. */
gr_status gr_option_parse(const gr_option *table, int argc, char **argv, int *n_used) GR_MUST_CHECK;
/* Two columns, one row per option, with the current value of each target. */
void gr_option_help(const gr_option *table, gr_text *out);
/* The nearest of `names` (NULL-ended) to `word`, or NULL when none is near. */
const char *gr_nearest(const char *word, const char *const *names);

#ifdef __cplusplus
}
#endif

#endif

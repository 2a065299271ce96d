/* What the commands of gradus do; command.h has the table of them. */
#ifndef GR_TRAIN_TRAIN_H
#define GR_TRAIN_TRAIN_H

#include <stdio.h>

#include "base/status.h"
#include "base/text.h"
#include "gradus/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A library that the program may have. */
typedef struct gr_library {
    const char *name;
    const char *(*version)(void); /* NULL: it is absent */
    const char *without;          /* what that means */
} gr_library;

typedef struct gr_command {
    const char *program; /* argv[0]: shown commands begin with it */
    const char *verb;    /* the command's name, for its messages; NULL: train */
    int argc;            /* the words after the command's name */
    char **argv;
    const gr_recipe *const *recipes; /* ends with NULL */
    FILE *out;                       /* text for people; rank 0 writes it */
    const gr_library *libraries;     /* beside the trainer's own, for --version; ends with a NULL
                                        name; NULL: none */
} gr_command;

/*
 * Trains; returns on every rank alike. GR_ERR_STOPPED: a signal came, the state was saved,
 * and *signal is its number. Collective over the job that the environment describes.
 */
gr_status gr_train(const gr_command *c, int *signal) GR_MUST_CHECK;

/* What --help prints: with the recipe's own defaults if the first word is one. */
void gr_train_help(const gr_command *c, gr_text *out);

/* `gradus help keys [RECIPE] [WORD]`: every name of a setting; with a word, the settings that have
 * it in one of their names. GR_ERR_ARG, with the nearest name, when there is none. */
gr_status gr_keys_help(const gr_command *c, gr_text *out) GR_MUST_CHECK;

/*
 * `debug --nan RECIPE [train's options]`: steps as train takes them, but checked operator by
 * operator; says which value was the first that is not finite, on which rank, and fails
 * then. Runs max_steps steps, 20 without that, and saves nothing. Collective over the job.
 */
gr_status gr_debug(const gr_command *c) GR_MUST_CHECK;
void gr_debug_help(const gr_command *c, gr_text *out);

/* `test RECIPE --checkpoint RUN`, `predict ...`: collective over the job. */
gr_status gr_test(const gr_command *c) GR_MUST_CHECK;
void gr_test_help(const gr_command *c, gr_text *out);
gr_status gr_predict(const gr_command *c) GR_MUST_CHECK;
void gr_predict_help(const gr_command *c, gr_text *out);

/* `check RECIPE`: what train would do, tried without writing anything. Collective. */
gr_status gr_check(const gr_command *c) GR_MUST_CHECK;
void gr_check_help(const gr_command *c, gr_text *out);

/* `export CHECKPOINT --output FILE`: the model alone. One process. */
gr_status gr_export_command(const gr_command *c) GR_MUST_CHECK;
void gr_export_help(gr_text *out);

/* `list [recipes | runs [FOLDER]]`. One process. */
gr_status gr_list_command(const gr_command *c, gr_text *out) GR_MUST_CHECK;
void gr_list_help(gr_text *out);

/* Measures: `bench step mlp`. Collective over the job. */
gr_status gr_bench(const gr_command *c) GR_MUST_CHECK;
void gr_bench_help(gr_text *out);

#ifdef __cplusplus
}
#endif

#endif

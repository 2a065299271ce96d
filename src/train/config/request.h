/*
 * A first look at a command: which recipe, which task, how many ranks to start. The recipe's
 * own settings are not known before, so flags and keys that mean nothing yet are passed over;
 * gr_train_options_parse() judges them later.
 */
#ifndef GR_TRAIN_CONFIG_REQUEST_H
#define GR_TRAIN_CONFIG_REQUEST_H

#include "train/options.h"
#include "train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_request {
    gr_train_options o; /* what is known so far */
    const char *word;   /* the recipe as it was named; NULL: not */
    int argc;           /* the words without the recipe's name; argv is in the settings' arena */
    char **argv;
    const char *verb; /* the command's name; NULL: train */
    bool has_task;    /* a flag or the file named one */
} gr_request;

/* GR_ERR_ARG as always. Ended with gr_request_fini(), also after a failure. */
gr_status gr_request_read(gr_request *r, const gr_command *c) GR_MUST_CHECK;
void gr_request_fini(gr_request *r);

/* The recipe that was named, or that of the checkpoint to use, or the only one that knows all
 * settings and has one of them for its own. GR_ERR_ARG: none, an unknown one (with the
 * nearest), or one that was built for another interface. GR_ERR_IO, GR_ERR_FORMAT: the checkpoint
 * that should tell it cannot be read. */
gr_status gr_request_recipe(const gr_request *r, const gr_command *c,
                            const gr_recipe **out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

/*
 * What a recipe's own procedures run with (gr_runner of gradus/recipe.h), from the inside: the
 * trainer's step, or that of another checkpoint; and what they will be fed at most.
 */
#ifndef GR_TRAIN_RUNNER_H
#define GR_TRAIN_RUNNER_H

#include "gradus/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gr_trainer;

/* A run that the recipe has announced. */
typedef struct gr_expected {
    const char *trace;
    gr_named *feeds; /* without memory */
    int n_feeds;
} gr_expected;

struct gr_runner {
    struct gr_trainer *t; /* whose step it runs */
    bool is_own;          /* another checkpoint's, which it ends */
    gr_expected *expected;
    int n_expected, cap_expected;
    gr_runner *others; /* a list; they end with this one */
    gr_runner *next;
};

/* For the trainer's step. Ended with gr_runner_end(), after a failure too. */
gr_status gr_runner_begin(gr_runner **out, struct gr_trainer *t) GR_MUST_CHECK;
void gr_runner_end(gr_runner *r);

/* What runs that were announced need beside the state: the most of them, and which that is (NULL:
 * nothing was announced). */
gr_status gr_runner_measure(gr_runner *r, size_t *n_bytes, const char **trace) GR_MUST_CHECK;
/* Plans for them. */
gr_status gr_runner_plan(gr_runner *r) GR_MUST_CHECK;

/* other.c: the model of a checkpoint (a file, or a run) with a step of its own, on this rank
 * alone. */
gr_status gr_trainer_open_other(const struct gr_trainer *t, const char *path,
                                struct gr_trainer **out) GR_MUST_CHECK;
void gr_trainer_close_other(struct gr_trainer *t);

#ifdef __cplusplus
}
#endif

#endif

/*
 * A look into a step: where numbers go wrong, what uses the memory, which batch fits.
 * Each call belongs to the step's thread, as all of step.h does.
 */
#ifndef GRADUS_INSPECT_H
#define GRADUS_INSPECT_H

#include "gradus/step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- numbers that are not finite ---- */

typedef enum gr_check_kind {
    GR_CHECK_CLEAN,  /* nothing was found, and the step was made */
    GR_CHECK_INPUT,  /* in a feed */
    GR_CHECK_STATE,  /* in a parameter, buffer or moment, before the step */
    GR_CHECK_NODE,   /* in the result of an operator */
    GR_CHECK_UPDATE, /* in a parameter, buffer or moment, by the update */
    GR_CHECK_PEER    /* on another rank only */
} gr_check_kind;

#define GR_CHECK_NAME 128
#define GR_CHECK_TEXT 2048

/* The first value of a step that is not finite. */
typedef struct gr_check_report {
    gr_check_kind kind;
    char name[GR_CHECK_NAME]; /* of the feed, the variable, or the operator */
    char site[GR_CHECK_NAME]; /* "file:line" of the operator in the trace; else "" */
    uint32_t node;            /* the operator's number in dumps and plans */
    int output;               /* which of its results */
    gr_dtype dtype;
    gr_shape shape;
    int64_t element;          /* the first bad one, counted through all dimensions */
    double value;             /* of it: NaN, or an infinity */
    int64_t n_nan, n_inf;     /* of all its elements */
    bool is_overflow;         /* f16 and infinite from finite sources: beyond 65504 */
    char text[GR_CHECK_TEXT]; /* all of this in words, with the ranges of the sources */
} gr_check_report;

/*
 * One micro-step as gr_step_train(), run operator by operator, each result looked at.
 * When something is found, no state is changed and the call still returns GR_OK; the
 * micro-step counts as not made. Updates that go wrong are taken back, too.
 *
 * Passes that only make a step faster are left out, so that each operator of the trace is
 * seen by itself; in f32 the results are those of gr_step_train() to the last bit. Minus
 * infinity is let through where an input, or a constant of the trace, brings it in (masks).
 *
 * Slow, and takes memory for a copy of the state. Collective when the step is: all ranks
 * leave their state alone when one of them finds something, the others with GR_CHECK_PEER.
 */
GR_API gr_status gr_step_run_checked(gr_step *s, const gr_named *feeds, int n_feeds, double lr,
                                     gr_check_report *report) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

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
 * Slow, and takes memory for a copy of the state. Collective, for every micro-step: all
 * ranks leave their state alone when one of them finds something, the others with
 * GR_CHECK_PEER.
 */
GR_API gr_status gr_step_run_checked(gr_step *s, const gr_named *feeds, int n_feeds, double lr,
                                     gr_check_report *report) GR_MUST_CHECK;

/* ---- memory ---- */

#define GR_MEMORY_ITEMS 24

typedef struct gr_memory_item {
    char name[GR_CHECK_NAME];
    size_t n_bytes;
} gr_memory_item;

/* What a step of given shapes needs, on this rank. All numbers are bytes but for counts. */
typedef struct gr_memory_report {
    size_t total; /* state, exchange, inputs and arena */

    size_t params, buffers, optim; /* together the state; params: with their copies in 16 bits, if
                                      amp keeps some; optim: moments, averages, counters */
    size_t exchange;               /* slots of gradients: several ranks, or accumulation */
    size_t inputs;                 /* the feeds */

    size_t arena;      /* everything else, as it is laid out */
    size_t arena_live; /* the most that is alive at once: no layout could do with less */
    size_t arena_sum;  /* if nothing shared memory */
    size_t kept;       /* of forward values that the backward pass reads, all together */
    size_t work;       /* the largest workspace of an operator */

    /* Where the most is alive: the operator, and what lives there. */
    char peak_op[GR_CHECK_NAME], peak_site[GR_CHECK_NAME];
    uint32_t peak_node;
    size_t peak_kept, peak_work;

    /* `kept` by layer, the largest first; what does not fit in is the last, "others". A
     * layer is a name that gr_block_begin() gave, or else that of the parameters used. */
    gr_memory_item kept_by[GR_MEMORY_ITEMS];
    int n_kept_by;

    size_t recomputed;          /* kept values that the recompute pass dropped */
    int n_blocks, n_recomputed; /* blocks of the trace, and those that are computed again */
} gr_memory_report;

/*
 * Plans a step for the shapes of `feeds` (mem may be NULL) and says what it would need.
 * Nothing of that size is allocated and no plan is kept: it may be asked before the first
 * plan, and for shapes that do not fit. Not collective.
 */
GR_API gr_status gr_step_memory_report(gr_step *s, bool training, const gr_named *feeds,
                                       int n_feeds, gr_memory_report *out) GR_MUST_CHECK;

/* The same of an evaluation trace by name (gr_step_config.traces). Before the first training plan
 * its total lacks variables that the trace does not use. */
GR_API gr_status gr_step_memory_report_named(gr_step *s, const char *trace, const gr_named *feeds,
                                             int n_feeds, gr_memory_report *out) GR_MUST_CHECK;

/* The report as a table. From malloc; free() it. */
GR_API gr_status gr_memory_report_text(const gr_memory_report *r, char **out) GR_MUST_CHECK;

/* ---- which batch fits ---- */

/* Sets the shapes of `feeds`, which are copies of the caller's, to those of a batch. */
typedef void gr_scale_fn(gr_named *feeds, int n_feeds, int64_t batch, void *user);

typedef struct gr_fit_config {
    size_t limit_bytes;           /* for gr_memory_report.total */
    int64_t min_batch, max_batch; /* where to look */
    gr_scale_fn *scale;           /* NULL: dimension 0 of every feed becomes the batch */
    void *user;                   /* for scale */
} gr_fit_config;

#define GR_FIT_CONFIG_INIT                 \
    {                                      \
        0, 1, (int64_t)1 << 20, NULL, NULL \
    }

/*
 * The largest batch per micro-step and rank whose training step keeps within the limit,
 * found by planning, and the bytes it needs. Memory must not shrink when the batch grows.
 * GR_ERR_NOMEM when min_batch itself does not fit, with both numbers. A failure leaves *batch and
 * *n_bytes as they were. Not collective.
 */
GR_API gr_status gr_step_fit_batch(gr_step *s, const gr_named *feeds, int n_feeds,
                                   const gr_fit_config *config, int64_t *batch,
                                   size_t *n_bytes) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

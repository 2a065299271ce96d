/*
 * Whole models as tests train them: a trace, and data and weights from a hash of names and
 * places, as tests/golden/torch_models.py computes them; so nothing is stored.
 */
#ifndef GR_TESTS_NN_MODELS_H
#define GR_TESTS_NN_MODELS_H

#include "gradus/gradus.h"

#define MODEL_MAX_FEEDS 9

typedef enum model_fill {
    MODEL_REAL,  /* in [-1, 1), times `scale` */
    MODEL_LABEL, /* i64 in [0, n) */
    MODEL_MASK,  /* bool: a label that is not 0 */
    MODEL_BITS,  /* f32, a label of 0 or 1 */
    MODEL_LENGTH /* bool [b, l]: true before l - n * sample */
} model_fill;

typedef struct model_feed {
    const char *name;
    model_fill fill;
    int n;        /* classes, or how much shorter each sample is */
    double scale; /* of MODEL_REAL; 0: 1 */
    gr_shape shape;
} model_feed;

typedef struct model {
    const char *name;
    gr_trace_fn *trace;
    const void *config;
    int64_t n_params; /* trainable ones; 0: not looked at */
    double lr;        /* times the rate of the optimiser */
    double bf16;      /* how far bf16 may be from f32's loss, relative to it */
    model_feed feeds[MODEL_MAX_FEEDS];
    int n_feeds;
} model;

/* Small ones for every run of the tests; the full ones for `make proof` and benchmarks. */
extern const model models_small[], models_full[];
extern const int n_models_small, n_models_full;

/* Memory for the feeds of a model; the caller frees it with model_feeds_free(). */
void model_feeds_make(const model *m, gr_named *feeds);
void model_feeds_fill(const model *m, gr_named *feeds, int step);
void model_feeds_free(const model *m, gr_named *feeds);

/* A step of the model with its training plan made and its weights set. */
void model_open(const model *m, const gr_step_config *config, gr_step **out);

#endif

/* The models that `gradus bench step` knows. */
#ifndef GR_TRAIN_BENCH_MODELS_H
#define GR_TRAIN_BENCH_MODELS_H

#include "gradus/step.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_BENCH_MAX_FEEDS 5

/* Random data: f32 uniform in [-1, 1) times scale; i32 in [0, n); bool all true. */
typedef struct gr_bench_feed {
    const char *name;
    gr_dtype dtype;
    int32_t n;
    float scale;
    int n_dims; /* without the batch, which comes first */
    int64_t dim[4];
} gr_bench_feed;

typedef struct gr_bench_model {
    const char *name, *text;
    int64_t batch;
    int stretch; /* steps between two looks at the clock */
    gr_trace_fn *trace;
    gr_bench_feed feeds[GR_BENCH_MAX_FEEDS];
    int n_feeds;
} gr_bench_model;

extern const gr_bench_model gr_bench_models[]; /* a name of NULL ends it */
const gr_bench_model *gr_bench_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif

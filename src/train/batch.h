/* A batch in host memory: room for the samples of one micro-step, and feeds over it. */
#ifndef GR_TRAIN_BATCH_H
#define GR_TRAIN_BATCH_H

#include "gradus/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_batch {
    const gr_recipe *recipe;    /* borrowed */
    const gr_recipe_view *view; /* borrowed */
    int64_t cap;                /* samples it has room for */
    gr_named feeds[GR_RECIPE_MAX_FEEDS];
    void *mem[GR_RECIPE_MAX_FEEDS]; /* owned; also in feeds */
    size_t sample_bytes[GR_RECIPE_MAX_FEEDS];
} gr_batch;

/* Ended with gr_batch_fini(), after a failure too. */
gr_status gr_batch_init(gr_batch *b, const gr_recipe *recipe, const gr_recipe_view *view,
                        int64_t cap) GR_MUST_CHECK;
void gr_batch_fini(gr_batch *b);

/* Feeds for n samples, n <= cap. */
void gr_batch_resize(gr_batch *b, int64_t n);
/* Loads a sample of the recipe's data into place i. */
gr_status gr_batch_load(gr_batch *b, const void *user, const gr_sample *sample,
                        int64_t i) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

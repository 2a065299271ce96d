/*
 * What a step is fed: samples of a recipe in batches, made ahead by the loader's threads.
 * One feed for each split that is used; all of them belong to the trainer's thread.
 */
#ifndef GR_TRAIN_FEED_H
#define GR_TRAIN_FEED_H

#include "data/loader.h"
#include "gradus/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where samples come from; borrowed by the workers, so it stays where it is. */
typedef struct gr_feed_source {
    const gr_recipe *recipe;
    const void *user;
    const gr_recipe_view *view;
    gr_split split;
    uint64_t seed;
} gr_feed_source;

typedef struct gr_feed {
    gr_feed_source from;
    gr_order_source *order; /* owned */
    gr_loader *loader;      /* owned; NULL: not open */
    uint8_t *bad;           /* owned: a bit for each sample of the split that did not load; NULL:
                               such samples are errors */
    int64_t n_bad;          /* of them on this rank, so far */
    int64_t n_bad_shared;   /* as of the latest gr_trainer_count_skips(): this rank's, */
    int64_t n_bad_all;      /* and those of all ranks together */
    gr_named *feeds;        /* owned: over the latest batch */
} gr_feed;

typedef struct gr_feed_config {
    gr_feed_source from;
    gr_order_source *order;    /* taken over, also when opening fails */
    int64_t n_samples;         /* of the split, all ranks together */
    struct gr_device *device;  /* whose pinned memory batches lie in; NULL: plain memory */
    int n_workers, prefetch;   /* as gr_loader_config */
    int64_t batches_per_epoch; /* 0: all */
    int64_t end_epoch;         /* 0: no end */
    bool skips; /* samples that do not load are left out (training: replaced), and counted */
} gr_feed_config;

/* "training", "validation", ...; static. */
const char *gr_split_name(gr_split split);
/* Feeds for n samples: names, types and shapes, without memory. */
gr_status gr_feed_shapes(const gr_recipe_view *view, int64_t n, gr_named *feeds) GR_MUST_CHECK;
size_t gr_feed_sample_bytes(const gr_recipe_view *view); /* of one sample in all feeds */

/* Ended with gr_feed_close(), after a failure too. */
gr_status gr_feed_open(gr_feed *f, const gr_feed_config *c) GR_MUST_CHECK;
void gr_feed_close(gr_feed *f);
/* The next batch, and f->feeds over it; NULL behind the last one. A sample that was skipped
 * is counted once, however often it comes, and the first few are named. */
gr_status gr_feed_next(gr_feed *f, const gr_loaded **out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

/*
 * What a step is fed: samples of a recipe in batches, made ahead by the loader's threads.
 * One feed for each split that is used; all of them belong to the trainer's thread.
 */
#ifndef GR_TRAIN_FEED_H
#define GR_TRAIN_FEED_H

#include "data/loader.h"
#include "gradus/recipe.h"
#include "train/fields.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where samples come from; borrowed by the workers, so it stays where it is. */
typedef struct gr_feed_source {
    const gr_recipe *recipe;
    const void *user;
    const gr_recipe_view *view;
    const gr_sizes *sizes; /* of its samples; NULL: they are of one size */
    gr_split split;
    uint64_t seed;
} gr_feed_source;

/* What a thread needs to load samples. */
typedef struct gr_feed_worker {
    void *scratch;       /* the recipe's */
    gr_feed_slot *slots; /* owned: one for each feed that the recipe loads */
} gr_feed_worker;

typedef struct gr_feed {
    gr_feed_source from;
    gr_order_source *order;  /* owned */
    gr_loader *loader;       /* owned; NULL: not open */
    gr_feed_worker *workers; /* owned: as many as load */
    int n_workers;
    size_t *bytes; /* owned: of a sample of feed f at size k: [f x sizes + k]; NULL: one size */
    uint8_t *bad;  /* owned: a bit for each sample of the split that did not load; NULL:
                      such samples are errors */
    int64_t n_bad; /* of them on this rank, so far */
    int64_t n_bad_shared; /* as of the latest gr_trainer_count_skips(): this rank's, */
    int64_t n_bad_all;    /* and those of all ranks together */
    gr_named *feeds;      /* owned: over the latest batch */
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
/* What batches of size k are padded to, for gr_feed_shapes(); NULL without sizes. */
const int64_t *gr_feed_size(const gr_sizes *sizes, int k);

/* Ended with gr_feed_close_worker(), after a failure too. */
gr_status gr_feed_open_worker(const gr_feed_source *from, gr_feed_worker *w) GR_MUST_CHECK;
void gr_feed_close_worker(const gr_feed_source *from, gr_feed_worker *w);
/* One sample, padded to size k (0 without sizes), to mem[i] of each feed of the view. */
gr_status gr_feed_load(const gr_feed_source *from, gr_feed_worker *w, const gr_sample *sample,
                       int k, void *const *mem) GR_MUST_CHECK;

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

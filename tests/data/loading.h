/* What tests of the loader share: samples that tell what they are, of which some are slow and some
 * do not load, and a loader's settings for them. */
#ifndef GR_TESTS_DATA_LOADING_H
#define GR_TESTS_DATA_LOADING_H

#include "data/loader.h"

#include <stdatomic.h>

#define LOADING_FEATURES 5

/* How samples load, and what was asked for. */
typedef struct loading {
    int64_t broken[8]; /* indices that do not load */
    int n_broken;
    bool all_broken;
    int sleep_us; /* of sample index: (index mod 3) x sleep_us */
    atomic_int n_loads, max_worker;
    size_t bytes[GR_SIZES_MOST]; /* of field 1 at each of the source's sizes */
} loading;

/* Samples of `source` for `n_workers`. Field 0: features that tell index and epoch; field 1:
 * as many bytes as the source pads a sample to on its first axis, or one. */
gr_loader_config loading_config(loading *w, gr_order_source *source, int n_workers);

/* One rank's, always in the same order. The caller destroys it. */
gr_order_source *loading_shuffled(int64_t n, int64_t batch, bool drop_last);

/* Ends the test unless every sample of the batch holds what its index says. */
void loading_check(const loading *w, const gr_loaded *b);

void loading_nap(int us);

#endif

/*
 * Which samples a rank loads in an epoch, cut into batches: what stands between a sampler
 * and the loader.
 *
 * An order is one epoch written out. A source writes it: it is a sampler with its batch
 * size, and gives the same order for the same epoch every time it is asked, in whatever
 * sequence of epochs. So a run is resumed by going to a place, not by replaying.
 */
#ifndef GR_DATA_ORDER_H
#define GR_DATA_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "data/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Batch b is index[first[b]] ... index[first[b + 1] - 1]. The arrays grow and are reused for
 * other epochs. Starts as { 0 }. */
typedef struct gr_order {
    int64_t n_samples, n_batches;
    int64_t *index; /* n_samples */
    int64_t *first; /* n_batches + 1 */
    int64_t *size;  /* n_batches: which size samples are padded to; 0 where nothing is padded */
    int64_t *n_all; /* n_batches, of orders for training: samples of all ranks in this batch */
    int64_t cap_samples, cap_batches;
} gr_order;

void gr_order_fini(gr_order *o);
/* Room for as many; the contents are lost. */
gr_status gr_order_reserve(gr_order *o, int64_t n_samples, int64_t n_batches) GR_MUST_CHECK;
/* Cuts n_samples, for which there is room, into batches; the last one may be short. Every rank
 * has as many. */
void gr_order_cut(gr_order *o, int64_t n_samples, int64_t batch_size, int n_ranks);

typedef struct gr_order_source gr_order_source;

/* Is told of n samples of size k. */
typedef gr_status gr_order_shape_fn(void *arg, int64_t n, int k);

typedef struct gr_order_source_ops {
    const char *name;
    /* Writes out `epoch`. One thread at a time. */
    gr_status (*fill)(gr_order_source *s, int64_t epoch, gr_order *out);
    gr_status (*shapes)(const gr_order_source *s, gr_order_shape_fn *fn, void *arg);
    void (*destroy)(gr_order_source *s);
} gr_order_source_ops;

/* Every source begins with this. The counts are those of one rank in any epoch. Of sources
 * for training n_batches is equal on all ranks, whatever the data (P3). */
struct gr_order_source {
    const gr_order_source_ops *ops;
    int64_t n_samples; /* at most; less only with buckets for training */
    int64_t n_batches;
    int64_t fewest;        /* batches that every rank has */
    int64_t max_batch;     /* samples in the largest batch, */
    int64_t last_batch;    /* and in the last one, if all others have max_batch; else 0 */
    const gr_sizes *sizes; /* borrowed: what batches are padded to; NULL: samples are of one size */
    int64_t *max_of;       /* owned: of each size, samples in the largest batch; NULL without */
};

/* Calls back for each shape that batches of this rank can have in any epoch; the larger ones of a
 * size come first. */
gr_status gr_order_shapes(const gr_order_source *s, gr_order_shape_fn *fn, void *arg) GR_MUST_CHECK;

void gr_order_source_destroy(gr_order_source *s); /* NULL is fine */

/* ---- sources; the caller owns *out ---- */

typedef struct gr_batch_cut {
    int64_t batch_size; /* of one rank */
    bool drop_last;     /* no short batch at the end */
} gr_batch_cut;

typedef struct gr_rank {
    int rank, n_ranks;
} gr_rank;

/* torch's DistributedSampler and batches of it: for training. A new order in each epoch. */
struct gr_sampler_config;
gr_status gr_order_shuffled(gr_order_source **out, const struct gr_sampler_config *config,
                            gr_batch_cut cut) GR_MUST_CHECK;

/* Every sample once over all ranks, in rising order, nothing repeated and nothing dropped:
 * for validation, test and predict (P36). Rank r takes r, r + W, r + 2W, ...; place i of rank
 * r is sample r + i W. Counts differ between ranks by one at most, and may be 0. */
gr_status gr_order_exact(gr_order_source **out, int64_t n_samples, gr_rank rank,
                         int64_t batch_size) GR_MUST_CHECK;

/* torch's WeightedRandomSampler with replacement, its generator seeded with seed + epoch, and
 * its list dealt out as DistributedSampler deals: place p belongs to rank p mod W, and the
 * head is repeated until all ranks have as many. */
typedef struct gr_weighted_config {
    const double *weights; /* copied */
    int64_t n_samples;     /* how many weights */
    int64_t n_draws;       /* of all ranks together in an epoch; 0: n_samples */
    uint64_t seed;
    gr_rank rank;
    gr_batch_cut cut;
} gr_weighted_config;
gr_status gr_order_weighted(gr_order_source **out, const gr_weighted_config *config) GR_MUST_CHECK;

/* The samples of an epoch as somebody else lists them, dealt out as DistributedSampler deals. */
typedef struct gr_listed_config {
    /* Writes n_samples indices; the same for the same epoch. Any thread, one at a time. */
    gr_status (*list)(void *arg, int64_t epoch, int64_t *index);
    void *arg; /* borrowed */
    int64_t n_samples;
    gr_rank rank;
    gr_batch_cut cut;
} gr_listed_config;
gr_status gr_order_listed(gr_order_source **out, const gr_listed_config *config) GR_MUST_CHECK;

/* Batches of another source, which is taken over (after a failure too), padded to the first size
 * that holds all of their samples: one of them must hold any batch (gr_sizes_limits.whole). */
gr_status gr_order_padded(gr_order_source **out, gr_order_source *of,
                          const gr_sizes *sizes) GR_MUST_CHECK;

/* Samples of one size together, and as many as a budget of padded tokens holds (P21). Each
 * sample once an epoch over all ranks; other batches in every epoch, but as many, and as many on
 * every rank (only if all batches are single samples, some of these come twice for that). */
typedef struct gr_bucket_config {
    const gr_sizes *sizes; /* of the samples; borrowed */
    int64_t max_tokens;    /* samples x tokens of a batch are never more, but that with `exact` a
                              longer sample is a batch of its own; 0: any */
    int64_t max_batch;     /* samples of a batch; 0: what the budget allows */
    int64_t multiple;      /* batches of an epoch on each rank are a multiple of it; 0: 1 */
    uint64_t seed;
    bool in_order; /* no shuffling: by rising tokens in every epoch */
    bool exact;    /* for validation: the same, and ranks may differ by a batch */
    gr_rank rank;
} gr_bucket_config;
gr_status gr_order_bucketed(gr_order_source **out, const gr_bucket_config *config) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

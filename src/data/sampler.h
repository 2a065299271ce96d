/*
 * Which samples a rank takes, in which order: torch.utils.data.DistributedSampler, number
 * for number. The order is drawn anew in every epoch, from seed + epoch.
 */
#ifndef GR_DATA_SAMPLER_H
#define GR_DATA_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_sampler_config {
    int64_t n_samples; /* of the data set; at least 1 */
    int rank, n_ranks;
    uint64_t seed;
    bool in_order;  /* no shuffling */
    bool drop_last; /* cut the data to a multiple of the ranks instead of padding it */
} gr_sampler_config;

typedef struct gr_sampler gr_sampler;

gr_status gr_sampler_create(gr_sampler **out, const gr_sampler_config *config) GR_MUST_CHECK;
void gr_sampler_destroy(gr_sampler *s);

/* Samples of one rank in one epoch: equal on all ranks. */
int64_t gr_sampler_count(const gr_sampler *s);

/* Draws the order of `epoch`; does nothing when it is the current one. No allocation. */
void gr_sampler_set_epoch(gr_sampler *s, int64_t epoch);

/* The index of this rank's i-th sample, 0 <= i < count, in the current epoch (0 at first). */
int64_t gr_sampler_at(const gr_sampler *s, int64_t i);

#ifdef __cplusplus
}
#endif

#endif

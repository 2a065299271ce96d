/*
 * What a prediction or an action gives (gr_results of gradus/recipe.h), from the inside: rows and
 * pictures of all ranks, put in the order of their units.
 */
#ifndef GR_TRAIN_RESULTS_H
#define GR_TRAIN_RESULTS_H

#include "base/text.h"
#include "gradus/comm.h"
#include "gradus/recipe.h"
#include "track/track.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_RESULTS_SAMPLES "samples" /* the folder of pictures, in that of the results */

/* Everything is borrowed. */
typedef struct gr_results_config {
    const char *folder;
    const char *prefix; /* of the files of pictures: "step_100_"; NULL: none */
    const gr_column *columns;
    int n_columns; /* 0: there are no rows */
} gr_results_config;

gr_status gr_results_create(gr_results **out, const gr_results_config *c) GR_MUST_CHECK;
void gr_results_destroy(gr_results *r);

/* Rank 0 writes what all ranks have, by units: predictions.csv and predictions.jsonl, and pictures
 * as samples/<prefix><name>.png. Once. Collective. */
gr_status gr_results_write(gr_results *r, gr_pg *pg) GR_MUST_CHECK;
/* The same of what this rank has, and nobody else. */
gr_status gr_results_write_own(gr_results *r) GR_MUST_CHECK;
/* Pictures that were written, on rank 0. */
int64_t gr_results_n_pictures(const gr_results *r);
/* After that, rank 0: the pictures to the trackers, as "samples/<name>". */
void gr_results_show(const gr_results *r, gr_track *track, int64_t step);

#ifdef __cplusplus
}
#endif

#endif

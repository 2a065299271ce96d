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

/* Everything is borrowed. Without columns there are no rows. */
gr_status gr_results_create(gr_results **out, const char *folder, const gr_column *columns,
                            int n_columns) GR_MUST_CHECK;
void gr_results_destroy(gr_results *r);

/* Rank 0 writes what all ranks have, by units: predictions.csv and predictions.jsonl, and pictures
 * as samples/<name>.png. Once. Collective. */
gr_status gr_results_write(gr_results *r, gr_pg *pg) GR_MUST_CHECK;
/* Pictures that were written, on rank 0. */
int64_t gr_results_n_pictures(const gr_results *r);
/* After that, rank 0: the pictures to the trackers, as "samples/<name>". */
void gr_results_show(const gr_results *r, gr_track *track, int64_t step);

#ifdef __cplusplus
}
#endif

#endif

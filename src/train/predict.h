/* The inside of gr_prediction: rows of all ranks become one file. */
#ifndef GR_TRAIN_PREDICT_H
#define GR_TRAIN_PREDICT_H

#include "base/text.h"
#include "gradus/comm.h"
#include "gradus/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `folder` is borrowed. */
gr_status gr_prediction_create(gr_prediction **out, const char *folder) GR_MUST_CHECK;
void gr_prediction_destroy(gr_prediction *p);

/* Rank 0 writes the rows of all ranks to `path`, below `header`, by the samples' indices.
 * Collective. */
gr_status gr_prediction_write(gr_prediction *p, gr_pg *pg, const char *header,
                              const char *path) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

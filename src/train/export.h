/* The inside of `gradus export`. */
#ifndef GR_TRAIN_EXPORT_H
#define GR_TRAIN_EXPORT_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_export {
    const char *checkpoint, *output;
    bool best;           /* of a folder: the best one instead of the last */
    bool ema;            /* averages in place of the parameters */
    bool trainable_only; /* without frozen parameters */
} gr_export;

/* The model in a checkpoint, as a copy. GR_ERR_ARG: averages are wanted and there are none.
 * Caller owns *out. */
gr_status gr_export_model(const gr_snapshot *snap, const gr_export *e,
                          gr_snapshot **out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

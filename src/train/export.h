/* The inside of `gradus export`. */
#ifndef GR_TRAIN_EXPORT_H
#define GR_TRAIN_EXPORT_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_export {
    const char *checkpoint, *output, *output_dir, *run_id; /* as typed; NULL: not */
    const char *source;  /* a file or folder; NULL: the run that output_dir and run_id name */
    const char *pick;    /* of a folder: "best" or "last"; NULL: the best if there is one */
    bool best;           /* as pick "best" */
    bool raw;            /* the command: no averages even where there are */
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

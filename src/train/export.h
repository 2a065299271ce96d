/* The inside of `gradus export`. */
#ifndef GR_TRAIN_EXPORT_H
#define GR_TRAIN_EXPORT_H

#include "gradus/tensor.h"
#include "train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_export {
    const char *checkpoint, *output, *output_dir, *run_id; /* as typed; NULL: not */
    const char *pretrained; /* instead of the file that the run began with; NULL: that one */
    const char *source;     /* a file or folder; NULL: the run that output_dir and run_id name */
    const char *layout;     /* of the recipe's; NULL: this program's */
    const char *pick;       /* of a folder: "best" or "last"; NULL: the best if there is one */
    bool best;              /* as pick "best" */
    bool raw;               /* the command: no averages even where there are */
    bool ema;               /* averages in place of the parameters */
    bool trainable_only;    /* without frozen parameters */
} gr_export;

/* The model in a checkpoint, as a copy. GR_ERR_ARG: averages are wanted and there are none.
 * Caller owns *out. */
gr_status gr_export_model(const gr_snapshot *snap, const gr_export *e,
                          gr_snapshot **out) GR_MUST_CHECK;

typedef struct gr_complete {
    const gr_command *command; /* its recipes */
    const char *path;          /* of the checkpoint */
    const char *pretrained;    /* as in gr_export */
    int n_absent;              /* frozen tensors that it lacks */
} gr_complete;

/* complete.c: the checkpoint with all the tensors that its run had. Fails, with what to do, when
 * the model cannot be made again (its data or the file that it began with are gone). Caller
 * owns *out. */
gr_status gr_export_complete(const gr_complete *c, const gr_snapshot *snap,
                             gr_snapshot **out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

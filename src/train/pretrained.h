/* Weights from a file of any making, put into a model by name. */
#ifndef GR_TRAIN_PRETRAINED_H
#define GR_TRAIN_PRETRAINED_H

#include "base/text.h"
#include "train/trainer.h"

/* What became of the tensors: counts, and the first few names of each. */
typedef struct gr_pretrained {
    int n_wanted, n_taken; /* tensors of the model, and those that the file gave */
    int n_missing, n_misfits, n_unexpected;
    int n_idle;                                 /* rules of the map that no name begins with */
    gr_text missing, misfits, unexpected, idle; /* owned */
} gr_pretrained;

/*
 * Writes what fits from `file` into the tensors of `state`: same name, after wrappers and the
 * key of the model are taken off and `map` is applied; same shape; a floating type becomes f32.
 * Averages of parameters follow. GR_ERR_ARG when nothing fits. Ended with _fini in any case.
 */
gr_status gr_pretrained_apply(gr_pretrained *p, const gr_snapshot *file, const char *map,
                              const gr_snapshot *state) GR_MUST_CHECK;
void gr_pretrained_fini(gr_pretrained *p);

#endif

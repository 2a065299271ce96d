/*
 * What a loss is made of, and what a trace records besides (gradus/loss.h): in training of the
 * steps that are recorded, in an evaluation of all samples.
 */
#ifndef GR_TRAIN_PARTS_H
#define GR_TRAIN_PARTS_H

#include <stdbool.h>

#include "base/arena.h"
#include "gradus/comm.h"
#include "gradus/step.h"
#include "train/exact.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "loss/dice", 0.25. */
typedef struct gr_loss_part {
    const char *name;
    double value;
} gr_loss_part;

/* Of one trace, "train" or "eval". */
typedef struct gr_parts {
    struct gr_terms *terms; /* of the first run; NULL: nothing has run */
    int64_t n_columns;      /* numbers that are added up */
    gr_exact *sums;
    double *most; /* of those whose greatest is asked for */
    float *row;   /* a number or vector of a training step, or rows of an evaluation */
    size_t row_cap;
    bool has_loss; /* the loss is made of terms */
    double loss;
    gr_loss_part *list; /* of one term that is the whole loss: nothing */
    int n;
} gr_parts;

void gr_parts_fini(gr_parts *p);
void gr_parts_clear(gr_parts *p);

/* After a micro-step of training: its sums, added. */
gr_status gr_parts_take_step(gr_parts *p, gr_step *s, gr_arena *arena) GR_MUST_CHECK;
/* After n_micro of them on each rank: p->list on all ranks. Collective. */
gr_status gr_parts_share_step(gr_parts *p, gr_pg *pg, int64_t n_micro) GR_MUST_CHECK;

/* After an evaluation of n samples. */
gr_status gr_parts_take_rows(gr_parts *p, gr_step *s, gr_arena *arena, int64_t n) GR_MUST_CHECK;
/* After all n_samples of all ranks: p->loss and the values of p->list on all ranks, its names
 * where anything has run. Rank 0 has run something if any rank has. Collective. */
gr_status gr_parts_share_rows(gr_parts *p, gr_pg *pg, int64_t n_samples,
                              gr_arena *arena) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

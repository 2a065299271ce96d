/*
 * The training loss of an epoch: the mean over its samples, of all ranks and micro-steps, not the
 * loss of its last batch, which may be tiny.
 *
 * Sums are whole numbers of 2^-52, so that they come out the same however they are cut up: over
 * ranks, over starts of the run, at whatever steps it was saved. They are part of a checkpoint, and
 * a resumed run must have its bits. A step whose loss is not finite has changed nothing if the run
 * goes on (finite.c), and counts for nothing here.
 *
 * On a device that is not the host, losses are copied behind the steps into memory that is looked
 * at where the run waits for the device anyway: no step waits for this.
 */
#ifndef GR_TRAIN_MEAN_H
#define GR_TRAIN_MEAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_MEAN_QUEUE 1024 /* losses under way at most; then the host waits for the device once */

/* whole + part / 2^52, with part in [0, 2^52), is the sum of losses times samples. */
typedef struct gr_mean_sum {
    int64_t whole, part;
    int64_t n; /* samples */
} gr_mean_sum;

void gr_mean_add(gr_mean_sum *s, double loss, int64_t n);
/* `part` of *more may be any number that is not negative. */
void gr_mean_join(gr_mean_sum *s, const gr_mean_sum *more);
double gr_mean_of(const gr_mean_sum *s); /* NaN: of no samples */

typedef struct gr_epoch_mean {
    int64_t epoch;        /* of the sums, from 0; -1: none yet */
    gr_mean_sum own;      /* of this rank, since the epoch or this start began */
    gr_mean_sum before;   /* rank 0: what a checkpoint brought of the epoch, of all ranks */
    int64_t n_untold;     /* samples of micro-steps whose loss comes with a later one */
    int64_t n_all_untold; /* of all ranks */

    void *queue;                      /* pinned: 4 bytes a loss; NULL: none needed yet */
    int64_t n_samples[GR_MEAN_QUEUE]; /* of the losses in it */
    double scale[GR_MEAN_QUEUE];      /* what they count times that */
    int dtype;                        /* gr_dtype of them */
    int n_queued;

    /* Alike on all ranks, as of step `at`; -1: never. */
    int64_t at;
    gr_mean_sum all;
    double value; /* NaN: not known */
    bool has_best;
    double best;        /* of a whole epoch */
    int64_t best_epoch; /* from 1 */
} gr_epoch_mean;

#define GR_EPOCH_MEAN_INIT                           \
    {                                                \
        .epoch = -1, .at = -1, .value = (double)NAN, \
    }

/* What a checkpoint keeps of it, exact, and back. GR_ERR_FORMAT. `before` is set on every rank. */
void gr_mean_print(const gr_epoch_mean *m, gr_text *out);
gr_status gr_mean_parse(gr_epoch_mean *m, const char *text) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

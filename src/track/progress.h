/*
 * The progress of a run for people: one line that redraws itself on a terminal, plain
 * lines in a file or pipe. Rank 0 only; one thread.
 */
#ifndef GR_TRACK_PROGRESS_H
#define GR_TRACK_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_progress_view {
    int64_t epoch, n_epochs; /* from 1 */
    int64_t step, n_steps;   /* of this epoch, from 1 */
    double loss, lr;
    double samples_per_s;  /* of all ranks; 0: not known yet */
    double left_s;         /* until the end; negative: not known yet */
    double data, exchange; /* shares of the time, 0 to 1; the rest is computing */
    int64_t n_skipped;     /* steps without effect; shown when there are some */
    double scale;          /* of the loss; 0: not shown */
} gr_progress_view;

/* "epoch 2/8  step 40/187  loss 0.1235  lr 1.9e-03  51200 samples/s  ETA 0:12
 * data 3%  exchange 12%  skipped 1  scale 32768" */
void gr_progress_format(const gr_progress_view *v, gr_text *out);
/* "0:07", "12:30", "3:05:09", "-:--" when negative. */
void gr_progress_time(double s, gr_text *out);

typedef struct gr_progress {
    FILE *out; /* borrowed */
    bool live;
    int64_t drawn_at_ns;
    bool line_open; /* a live line stands without its line break */
    bool broken;    /* `out` could not be written once; that was said */
} gr_progress;

void gr_progress_init(gr_progress *p, FILE *out, bool live);
/* Would a live line be drawn now? Spares its numbers when not: ten a second are enough. */
bool gr_progress_due(const gr_progress *p);
/* Draws the live line, or prints a plain one. */
void gr_progress_show(gr_progress *p, const gr_progress_view *v);
/* Before other text goes to the same place: a live line is wiped. */
void gr_progress_clear(gr_progress *p);
/* After other text went there. Text that cannot be written is no reason to end a run: the
 * log says so once, or nothing when the reader has left (EPIPE: "| head"). */
void gr_progress_flush(gr_progress *p);

#ifdef __cplusplus
}
#endif

#endif

/*
 * TensorBoard's event file: scalars, images, histograms, text and hyperparameters of one run.
 *
 *     <folder>/events.out.tfevents.<seconds>.<host>.<pid>.<count>
 *
 * A folder is a run; a resumed run adds a file to it, and TensorBoard shows them as one, once
 * gr_events_cut() has taken from the older files what comes again. Each record carries checksums; a
 * reader that meets a cut last record waits for the rest of it. Strings that are no UTF-8 are made
 * so. One thread at a time.
 */
#ifndef GR_TRACK_EVENTS_H
#define GR_TRACK_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "track/keep.h"
#include "track/png.h"
#include "track/value.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_events gr_events;

/* How scalars are stored. TensorBoard shows both alike. */
typedef enum gr_scalar_form {
    GR_SCALAR_SIMPLE, /* simple_value, as PyTorch's writer: every reader knows it */
    GR_SCALAR_TENSOR  /* a tensor of the scalars plugin, as TensorFlow 2 */
} gr_scalar_form;

/* Where a value belongs: its name, the step, and the time in seconds since 1970. */
typedef struct gr_event_at {
    const char *tag;
    int64_t step;
    double wall_time;
} gr_event_at;

/* events_cut.c: cuts the files that we wrote in a folder where what is kept ends, and off records
 * that a crash left half. A file of which only a start is left goes; those of others stay as they
 * are, and a folder that is not there is fine. */
gr_status gr_events_cut(const char *folder, const gr_keep *keep) GR_MUST_CHECK;
/* Makes the folder and a new file in it. */
gr_status gr_events_open(gr_events **out, const char *folder, gr_scalar_form form) GR_MUST_CHECK;
/* Writes what is left and frees in any case; NULL is fine. */
gr_status gr_events_close(gr_events *e) GR_MUST_CHECK;
/* Borrowed, for messages. */
const char *gr_events_path(const gr_events *e);

gr_status gr_events_scalar(gr_events *e, const gr_event_at *at, double value) GR_MUST_CHECK;
gr_status gr_events_image(gr_events *e, const gr_event_at *at, const gr_pixels *p) GR_MUST_CHECK;
gr_status gr_events_text(gr_events *e, const gr_event_at *at, const char *text) GR_MUST_CHECK;
/* How often which value occurs, in buckets that widen by a tenth from 1e-12 on to both sides.
 * NaN and infinities are left out; without any value nothing is written. */
gr_status gr_events_histogram(gr_events *e, const gr_event_at *at, const float *values,
                              int64_t n) GR_MUST_CHECK;

/* The run's parameters and the tags that judge it, for the HPARAMS page. Once, at the start;
 * then once how it ended. */
gr_status gr_events_hparams(gr_events *e, double wall_time, const gr_param *params, int n_params,
                            const char *const *metrics, int n_metrics) GR_MUST_CHECK;
gr_status gr_events_ended(gr_events *e, double wall_time, bool success) GR_MUST_CHECK;

/* Tells readers that follow the run to forget what they have of this step and of later ones. */
gr_status gr_events_restarted(gr_events *e, int64_t step) GR_MUST_CHECK;

/* Writes the buffer out when that was last done over 2 seconds ago; `now`: in any case. */
gr_status gr_events_flush(gr_events *e, bool now) GR_MUST_CHECK;
/* Until the disk has everything. */
gr_status gr_events_sync(gr_events *e) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

/* The files of a tracked run, each of which can be off. One thread at a time. */
#ifndef GR_TRACK_OUTPUTS_H
#define GR_TRACK_OUTPUTS_H

#include "track/csv.h"
#include "track/curves.h"
#include "track/metrics.h"
#include "track/track.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_outputs {
    gr_metrics *jsonl;
    gr_csv *csv;
    gr_events *events;
    gr_wandb *wandb;
    gr_curves *curves;
    gr_text plots_folder, wandb_folder, wandb_id;
} gr_outputs;

/* Something larger than a number, for TensorBoard, and a picture for W&B, too; `data` follows the
 * struct. */
typedef struct gr_blob {
    enum { GR_BLOB_IMAGE, GR_BLOB_PICTURE, GR_BLOB_TEXT, GR_BLOB_HISTOGRAM } kind;
    gr_event_at at;   /* its tag points into this block */
    gr_pixels pixels; /* of an image */
    int64_t n;        /* values of a histogram */
    void *data;
} gr_blob;

void gr_outputs_open(gr_outputs *o, const gr_track_config *c);
void gr_outputs_record(gr_outputs *o, const gr_track_record *r);
void gr_outputs_blob(gr_outputs *o, const gr_blob *b);
void gr_outputs_plot(gr_outputs *o);
void gr_outputs_end_step(gr_outputs *o); /* its records are all there */
void gr_outputs_flush(gr_outputs *o);    /* what waits for over 2 seconds */
void gr_outputs_sync(gr_outputs *o);     /* until the disk has every record */
void gr_outputs_close(gr_outputs *o, int exit_code);

#ifdef __cplusplus
}
#endif

#endif

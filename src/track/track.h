/*
 * Tracking of a run: metrics.jsonl, metrics.csv, TensorBoard, W&B, learning curves. Rank 0 only.
 *
 * The training thread hands records over; one thread of our own writes them. Handing over never
 * waits for a disk: when the queue is full, the record is dropped and counted. Nothing here fails
 * a run: an output that cannot be written says so in one line of the log and is off from then on.
 *
 * All functions accept NULL for `t` and do nothing. They may be called by several threads, except
 * open and close.
 */
#ifndef GR_TRACK_TRACK_H
#define GR_TRACK_TRACK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "base/text.h"
#include "track/events.h"
#include "track/wandb.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_track gr_track;

typedef struct gr_track_config {
    const char *folder; /* of the run; made if need be */
    int64_t last_step;  /* records after it are removed: those steps are run again */
    bool metrics_again; /* the values of last_step that `metrics` names come again, too */
    bool jsonl, csv;    /* <folder>/metrics.jsonl, metrics.csv */
    bool tensorboard;   /* <folder>/tensorboard/ */
    bool plots;         /* <folder>/plots/<name>.png, at each gr_track_plot() */
    gr_scalar_form scalar_form;
    const gr_wandb_config *wandb; /* NULL: none; its params are those below */
    bool no_upload;               /* to W&B: only the command is told */
    const gr_param *params;       /* of the run, for TensorBoard and W&B */
    int n_params;
    const char *const *metrics; /* the names that judge the run, for TensorBoard */
    int n_metrics;
    int queue_size; /* records; 0: 512 */
    int close_ms;   /* the longest that close waits for the disk; 0: 30 s */
} gr_track_config;

#define GR_TRACK_NAME_BYTES 48
#define GR_TRACK_FEW        32

typedef struct gr_track_value {
    char name[GR_TRACK_NAME_BYTES]; /* longer ones are cut */
    double value;
    bool is_whole;
} gr_track_value;

/* The values of a step. The first few lie on the caller's stack, so that nothing is allocated in a
 * step; further ones, as evaluations may have, in memory that submitting takes over. */
typedef struct gr_track_record {
    int64_t step;
    double wall_time;
    int n;
    gr_track_value values[GR_TRACK_FEW];
    gr_track_value *more; /* from GR_TRACK_FEW on */
    int cap_more;
} gr_track_record;

void gr_track_begin(gr_track_record *r, int64_t step);
void gr_track_i64(gr_track_record *r, const char *name, int64_t value);
void gr_track_f64(gr_track_record *r, const char *name, double value);

/* Fails only without memory or threads; outputs that cannot be opened are off. */
gr_status gr_track_open(gr_track **out, const gr_track_config *c) GR_MUST_CHECK;

/* Every record that was begun is submitted. False when it was dropped. */
bool gr_track_submit(gr_track *t, gr_track_record *r);

static inline const gr_track_value *gr_track_value_at(const gr_track_record *r, int i)
{
    return i < GR_TRACK_FEW ? &r->values[i] : &r->more[i - GR_TRACK_FEW];
}

/* For TensorBoard; what is given is copied, so these are for the end of an epoch. False when it
 * was dropped, for want of room or memory, or as an image that no PNG can hold. */
bool gr_track_image(gr_track *t, const char *tag, int64_t step, const gr_pixels *p);
/* The same, for W&B, too. */
bool gr_track_picture(gr_track *t, const char *tag, int64_t step, const gr_pixels *p);
bool gr_track_text(gr_track *t, const char *tag, int64_t step, const char *text);
bool gr_track_histogram(gr_track *t, const char *tag, int64_t step, const float *values, int64_t n);
/* Draws the curves with what was submitted before. */
bool gr_track_plot(gr_track *t);

/* The latest step has no more records: one that gathers a step's values need not wait for the next.
 * Before a checkpoint of that step. */
bool gr_track_end_step(gr_track *t);
/* Until the disk has what was submitted before, or `ms` have passed: then false. What a checkpoint
 * says was done must be in the records first. */
bool gr_track_sync(gr_track *t, int ms);

int64_t gr_track_dropped(gr_track *t);
/* The id of the W&B run, to resume it; "" without one. Borrowed. */
const char *gr_track_wandb_id(const gr_track *t);

typedef struct gr_track_end {
    pid_t wandb_child;     /* uploads the run; -1: none */
    gr_text wandb_command; /* does the same, for the user to run; empty without W&B */
    int64_t n_dropped;
} gr_track_end;

/* Writes what is left and ends all outputs; `exit_code` is the run's. `end` may be NULL; its text
 * is the caller's to gr_text_fini(). A disk that hangs longer than close_ms is left alone: the
 * thread and its memory stay until the process ends. */
void gr_track_close(gr_track *t, int exit_code, gr_track_end *end);

#ifdef __cplusplus
}
#endif

#endif

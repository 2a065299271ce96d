/*
 * A W&B run without the network and without the client: the folder that `wandb sync` uploads.
 *
 *     <folder>/wandb/offline-run-YYYYMMDD_HHMMSS-<id>/run-<id>.wandb, files/, logs/, tmp/
 *
 * What is not given is taken from the client's own variables: WANDB_PROJECT, WANDB_NAME,
 * WANDB_ENTITY, WANDB_RUN_ID, WANDB_RUN_GROUP, WANDB_JOB_TYPE, WANDB_NOTES, WANDB_TAGS,
 * WANDB_DIR. One thread at a time.
 */
#ifndef GR_TRACK_WANDB_H
#define GR_TRACK_WANDB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "base/text.h"
#include "track/keep.h"
#include "track/png.h"
#include "track/value.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_wandb gr_wandb;

/* Each NULL or "": from its variable, and else the default. */
typedef struct gr_wandb_config {
    const char *folder;  /* WANDB_DIR wins over this; "." */
    const char *project; /* "uncategorized", as the client */
    const char *name;    /* the server makes one up */
    const char *entity;  /* the server's default */
    const char *run_id;  /* 8 random letters and digits */
    const char *group, *job_type, *notes;
    const char *tags; /* a,b,c */
    const gr_param *params;
    int n_params;
    const gr_keep *keep; /* of rows of earlier starts of the same run_id; NULL: they stay */
} gr_wandb_config;

/* WANDB_DISABLED=true: the user wants none of this. WANDB_MODE is for who calls: a setting stands
 * over it. */
bool gr_wandb_disabled(void);

/* An id with other than letters, digits, '-', '_' and '.' is GR_ERR_ARG. */
gr_status gr_wandb_open(gr_wandb **out, const gr_wandb_config *c) GR_MUST_CHECK;
/* Values of one step are one row, also when they come in several calls; a step before the
 * current one is left out, as the client does. */
gr_status gr_wandb_log(gr_wandb *w, int64_t step, double wall_time, const char *name,
                       double value) GR_MUST_CHECK;
/* A picture of that step, in the same row; its name may hold folders. */
gr_status gr_wandb_image(gr_wandb *w, int64_t step, double wall_time, const char *name,
                         const gr_pixels *p) GR_MUST_CHECK;
/* Writes the buffer out when that was last done over 2 seconds ago; `now`: in any case. */
gr_status gr_wandb_flush(gr_wandb *w, bool now) GR_MUST_CHECK;
/* The row has all its values: it need not wait for a later step to be written. */
gr_status gr_wandb_end_row(gr_wandb *w) GR_MUST_CHECK;
/* Until the disk has every row that has ended. */
gr_status gr_wandb_sync_rows(gr_wandb *w) GR_MUST_CHECK;
/* Last row, last values as the summary, exit code; frees in any case. NULL is fine. */
gr_status gr_wandb_close(gr_wandb *w, int exit_code) GR_MUST_CHECK;

const char *gr_wandb_folder(const gr_wandb *w); /* of this run; borrowed */
const char *gr_wandb_id(const gr_wandb *w);     /* borrowed; keep it to resume the same run */

/*
 * After the close, with the run's folder: when WANDB_API_KEY is set and the client is on PATH,
 * starts `wandb sync FOLDER` in a session of its own, with its output
 * in FOLDER/logs/sync.log, and gives back its process in *child, which need not be waited for.
 * Otherwise *child is -1. `command` gets the line for the user to run, in either case. Without
 * `child` the run stays where it is, and only the line is given. The client does not see
 * WANDB_MODE: whether to upload is decided.
 */
gr_status gr_wandb_sync(const char *run_folder, pid_t *child, gr_text *command) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

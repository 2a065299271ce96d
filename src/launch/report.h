/* What to tell when a job has failed: the root cause first, then those that followed. */
#ifndef GR_LAUNCH_REPORT_H
#define GR_LAUNCH_REPORT_H

#include "launch/worker.h"

/* How much a failure is to blame; lower is more. */
enum {
    GR_BLAME_OWN,  /* failed by itself */
    GR_BLAME_STOP, /* somebody asked it, not us, to stop, and it ended in order */
    GR_BLAME_PEER, /* suffered from another rank (GR_EXIT_PEER) */
    GR_BLAME_TOLD, /* was told to end */
    GR_BLAME_NONE  /* did not fail */
};

/* The worker to blame, or NULL when none failed: the first that failed by itself; else the first
 * that was stopped, whatever its leaving did to others; else the first of what there is. */
const worker *gr_report_root(const worker *workers, int n_workers);
int gr_report_blame(const worker *w); /* NULL: GR_BLAME_NONE */

/* 0, the exit code of `root`, or 128 plus its signal. */
int gr_report_exit_code(const worker *root);

/* Host, rank, how, when, what its error file says, its last lines; then the followers. */
void gr_report_write(gr_text *out, const worker *workers, int n_workers, int64_t start_ns,
                     const gr_logs *logs);

/* How one worker ended, without a line end; nothing for NULL. */
void gr_report_line(gr_text *out, const worker *w, int64_t start_ns);

/* A text of several lines to the log, line by line. */
void gr_report_log(const char *text);

/* The host's name, for texts. */
void gr_report_host(char *out, size_t out_bytes);

#endif

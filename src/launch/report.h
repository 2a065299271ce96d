/* What to tell when a job has failed: the root cause first, then those that followed. */
#ifndef GR_LAUNCH_REPORT_H
#define GR_LAUNCH_REPORT_H

#include "launch/worker.h"

/* How much a failure is to blame; lower is more. */
enum {
    GR_BLAME_OWN,  /* failed by itself */
    GR_BLAME_STOP, /* somebody asked it, not us, to stop, and it ended in order */
    GR_BLAME_PEER, /* suffered from another rank (GR_EXIT_PEER) */
    GR_BLAME_BAD,  /* was told to end, and ended badly: SIGKILL, or a code of its own */
    GR_BLAME_TOLD, /* was told to end, and did */
    GR_BLAME_NONE  /* did not fail */
};

/* The worker to blame, or NULL when none failed: the first that failed by itself; else the first
 * that was stopped, whatever its leaving did to others; else the first of what there is. */
const worker *gr_report_root(const worker *workers, int n_workers);
int gr_report_blame(const worker *w); /* NULL: GR_BLAME_NONE */

/* Whether it ended as those do that are asked to stop: killed by such a signal, or with 128 plus
 * its number. */
bool gr_report_was_asked(const worker *w);

/* 0, the exit code of `root`, or 128 plus its signal. `stop`: the signal that stopped the job, 0
 * for none: then 128 plus that is the code of ranks that ended as they should, 0 included. */
int gr_report_exit_code(const worker *root, int stop);

/* Host, rank, how, when, what its error file says, its last lines; then the followers. Of a job
 * that was stopped there is a line even when all ranks ended with 0. */
void gr_report_write(gr_text *out, const worker *workers, int n_workers, int stop, int64_t start_ns,
                     const gr_logs *logs);

/* How one worker ended, without a line end; nothing for NULL. */
void gr_report_line(gr_text *out, const worker *w, int64_t start_ns);

/* A text of several lines to the log, line by line. */
void gr_report_log(const char *text);

/* The host's name, for texts. */
void gr_report_host(char *out, size_t out_bytes);

#endif

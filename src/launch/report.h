/* What to tell when a job has failed: the root cause first, then those that followed. */
#ifndef GR_LAUNCH_REPORT_H
#define GR_LAUNCH_REPORT_H

#include "launch/worker.h"

/* The worker to blame, or NULL when none failed: the first that neither suffered from
 * another rank (GR_EXIT_PEER) nor was told to end; else the first of what there is. */
const worker *gr_report_root(const worker *workers, int n_workers);

/* 0, the exit code of `root`, or 128 plus its signal. */
int gr_report_exit_code(const worker *root);

void gr_report_write(gr_text *out, const worker *workers, int n_workers, int64_t start_ns);

#endif

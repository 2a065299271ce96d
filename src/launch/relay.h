/*
 * The ranks' output: whole lines of each, never mixed within a line. A thread of its own,
 * because whoever reads our output may be slow, and watching the ranks must not wait.
 */
#ifndef GR_LAUNCH_RELAY_H
#define GR_LAUNCH_RELAY_H

#include "base/clock.h"
#include "launch/worker.h"

typedef struct relay relay;

/* Borrows the workers and takes their pipes and files. */
gr_status relay_start(relay **out, worker *workers, const gr_launch_config *c,
                      const gr_logs *logs) GR_MUST_CHECK;
/* Passes on what is left, at most until the deadline, and ends. NULL is fine. */
void relay_finish(relay *r, gr_deadline d);

#endif

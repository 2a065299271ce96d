/*
 * Two processes instead of one, so that no descendant of a job outlives the launcher:
 *
 *     front    what the user started: passes signals on, waits, ends with the agent's code
 *       agent  a session of its own: starts and watches the ranks
 *         ranks and what they start
 *
 * Both adopt orphans below them (PR_SET_CHILD_SUBREAPER). When the front is killed, the agent
 * sees the end of a pipe and kills everything below it; when the agent is killed, the front
 * does. Signals reach the ranks through the agent only, unless somebody signals all processes.
 */
#ifndef GR_LAUNCH_GUARD_H
#define GR_LAUNCH_GUARD_H

#include "base/text.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct gr_guard {
    sigset_t endings; /* signals that end the job; set by the caller */
    bool is_front;
    int exit_code; /* front: of the whole */
    int front;     /* agent: end of file here says that the front is gone */
} gr_guard;

/*
 * Forks. In the front it returns when all is over, with the exit code, and a text if the agent
 * was killed; the agent returns at once. `signals`, SIGCHLD among them, are blocked by the caller
 * and stay so in both. Called before there are threads.
 */
gr_status gr_guard_start(gr_guard *g, const sigset_t *signals, gr_text *report) GR_MUST_CHECK;

/* Ends everything below this process: SIGTERM and, when grace_ms have passed, SIGKILL; with 0
 * SIGKILL at once. Reaps it all. */
void gr_guard_end_descendants(int grace_ms);
/* Reaps orphans that have ended, but none of the n children in `ours`. */
void gr_guard_reap_strays(const pid_t *ours, int n);

#endif

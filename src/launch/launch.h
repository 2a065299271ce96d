/*
 * Running a job: n processes of one program on this host, watched until the last has
 * ended. When one fails the others are ended too, and the report says which was first.
 */
#ifndef GR_LAUNCH_LAUNCH_H
#define GR_LAUNCH_LAUNCH_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_launch_config {
    int n_ranks;
    int port;          /* of the key-value store; 0: a free one */
    int shutdown_ms;   /* from SIGTERM to SIGKILL */
    bool no_python;    /* execute a program ending in .py directly */
    char *const *argv; /* the program and its arguments, ended by NULL; a program without a
                        * slash is looked for in PATH, then beside this one */
} gr_launch_config;

#define GR_LAUNCH_CONFIG_INIT    \
    {                            \
        1, 0, 30000, false, NULL \
    }

/*
 * Runs the job to its end; output of the ranks goes to stdout and stderr. GR_OK: all
 * processes were started, and *exit_code is 0, or the root cause's exit code, or 128 plus
 * its signal; `report` then says who failed, how, and in which order. SIGINT, SIGTERM,
 * SIGHUP and SIGQUIT are passed on to the ranks; a second one ends them at once. A SIGHUP
 * that is ignored (nohup) stays so.
 *
 * Called once, from the main thread of a program that has no other threads or children.
 */
gr_status gr_launch(const gr_launch_config *config, int *exit_code, gr_text *report) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

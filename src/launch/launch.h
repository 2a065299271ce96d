/*
 * Running a job: processes of one program on one or many hosts, watched until the last has
 * ended. When one fails the others are ended too, and the report says which was first; if
 * restarts are left, all start again.
 */
#ifndef GR_LAUNCH_LAUNCH_H
#define GR_LAUNCH_LAUNCH_H

#include "base/text.h"
#include "launch/config.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_launch_result {
    int exit_code;  /* 0, the root cause's exit code, or 128 plus its signal or that of a stop */
    gr_text report; /* for stderr; empty when all went well */
} gr_launch_result;

/*
 * Runs the job to its end; output of the ranks goes to stdout and stderr. GR_OK: the job ran,
 * and the result says how it ended. A second signal to end, 2 s after the first, ends the ranks at
 * once. Signals stay blocked afterwards.
 *
 * Called once, from the main thread of a program that has no other threads or children. It
 * forks: two processes return from it, one after the other, the second with an empty report.
 * Both must end with the exit code of the result.
 */
gr_status gr_launch(const gr_launch_config *config, gr_launch_result *result) GR_MUST_CHECK;

/*
 * A whole program: options, help, launch. `out` is for stdout, the report for stderr.
 * `legacy`: gradrun-launch, which hands each rank --local-rank=N unless --use-env is given.
 */
gr_status gr_launch_program(bool legacy, int argc, char **argv, gr_text *out,
                            gr_launch_result *result) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

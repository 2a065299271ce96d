/* One process of the job, and how it is started. */
#ifndef GR_LAUNCH_WORKER_H
#define GR_LAUNCH_WORKER_H

#include "launch/launch.h"

#include <stdint.h>
#include <sys/types.h>

#define TAIL_BYTES 2048

/* The last bytes that a rank wrote to stderr, for the report. */
typedef struct worker_tail {
    char mem[TAIL_BYTES];
    size_t len;
} worker_tail;

typedef struct worker {
    int rank;
    pid_t pid;      /* 0: not started; also its session and process group */
    int out, err;   /* our ends of its pipes; -1: it has the terminal, or is at its end */
    bool has_ended; /* it is kept as a zombie until the job is over: its number stays ours */
    bool was_told;  /* it was sent a signal to end before it ended */
    int exit_code;  /* -1 when killed */
    int signal;     /* that killed it, or 0 */
    int order;      /* of ending, from 0 */
    int64_t ended_ns;
    worker_tail tail; /* of stderr; only the relay's thread until it has ended */
} worker;

/* Starts all; on failure those that run are killed and the failure says who did not. */
gr_status gr_workers_start(worker *workers, const gr_launch_config *config, int port) GR_MUST_CHECK;

/* To the whole process group of a worker; one that has ended may still have children. */
void gr_worker_signal(const worker *w, int signal);

#endif

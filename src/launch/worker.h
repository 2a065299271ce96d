/* One process of the job, and how it is started. */
#ifndef GR_LAUNCH_WORKER_H
#define GR_LAUNCH_WORKER_H

#include "launch/config.h"
#include "launch/logs.h"
#include "launch/place.h"

#include <stdint.h>
#include <sys/types.h>

#define TAIL_BYTES 2048

/* The last bytes that a rank wrote to stderr, for the report. */
typedef struct worker_tail {
    char mem[TAIL_BYTES];
    size_t len;
} worker_tail;

/* One of the two streams of a rank. */
typedef struct worker_stream {
    int pipe;      /* our end; -1: it goes elsewhere, or is at its end */
    int file;      /* that a copy goes to, or -1 */
    bool is_shown; /* on our own stdout or stderr */
    bool is_tee;   /* shown and filed: has torchrun's prefix */
} worker_stream;

typedef struct worker {
    int rank, local_rank;
    pid_t pid; /* 0: not started; also its session and process group */
    worker_stream out, err;
    bool has_terminal; /* it has our terminal as its stdout */
    bool has_ended;    /* it is kept as a zombie until the round is over: its number stays ours */
    bool was_told;     /* it was sent a signal to end before it ended */
    int exit_code;     /* -1 when killed */
    int signal;        /* that killed it, or 0 */
    int order;         /* of ending, from 0 */
    int64_t ended_ns;
    worker_tail tail; /* of stderr; only the relay's thread until it has ended */
} worker;

/* Starts all; on failure those that run are killed and the failure says who did not. */
gr_status gr_workers_start(worker *workers, const gr_launch_config *c, const gr_place *p,
                           const gr_logs *logs) GR_MUST_CHECK;

/* To the whole process group of a worker; one that has ended may still have children. */
void gr_worker_signal(const worker *w, int signal);

#endif

/*
 * A process beside the ranks that does nothing but tell which signals reached it. Service managers,
 * batch systems and the end of a container signal every process of a job: the ranks, too, and a
 * program may take a second signal for "end now". A signal that came to the witness has come to the
 * ranks, and is not passed on to them.
 *
 * It looks like a rank to those who choose processes by their words: `pkill -f gradrun` does not
 * reach it, `pkill -f train.py` does.
 */
#ifndef GR_LAUNCH_WITNESS_H
#define GR_LAUNCH_WITNESS_H

#include "base/status.h"

#include <signal.h>
#include <sys/types.h>

typedef struct gr_witness {
    pid_t pid; /* 0: not there */
    int fd;    /* readable when it has something to tell; -1: none */
} gr_witness;

/* `words`: the program of the ranks and its arguments, ended by NULL. */
gr_status gr_witness_start(gr_witness *w, const sigset_t *signals,
                           char *const *words) GR_MUST_CHECK;
/* The signal that reached it, or 0. Does not wait. */
int gr_witness_heard(gr_witness *w);
void gr_witness_end(gr_witness *w);

#endif

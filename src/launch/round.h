/*
 * One round: all ranks of this host, from their start to the end of the last.
 *
 *     running --a rank fails by itself--------------------> ending: SIGTERM to all
 *        |  \--a rank fails because of another (PEER)--> lingering: the culprit may be
 *        |   \-a rank ends as those do that are stopped    about to say why, or the stop to
 *        |                                               reach us; then ending
 *        |---gr_round_end()----------------------------> ending
 *        |---gr_round_stop()---------------------------> ending, once it is clear whether the
 *        |                                               ranks have had the signal (witness.h)
 *     ending --shutdown_ms pass, or gr_round_stop() GR_SAME_STOP_MS later--> SIGKILL to all
 *
 * A rank that has ended stays a zombie until the round is over: its number cannot be given
 * to a stranger, so signals to its group are safe. At the end everything below this process
 * is ended, whatever session it is in.
 */
#ifndef GR_LAUNCH_ROUND_H
#define GR_LAUNCH_ROUND_H

#include "base/clock.h"
#include "launch/relay.h"
#include "launch/witness.h"
#include "launch/worker.h"

/* Signals that come within this time are one stop, however many, and to whomever of the job. Who
 * sends them has 2 s; the rest is for their way by other processes and hosts, which each wait for
 * GR_SPREAD_MS, and for machines that are busy. */
#define GR_SAME_STOP_MS 3000
/* How long the rest of the processes may take to get a signal that was meant for all. */
#define GR_SPREAD_MS 300

typedef struct gr_round {
    const gr_launch_config *config;
    worker *workers; /* config->n_local */
    pid_t *pids;     /* theirs, and the witness's */
    gr_witness witness;
    relay *output;
    int n_ended;
    bool is_lingering, is_ending, is_killed;
    int stop_signal;   /* of the stop that was asked for; 0: none */
    int untold;        /* signal that the ranks are still to get; 0: none */
    bool says_waiting; /* a word is due when ranks take longer than GR_SAME_STOP_MS */
    gr_deadline next;  /* of lingering, of telling, or from ending to SIGKILL */
    int64_t start_ns, ending_ns;
} gr_round;

#define GR_ROUND_INIT ((gr_round){ .witness = { .fd = -1 } })

/* Starts the ranks. gr_round_fini() follows in any case. */
gr_status gr_round_start(gr_round *r, const gr_launch_config *c, const gr_place *p,
                         const gr_logs *logs) GR_MUST_CHECK;
/* After SIGCHLD: looks who has ended. */
void gr_round_look(gr_round *r);
/* Passes a signal on that does not end the round. */
void gr_round_signal(gr_round *r, int signal);
/* Sends the signal and lets the time run; nothing when it ends already. */
void gr_round_end(gr_round *r, int signal);
/* Somebody wants the job to stop; once more, GR_SAME_STOP_MS later, and it is SIGKILL. */
void gr_round_stop(gr_round *r, int signal);
/* The stop has reached the ranks as it reached the witness: they need not be told. */
void gr_round_was_hit(gr_round *r, int signal);
void gr_round_kill(gr_round *r);
/* What its deadlines ask for; returns milliseconds until the next one, -1: none. */
int gr_round_tick(gr_round *r);
bool gr_round_is_over(const gr_round *r);
/* Whether a rank that nobody told anything ended as those do that are stopped. */
bool gr_round_looks_stopped(const gr_round *r);
/* Ends what is left and passes the last output on. */
void gr_round_finish(gr_round *r);
void gr_round_fini(gr_round *r);

#endif

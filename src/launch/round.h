/*
 * One round: all ranks of this host, from their start to the end of the last.
 *
 *     running --a rank fails by itself--------------------> ending: SIGTERM to all
 *        |  \--a rank fails because of another (PEER)--> lingering: the culprit may be
 *        |                                               about to say why; then ending
 *        |---gr_round_end()----------------------------> ending
 *     ending --shutdown_ms pass, or gr_round_end() again--> SIGKILL to all
 *
 * A rank that has ended stays a zombie until the round is over: its number cannot be given
 * to a stranger, so signals to its group are safe. At the end everything below this process
 * is ended, whatever session it is in.
 */
#ifndef GR_LAUNCH_ROUND_H
#define GR_LAUNCH_ROUND_H

#include "base/clock.h"
#include "launch/relay.h"
#include "launch/worker.h"

typedef struct gr_round {
    const gr_launch_config *config;
    worker *workers; /* config->n_local */
    pid_t *pids;
    relay *output;
    int n_ended;
    bool is_lingering, is_ending, is_killed;
    gr_deadline next; /* of lingering, or from ending to SIGKILL */
    int64_t start_ns;
} gr_round;

/* Starts the ranks. gr_round_fini() follows in any case. */
gr_status gr_round_start(gr_round *r, const gr_launch_config *c, const gr_place *p,
                         const gr_logs *logs) GR_MUST_CHECK;
/* After SIGCHLD: looks who has ended. */
void gr_round_look(gr_round *r);
/* Passes a signal on that does not end the round. */
void gr_round_signal(gr_round *r, int signal);
/* Sends the signal and lets the time run; the second time SIGKILL. */
void gr_round_end(gr_round *r, int signal);
/* What its deadlines ask for; returns milliseconds until the next one, -1: none. */
int gr_round_tick(gr_round *r);
bool gr_round_is_over(const gr_round *r);
/* Whether some rank has ended badly, or all have to end. */
bool gr_round_has_failed(const gr_round *r);
/* Ends what is left and passes the last output on. */
void gr_round_finish(gr_round *r);
void gr_round_fini(gr_round *r);

#endif

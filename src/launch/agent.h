/*
 * The agent: this host's part of a job, round after round. One thread runs it; it waits for
 * signals, for the front and for its ranks in one poll().
 */
#ifndef GR_LAUNCH_AGENT_H
#define GR_LAUNCH_AGENT_H

#include "launch/launch.h"
#include "launch/round.h"

typedef struct gr_agent {
    const gr_launch_config *config;
    int signals; /* signalfd */
    int front;   /* end of file: the front is gone */
    gr_logs *logs;
    gr_round *round; /* the one that runs, or NULL */
    int stop_signal; /* the first signal to end that came; 0: none */
    bool is_orphan;  /* the front is gone */
} gr_agent;

/* Takes over the signals; borrows the folder of logs. */
gr_status gr_agent_init(gr_agent *a, const gr_launch_config *c, int front,
                        gr_logs *logs) GR_MUST_CHECK;
void gr_agent_fini(gr_agent *a);

/* Waits for something, at most ms (-1: no limit), or for `fd` (-1: none) to have bytes, and
 * handles signals, ranks and the front. */
gr_status gr_agent_wait(gr_agent *a, int fd, int ms) GR_MUST_CHECK;
/* When all ranks have ended: takes signals that are on their way. Who signals all processes of a
 * job may have come to the ranks first. */
gr_status gr_agent_settle(gr_agent *a) GR_MUST_CHECK;
/* Whether the user, or the end of the front, wants the job to end. */
bool gr_agent_must_stop(const gr_agent *a);

/* A job of this host alone. */
gr_status gr_agent_run_alone(gr_agent *a, gr_launch_result *result) GR_MUST_CHECK;

/* A random text that ranks of this job share. */
gr_status gr_token_make(char out[GR_TOKEN_TEXT]) GR_MUST_CHECK;

#endif

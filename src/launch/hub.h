/*
 * The meeting of hosts. It lives on one of them, with the store, behind one port: there agents
 * join, are numbered, start rounds together and end together.
 *
 *     GATHER  until all hosts are there, or MIN of MAX and the last call has passed
 *     CHECK   every host tries to reach every other one; a pair that cannot is named
 *     RUN     until all hosts say that their ranks ended well, or one says that it failed, is
 *             silent, leaves or (with MIN:MAX) joins
 *     END     all hosts end their ranks; then GATHER again if a restart is left, or the finish
 *
 * A thread of its own runs it; agents, the one of this host included, talk to it in frames
 * (net/frame.h). Losing it ends the job: the store is gone with it.
 */
#ifndef GR_LAUNCH_HUB_H
#define GR_LAUNCH_HUB_H

#include "launch/config.h"

typedef struct gr_hub gr_hub;

/* Listens on the port of the configuration; GR_ERR_IO when it is taken. */
gr_status gr_hub_start(gr_hub **out, const gr_launch_config *c) GR_MUST_CHECK;
/* The address on which an agent of this host reaches it. */
const char *gr_hub_address(const gr_hub *h);
/* Lets the last frames reach the others, and ends. NULL is fine. */
void gr_hub_finish(gr_hub *h);

#endif

/*
 * Lanes: long calls cut lengthwise. Over TCP the work of a call is copying, into the system's
 * buffers and out of them, and one thread does it no faster. Where the ranks of a machine have
 * cores to spare, a group has further lanes: each is a wire and an engine of its own and a thread
 * that moves them. Of a long call each lane carries a part of every rank's elements, from end to
 * end, so lanes share nothing while it runs: no lock, no queue, no wake-up between them.
 *
 * (1) Lane 0 is the group's thread. It writes the schedules of all lanes; a part lies in the work
 *     of the call on lane 0 and belongs to its lane from gr_lanes_post() until it is done.
 * (2) A lane carries out its parts one after the other, in the order of the calls, which is the
 *     same on all ranks. So its calls have the same numbers everywhere.
 * (3) The work of lane 0 is done when all its parts are.
 * (4) The first failure of a lane is the group's: lane 0 finds it when it moves or waits. The
 *     messages of lanes name the whole call, so it does not matter who finds out.
 * (5) Once halted, no lane touches a message.
 * (6) A deadline is for who waits: the clock of a lane runs while lane 0 waits in a call, and
 *     starts anew with each. What was begun may take as long as the program does other things.
 */
#ifndef GR_COMM_LANES_H
#define GR_COMM_LANES_H

#include "comm/engine.h"

#define GR_MAX_LANES 8

/* Without lanes; `main` is lane 0, and outlives them. */
gr_status gr_lanes_create(gr_lanes **out, gr_engine *main) GR_MUST_CHECK;
/* One more; takes the wire over, also when it fails. */
gr_status gr_lanes_add(gr_lanes *l, gr_wire *wire) GR_MUST_CHECK;
/* Starts the threads: how many lanes there are now, lane 0 included. */
int gr_lanes_start(gr_lanes *l);
/* Uses no more than these, lane 0 included: the least that a rank has. */
void gr_lanes_limit(gr_lanes *l, int n_lanes);
/* NULL is fine. Before lane 0 ends. */
void gr_lanes_destroy(gr_lanes *l);

int gr_lanes_count(const gr_lanes *l); /* lane 0 included; with NULL 1 */

/* The parts of a call that lane 0 is about to begin. */
gr_status gr_lanes_write(gr_lanes *l, gr_job_work *w, const gr_pg_call *c) GR_MUST_CHECK;
/* Begins them, for the first time or again. */
void gr_lanes_post(gr_lanes *l, gr_job_work *w);
/* Lane 0 begins to wait in a call, or has ended that. */
void gr_lanes_note_wait(gr_lanes *l);
/* The failure of a lane, if there was one. */
gr_status gr_lanes_check(gr_lanes *l) GR_MUST_CHECK;
/* Stops them and tells the peers, as gr_engine_abort(). */
void gr_lanes_abort(gr_lanes *l, const char *why);
void gr_lanes_free_parts(gr_job_work *w);

#endif

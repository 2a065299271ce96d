/* How a group comes to be: one of threads, or one of processes that meet at a store. */
#ifndef GR_COMM_CREATE_H
#define GR_COMM_CREATE_H

#include "comm/pg.h"
#include "net/env.h"

gr_status gr_shm_create_threads(gr_pg **out, int n, const gr_pg_config *config) GR_MUST_CHECK;

/* The group of the processes that `job` describes, through the store at its address.
 * Collective. */
gr_status gr_join(gr_pg **out, const gr_job *job, const gr_pg_config *config) GR_MUST_CHECK;

/* Threads of one process over a wire: each makes its end on a thread of its own. */
gr_status gr_wired_create_threads(gr_pg **out, int n, const gr_pg_config *config) GR_MUST_CHECK;

#endif

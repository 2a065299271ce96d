/*
 * A rank is one process at a time. Two that are started by hand with the same RANK would wait for
 * a rank that never comes, each in a group of its own: the second is refused, and who waits in the
 * group of the first learns of it.
 *
 *     who/<rank>             who is that rank: its line (host.h) and its number of joining
 *     <number>/trouble       why that joining comes to nothing
 */
#ifndef GR_COMM_CLAIM_H
#define GR_COMM_CLAIM_H

#include "comm/host.h"
#include "net/env.h"
#include "net/store.h"

/* `me` joins for the n-th time as this rank, as the store counts. One process after another may;
 * GR_ERR_ARG: the other is still there. */
gr_status gr_claim_rank(gr_store *s, const gr_job *job, const gr_host *me, int64_t n,
                        gr_deadline d) GR_MUST_CHECK;

/* GR_ERR_PEER: somebody was refused. For who has waited for long. */
gr_status gr_claim_trouble(gr_store *s, const gr_job *job, int64_t n, gr_deadline d) GR_MUST_CHECK;

#endif

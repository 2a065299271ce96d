/*
 * A call, checked and put in order: what the public functions were given, turned into
 * something algorithms can use without looking at special cases again.
 */
#ifndef GR_COMM_CALL_H
#define GR_COMM_CALL_H

#include "comm/pg.h"
#include "comm/what.h"

/* GR_ERR_ARG for a root, type, reduction or size that cannot be; counts that add up to
 * more than memory; elements without memory. *out is the call with src never NULL where it is
 * read: in place, it points into dst. */
gr_status gr_call_check(const gr_pg *pg, const gr_pg_call *c, gr_pg_call *out) GR_MUST_CHECK;

/* What all ranks must say alike. For SEND and RECV: what both sides must. */
void gr_call_what(const gr_pg *pg, const gr_pg_call *c, gr_what *what);

/* Elements of block k, and of all blocks before it. */
size_t gr_call_count(const gr_pg_call *c, int k);
size_t gr_call_first(const gr_pg_call *c, int k);

#endif

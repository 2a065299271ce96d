/* What a rank under test does in a group of its own; each prints what came of it. */
#ifndef GR_TESTS_MULTI_RANK_CALLS_H
#define GR_TESTS_MULTI_RANK_CALLS_H

#include "gradus/comm.h"

/* Every kind of call once: prints a checksum of all results. */
gr_status rank_calls_all(void);
/* All-reduces 'steps', n of them, with a line for each; checks their sums. */
gr_status rank_calls_steps(long n);
/* The same kind of call until something fails, which then has ms to be noticed; the names of the
 * kinds are those of messages, and 'exchange'. Says its process number when it is at it. */
gr_status rank_calls_repeat(const char *kind, int ms);
/* Rank 1 calls something else than the others. */
gr_status rank_calls_differ(void);
/* Several groups at once, of which a rank is in one to three. */
gr_status rank_calls_groups(void);
/* A group, and then another one, for which rank 1 does not come. */
gr_status rank_calls_second(void);
/* Gives n elements to rank 0 and leaves at once; rank 0 comes a little later. */
gr_status rank_calls_leave(long n);

#endif

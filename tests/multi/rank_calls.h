/* What a rank under test does in a group of its own; each prints what came of it. */
#ifndef GR_TESTS_MULTI_RANK_CALLS_H
#define GR_TESTS_MULTI_RANK_CALLS_H

#include "gradus/comm.h"

/* Every kind of call once: prints a checksum of all results. */
gr_status rank_calls_all(void);
/* All-reduces 'steps', n of them, with a line for each; checks their sums. */
gr_status rank_calls_steps(long n);
/* Gives n elements to rank 0 and leaves at once; rank 0 comes a little later. */
gr_status rank_calls_leave(long n);

#endif

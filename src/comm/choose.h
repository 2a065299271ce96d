/* The table that says which algorithm carries out which call. */
#ifndef GR_COMM_CHOOSE_H
#define GR_COMM_CHOOSE_H

#include "base/text.h"
#include "comm/algo/algo.h"

/* The same on every rank: depends on the kind, the number of ranks and of hosts, and the
 * bytes of the whole vector or of the largest block. `forced` (may be NULL) is the value
 * of GR_COMM_ALGO, "all-reduce=chain,broadcast=tree"; what it does not name is chosen. */
gr_algo_fn *gr_choose(const gr_algo_args *a, const char *forced);
/* Is that algorithm to be cut up between lanes, where there are any? The same on every rank. */
bool gr_choose_lanes(const gr_algo_args *a, gr_algo_fn *fn);
/* GR_ERR_ARG for a call or an algorithm that does not exist. */
gr_status gr_choose_check(const char *forced) GR_MUST_CHECK;
void gr_choose_print(gr_text *text);

#endif

/* Every call of a group, checked against what it must give: for ranks as threads and as
 * processes, over every transport. */
#ifndef GR_TESTS_COMM_GRID_H
#define GR_TESTS_COMM_GRID_H

#include "gradus/comm.h"

/* One count for every kind, type and reduction; in place and not; equal and unequal counts;
 * run, and begun with several under way. Collective. */
gr_status grid_run(gr_pg *pg, size_t n);
/* One type only. */
gr_status grid_run_type(gr_pg *pg, size_t n, gr_dtype t);
/* Sums only of the reductions, for large counts. */
gr_status grid_run_sum(gr_pg *pg, size_t n, gr_dtype t);
/* n_steps calls in an order drawn from `seed`, some of them under way together. */
gr_status grid_random(gr_pg *pg, unsigned seed, int n_steps);

#endif

/*
 * The schedule: the order in which a plan runs the nodes of a graph.
 *
 * The graph's own order can run as it is. What the schedule does is to let collectives
 * overlap with work: a node of GR_PLACE_EARLY moves up to where its sources exist, one
 * of GR_PLACE_LATE down to the first node that needs it. All other nodes keep their
 * order, and so do the early ones among themselves and the late ones.
 */
#ifndef GR_EXEC_SCHEDULE_H
#define GR_EXEC_SCHEDULE_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All nodes of `g`, in running order, from `arena`. `sets` as for gr_kernel_pick():
 * it tells views, which touch no memory, from nodes that write in place. */
gr_status gr_schedule_make(gr_arena *arena, const gr_graph *g, const gr_kernel_set *sets,
                           gr_node ***out) GR_MUST_CHECK;

/* False for nodes that call no kernel: inputs, variables, views. */
bool gr_schedule_runs(const gr_kernel_set *sets, const gr_node *n);

#ifdef __cplusplus
}
#endif

#endif

/*
 * Which nodes of a graph must run before which: what the schedule keeps when it moves
 * nodes, and what streams wait for.
 */
#ifndef GR_EXEC_DEPEND_H
#define GR_EXEC_DEPEND_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* By place in an order: the places of those that must run before, some of them twice. */
typedef struct gr_depend {
    int *pred;  /* of place i: pred[first[i]] .. pred[first[i + 1] - 1] */
    int *first; /* one more than nodes */
} gr_depend;

/* `nodes` are all of `g`, in an order that can run. What is in `out` is from `arena`. */
gr_status gr_depend_make(gr_arena *arena, const gr_graph *g, const gr_kernel_set *sets,
                         gr_node *const *nodes, gr_depend *out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

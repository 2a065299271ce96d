/*
 * Collectives as operators. One all-reduce is two nodes, so that work fits between them:
 *
 *     token            = allreduce_start(grad 0, grad 1, ...)
 *     reduced 0, 1 ... = allreduce_finish(token, grad 0, grad 1, ...)
 *
 * The gradients lie side by side in the exchange space (a bucket); the whole stretch is
 * reduced at once, in place, and each result aliases its gradient. Neither has a
 * gradient rule: they are added after autodiff.
 */
#ifndef GR_OP_COLLECTIVE_COLLECTIVE_H
#define GR_OP_COLLECTIVE_COLLECTIVE_H

#include "comm/pg.h"
#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_collective_attr {
    gr_pg *pg; /* borrowed; outlives every graph that names it */
    gr_coll coll;
} gr_collective_attr;

extern const gr_op gr_op_allreduce_start, gr_op_allreduce_finish;

/* Adds both nodes for n >= 1 gradients and fills reduced[0..n-1]. The label is copied. */
gr_status gr_allreduce_nodes(gr_graph *g, gr_pg *pg, const gr_coll *c, gr_value **grads, int n,
                             gr_value **reduced) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

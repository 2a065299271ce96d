/*
 * Many updates as one node: the work of all of them is cut evenly between threads, once,
 * where one node per parameter would wake the threads for each bias.
 *
 *   many_updates   sources of part 0, of part 1, ... -> their outputs, in the same order
 *
 * A part is what one node of sgd or adamw was: operator, attributes (its own learning rate
 * factor and decay among them), and its stretch of the sources and outputs. Element by
 * element the arithmetic is the single operator's, so joining never changes a bit.
 *
 * With rows (comm/pg.h) gradients are not summed up yet. Ranks that have the parameters in common
 * take pieces of the work from one pile: whoever has time sums a stretch of all ranks' gradients,
 * in its cache, and updates the parameters from there. The sums are never written to memory.
 */
#ifndef GR_OP_UPDATE_MANY_H
#define GR_OP_UPDATE_MANY_H

#include "op/collective/collective.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_many_part {
    const gr_op *op;
    const void *attr;
    int src, n_src; /* [src, src + n_src) of the node's sources */
    int out, n_out;
} gr_many_part;

typedef struct gr_many_attr {
    int n_parts;
    const gr_many_part *part; /* in the graph's arena */
    gr_collective_attr rows;  /* what the gradients lie in; pg NULL: they are sums already */
} gr_many_attr;

/* The part as a node of its own, over the sources and outputs of `n`. */
gr_node gr_many_node(const gr_node *n, const gr_many_part *p);

/* Adds one node in place of `n_parts` nodes of joinable operators: the old ones are left
 * in the graph, and whoever calls drops them. `rows` may be NULL. NULL: the graph has failed. */
gr_node *gr_many_add(gr_graph *g, gr_node *const *parts, int n_parts,
                     const gr_collective_attr *rows);

/* Whether nodes of this operator can be parts. */
bool gr_many_takes(const gr_op *op);

extern const gr_op gr_op_many_updates;
extern const gr_kernel gr_many_updates_cpu[];

#ifdef __cplusplus
}
#endif

#endif

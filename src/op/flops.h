/* How much arithmetic a node does: what a benchmark divides by, and a report shows. */
#ifndef GR_OP_FLOPS_H
#define GR_OP_FLOPS_H

#include "graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Multiplications and additions of products (matmul, convolution, attention); 0 for all
 * other operators, which are bound by memory. What a causal mask leaves out counts. */
double gr_node_flops(const gr_node *n);
double gr_graph_flops(const gr_graph *g);

#ifdef __cplusplus
}
#endif

#endif

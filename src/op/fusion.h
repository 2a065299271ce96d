/*
 * Fusions, from the side of operators (graph/fusion.h has the structure): making one, and
 * the kernel that runs any node with a fusion in pieces, so that a kernel may decline after
 * fusing, and measuring can compare fused with unfused.
 *
 * A kernel that carries out fusions sets `takes` and, for each part of a fusion,
 *   on load    reads gr_fusion_load(n, s) for each of its own sources
 *   on result  reads f->end.program, whose sources after the first are n->src[f->end.first ..]
 *   ends       writes l->out[i] for each f->ends[i], then the operator's further results
 * and gets the operator's own view, for shapes and types, from gr_fusion_plain().
 */
#ifndef GR_OP_FUSION_H
#define GR_OP_FUSION_H

#include "graph/fusion.h"
#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const gr_fusion_rules gr_fusion_usual;

/*
 * The fusion of a node `like` without one that stores its result 0 as it is: where the others
 * start from. From the graph's arena, to be filled further; NULL without memory. *attr is the
 * attribute to use from now on: of a result in f32 where the operator can give that.
 */
gr_fusion *gr_fusion_new(gr_graph *g, const gr_node *like, const void **attr);

/* " then add(r0, r1) relu(r2)", " load 1 relu(r0)", " gives r2, sum of r0 over 0". */
void gr_fusion_print(const gr_node *n, gr_text *out);

/* The kernel "apart": programs on load, the operator, the program on its result, one after
 * the other over the workspace, each by the best kernel of the same device. Its variants are
 * the operator's kernels and theirs. */
extern const gr_kernel gr_fusion_apart;

#ifdef __cplusplus
}
#endif

#endif

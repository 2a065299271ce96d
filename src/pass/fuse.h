/* What the two halves of the fuse pass share: joining maps, and offering them to other operators.
 */
#ifndef GR_PASS_FUSE_H
#define GR_PASS_FUSE_H

#include "graph/op.h"
#include "pass/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_fuser {
    gr_graph *g;
    int *n_readers; /* by value id: nodes that read it */
    bool *is_kept;  /* by value id: an output, or viewed by one */
    bool *is_cast;  /* by value id: rounded on purpose, whatever joins its producer */
} gr_fuser;

/* Adds `by` to the number of readers of each value that the node reads. */
void gr_fuse_count(gr_fuser *f, const gr_node *n, int by);
/* A map of the forward or backward pass. */
bool gr_fuse_is_map(const gr_node *n);
/* The node's result need not be stored: in the arena, no output, and it reads nothing that
 * an exchange changes meanwhile. */
bool gr_fuse_is_free(const gr_fuser *f, const gr_node *p);

/* Whether the two may become one node without mixing blocks of the trace. */
bool gr_fuse_may_meet(const gr_node *p, const gr_node *c);

gr_status gr_fuse_offer(gr_fuser *f, const gr_kernel_set *sets) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

/*
 * Counts of what a loss is the mean of, over all ranks.
 *
 *   share_counts  k f32 scalars, or vectors -> one row of f64 in the exchange space
 *   sync_counts   the sum of that over ranks -> k f32 scalars or vectors, divided by the number of
 *                 ranks: gradients are averaged over ranks, so a rank's sum over that is its
 *                 part of the mean of all; and for the same reason the gradient of a sum over ranks
 *                 is passed on as it is
 *
 * As in op/norm/sync.h a trace has sync_counts with this rank's counts as sources, which no
 * kernel takes; a pass puts the exchange between.
 */
#ifndef GR_OP_LOSS_COUNT_H
#define GR_OP_LOSS_COUNT_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_count_sync_attr {
    uint32_t key; /* the id of the loss: where it stands in the trace */
    int n_ranks;
    int64_t n_elem; /* of each source, a vector; 0: they are numbers */
} gr_count_sync_attr;

gr_node *gr_sync_counts_add(gr_graph *g, gr_value **counts, int n, const gr_count_sync_attr *a);
bool gr_sync_counts_is_open(const gr_node *n);
gr_value *gr_share_counts_add(gr_graph *g, const gr_node *n);
void gr_sync_counts_close(gr_node *n, gr_value *reduced);

extern const gr_op gr_op_share_counts, gr_op_sync_counts;

#ifdef __cplusplus
}
#endif

#endif

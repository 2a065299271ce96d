/*
 * Batch norm over the batches of all ranks: what is exchanged, and what is made of it.
 *
 *   share_stats  mean [c], m2 [c], count [] -> [ranks, 2c + 1] in the exchange space: this
 *                rank's numbers in its row, zeros in the others'. Summed over ranks that is
 *                everybody's numbers.
 *   sync_stats   that sum -> mean, m2, count of all ranks together, joined in rank order
 *                from (count, mean, m2), in f64: the same bits on every rank
 *   share_sums   sum of dy [c], sum of dy xhat [c] -> [2, c] in the exchange space
 *   sync_sums    the sum of that over ranks -> the two sums
 *
 * The builder and the gradient rule of batch_norm add only the sync nodes, with this rank's
 * own numbers as sources, where the graph says so (gr_graph.sync_norm); no kernel takes them
 * so. The sync_bn pass puts the exchange between. None has a gradient of its own: batch_norm's
 * rule passes through the statistics.
 */
#ifndef GR_OP_NORM_SYNC_H
#define GR_OP_NORM_SYNC_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_sync_attr {
    const char *name;  /* of the layer, for labels */
    uint32_t key;      /* the id of the layer's node: where it stands in the trace */
    int rank, n_ranks; /* share_stats */
} gr_sync_attr;

/* Nodes with this rank's numbers as sources; the outputs stand for those of all ranks. */
gr_node *gr_sync_stats_add(gr_graph *g, const char *site, gr_node *stats, const char *name);
/* `norm`: whose gradient it is. */
gr_node *gr_sync_sums_add(gr_graph *g, const gr_node *norm, gr_node *sums, const char *name);

/* Whether it is one that no exchange feeds yet. */
bool gr_sync_is_open(const gr_node *n);
/* The share node of an open one: [ranks, 2c + 1] or [2, c], to be placed and reduced. */
gr_value *gr_sync_share(gr_graph *g, const gr_node *n, int rank, int n_ranks);
/* Feeds it with the reduced share. */
void gr_sync_close(gr_node *n, gr_value *reduced);

extern const gr_op gr_op_share_stats, gr_op_sync_stats, gr_op_share_sums, gr_op_sync_sums;
extern const gr_kernel gr_share_stats_cpu[], gr_sync_stats_cpu[], gr_share_sums_cpu[],
    gr_sync_sums_cpu[];

#ifdef __cplusplus
}
#endif

#endif

/*
 * Collectives by shares, for optimiser state that is cut up between ranks (ZeRO). A bucket is
 * cut into as many equal shares as there are ranks; each rank updates what lies in its own.
 *
 *     token  = reduce_scatter_start(grad 0, grad 1, ...)
 *     share  = reduce_scatter_finish(token, grad 0, grad 1, ...)   own share, summed over ranks
 *     kept   = shard_keep(share)                  the same as f32 elsewhere: when the bucket's
 *                                                 memory is wanted for the next one, or when
 *                                                 gradients travel in 16 bits
 *     params = sgd(params, share ...)             only the parts that lie in the own share
 *     given  = shard_give(params ...)             own parts, laid into the own share
 *     token  = allgather_start(given)
 *     bucket = allgather_finish(token, given)     everybody's shares
 *     params = shard_take(bucket, params ...)     the other ranks' parts out of it
 *
 * Where ranks have parameters in common, a reduce-scatter may leave rows (comm/pg.h): its finish
 * gives this rank's own gradients, all of them, and one many_updates sums up everybody's.
 *
 *     token  = meet_start(params ...)
 *     met    = meet_finish(token, params ...)     everybody has updated its parts
 *
 * share, given and bucket are rows in the exchange space, at places that the builder is told; of
 * f32, but a share has the type in which gradients travel. They may overlap: each is made only when
 * all readers of the one before are done, because it depends on what they made.
 */
#ifndef GR_OP_COLLECTIVE_SHARD_H
#define GR_OP_COLLECTIVE_SHARD_H

#include "op/collective/collective.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of one parameter: which elements this rank updates (none: n is 0), and the element of the
 * bucket at which the parameter begins. */
typedef struct gr_shard_item {
    gr_stretch part;
    int64_t at;
} gr_shard_item;

/* Of shard_give and shard_take. */
typedef struct gr_shard_attr {
    int64_t n_elem; /* of the bucket */
    int64_t first;  /* element of the bucket at which the own share begins */
    int64_t n_own;  /* of the own share */
    int n_items;
    const gr_shard_item *item; /* of each parameter; lives as long as the graph */
} gr_shard_attr;

extern const gr_op gr_op_reduce_scatter_start, gr_op_reduce_scatter_finish, gr_op_allgather_start,
    gr_op_allgather_finish, gr_op_meet_start, gr_op_meet_finish, gr_op_shard_keep, gr_op_shard_give,
    gr_op_shard_take;

/* The two nodes of a reduce-scatter of n >= 1 gradients; *share lies where this rank's share
 * of the collective does, or is all of it with rows. The label is copied. */
gr_status gr_reduce_scatter_nodes(gr_graph *g, gr_pg *pg, const gr_coll *c, gr_value **grads, int n,
                                  gr_value **share) GR_MUST_CHECK;

/* A copy of `share`, as f32, at byte `offset` of the exchange space. */
gr_status gr_shard_keep_node(gr_graph *g, gr_value *share, size_t offset,
                             gr_value **kept) GR_MUST_CHECK;

/* All nodes from new parameters to all of them gathered: params[i], whose own part is new, is
 * replaced by the value in which all is new. `c` is the all-gather of the bucket. */
gr_status gr_shard_gather_nodes(gr_graph *g, gr_pg *pg, const gr_coll *c, const gr_shard_attr *a,
                                gr_value **params) GR_MUST_CHECK;

/* A meeting: past its finish, every rank has made its n >= 1 values. `c` is an all-gather of
 * nothing in particular. */
gr_status gr_shard_meet_nodes(gr_graph *g, gr_pg *pg, const gr_coll *c, gr_value **values,
                              int n) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

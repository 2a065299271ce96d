/*
 * The norm of gradients that are cut up between ranks, with the bits of grad_control.
 *
 * grad_control adds up sums over blocks of GR_NORM_BLOCK elements of each parameter, block
 * after block. A block that lies in one rank's share is summed there, as it always is. Of a
 * block that a border between shares cuts, every rank lays down its elements, and everybody
 * sums them. What is another rank's is left 0, so that one all-reduce fills in the rest:
 *
 *   shard_squares   share 0, share 1, ... -> sums, f64, one per block; cuts, f32, the elements
 *                   of the blocks that are cut. Both in the exchange space.
 *   shard_control   [scale,] sums, cuts -> control, as grad_control's.
 */
#ifndef GR_OP_UPDATE_SHARD_H
#define GR_OP_UPDATE_SHARD_H

#include "comm/pg.h"
#include "op/update/update.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements of an own share that belong to one block. */
typedef struct gr_norm_piece {
    int share; /* source */
    int64_t at, n;
    int64_t block;  /* all of it: its sum goes here; -1: the block is cut */
    int64_t cut_at; /* then: its elements go here in `cuts` */
} gr_norm_piece;

typedef struct gr_norm_cut {
    int64_t block, at, n; /* elements [at, at + n) of `cuts` */
} gr_norm_cut;

/* Lists live as long as the graphs that name them. */
typedef struct gr_shard_norm {
    int64_t n_blocks, n_cut_elems;
    const gr_norm_piece *piece;
    int n_pieces;
    const gr_norm_cut *cut; /* by rising block */
    int n_cuts;
} gr_shard_norm;

typedef struct gr_shard_control_attr {
    gr_control_attr of;
    gr_shard_norm norm;
} gr_shard_control_attr;

/* What the update has to know of shares: g->grads are rows then, one for all parameters of a
 * bucket. Made by pass/shard.c. */
typedef struct gr_update_shard {
    gr_pg *pg;
    const gr_update_part *part; /* by variable index */
    const int *first_var;       /* of each bucket: one that has its gradient there */
    int n_buckets;
    gr_shard_norm norm;
    gr_coll sums, cuts; /* all-reduces of shard_squares' results; cuts.n_elem may be 0 */
} gr_update_shard;

extern const gr_op gr_op_shard_squares, gr_op_shard_control;
extern const gr_kernel gr_shard_squares_cpu[], gr_shard_control_cpu[];

#ifdef __cplusplus
}
#endif

#endif

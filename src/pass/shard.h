/*
 * Updates cut up between ranks: who updates what, and the passes for it. Either each rank keeps
 * optimiser state for its share alone, and hands out the parameters that it has updated (ZeRO);
 * or all ranks of a host have parameters and state in common, and nothing needs handing out.
 *
 * Each bucket is cut into equal shares, one per rank, without regard to where parameters
 * begin. A rank updates what lies in its share: a stretch, perhaps empty, of each parameter.
 * All follows from the parameter table and the number of ranks.
 *
 * With rows there are no shares. Ranks that have the state in common leave their gradients to each
 * other as they are, and take stretches of the update as they find time (op/update/many.h). That
 * goes where the update is all that reads the sums.
 *
 * Where buckets are reused (zero: 2), they take turns in two stretches of memory, and what lasts
 * is a rank's share of each:
 *
 *     exchange space   share of bucket 0 | of 1 | of 2 | ... || buckets 0, 2, 4 ... || 1, 3, 5 ...
 *
 * Bucket k is filled when bucket k - 2 is reduced and its share put by; the same holds again
 * for the parameters that come back. (Gradients that travel in 16 bits have rows of their own
 * behind, which take turns likewise.) It needs more than two buckets, and gradients that are
 * exchanged in the step in which they are made: with accumulation they are whole until the last
 * micro-step, because only then they are exchanged.
 */
#ifndef GR_PASS_SHARD_H
#define GR_PASS_SHARD_H

#include "op/collective/shard.h"
#include "op/update/shard.h"
#include "pass/pass.h"

typedef struct gr_shard_config {
    gr_pg *pg;
    int n_vars;      /* of the table: parameters lie below it */
    bool wants_norm; /* of all gradients, before any update */
    bool may_reuse;  /* buckets, where that takes less memory */
    bool is_common;  /* parameters and state lie in memory that all ranks see */
    bool has_rows;   /* then: the update sums gradients up, and shares do not matter */
    gr_dtype wire;   /* in which gradients travel: f32, bf16, f16 */
} gr_shard_config;

typedef struct gr_shard {
    gr_pg *pg;
    const gr_buckets *buckets;
    const int *slot_of;      /* by variable index; -1: none */
    const gr_shard_attr *of; /* by bucket */
    const gr_coll *gather;   /* by bucket: new parameters to everybody; NULL when is_common */
    bool is_common, has_rows;
    gr_coll met;        /* when is_common: everybody has done its updates */
    const size_t *kept; /* by bucket: where its share is kept as f32, bytes; or NULL */
    gr_update_shard update;
} gr_shard;

/* Pads the buckets of *b so that they part evenly, turns their all-reduces into
 * reduce-scatters, and says who updates what. Lives in `arena`, with `b`. */
gr_status gr_shard_make(gr_shard *s, gr_arena *arena, gr_buckets *b,
                        const gr_shard_config *c) GR_MUST_CHECK;

/* The bucket that a variable's gradient is exchanged in; -1: none is. */
int gr_shard_bucket(const gr_shard *s, const gr_var *v);

/* The elements of a parameter that `rank` updates; n is 0 when there are none, or when the
 * parameter is not updated at all. */
gr_stretch gr_shard_range(const gr_shard *s, const gr_var *param, int rank);

/* In place of gr_pass_sync(): a reduce-scatter per bucket. g->grads are the own shares, or rows,
 * afterwards, the same row for every parameter of a bucket. */
gr_status gr_pass_scatter(gr_graph *g, const gr_shard *s) GR_MUST_CHECK;

/* After the updates are joined: all-gathers of the new parameters, each started when its
 * bucket is updated and finished at the end of the step. */
gr_status gr_pass_gather(gr_graph *g, const gr_shard *s) GR_MUST_CHECK;

/* The same for what is common: shares are summed, and hence updated, when no rank reads the
 * parameters any more, and the step ends when all have updated theirs. */
gr_status gr_pass_meet(gr_graph *g, const gr_shard *s) GR_MUST_CHECK;

#endif

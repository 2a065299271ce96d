/*
 * Passes: rewrites of a step graph. Each takes the graph and what it needs to know, and
 * leaves a graph that gr_graph_verify() accepts after gr_graph_sort().
 */
#ifndef GR_PASS_PASS_H
#define GR_PASS_PASS_H

#include "graph/op.h"
#include "op/collective/collective.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- autodiff ---- */

/* Nodes for d(y)/d(x[i]) times `seed` (of y's shape), into dx[i]; NULL where y does not
 * depend on x[i]. The new nodes have phase BACKWARD. */
gr_status gr_autodiff(gr_graph *g, gr_value *y, gr_value *seed, gr_value *const *x, int n,
                      gr_value **dx) GR_MUST_CHECK;

/* Gradients of the loss for every trainable parameter, into g->grads. `scale` times
 * (the loss scale, a variable, if not NULL) is what the loss's own gradient is. */
gr_status gr_pass_autodiff(gr_graph *g, double scale, gr_var *loss_scale) GR_MUST_CHECK;

/* ---- amp ---- */

/* Stores activations in `low` and feeds products with it; parameters, their gradients,
 * reductions and losses stay f32. */
gr_status gr_pass_amp(gr_graph *g, gr_dtype low) GR_MUST_CHECK;

/* Lets products read copies of parameters in `low` that are kept as variables, in place of casts
 * that every step would make anew. Who writes parameters writes them too: gr_pass_update(), and
 * gr_vars_fill_copies() for the rest. */
gr_status gr_pass_copies(gr_graph *g, gr_dtype low) GR_MUST_CHECK;

/* ---- accumulate and sync ---- */

/* The layout of the exchange space: every trainable parameter's gradient has a slot.
 * It depends on the parameter table alone, so it is equal on all ranks and in all plans. */
typedef struct gr_bucket {
    int first, n; /* slots [first, first + n) */
    uint32_t key; /* the first node of the trace that reads one of its parameters */
    gr_coll coll;
} gr_bucket;

typedef struct gr_buckets {
    gr_bucket *bucket;
    int n_buckets;
    const gr_var **var; /* of each slot */
    size_t *offset;     /* of each slot, bytes in the exchange space */
    int n_slots;
    size_t n_bytes;
    size_t align;   /* of slots and rows, as that of the state */
    bool is_reused; /* buckets take turns in the same memory; see pass/shard.h */
} gr_buckets;

/* Slots in the reversed order of the table; a bucket is closed when it reaches its cap.
 * `used[i]` says whether variable i has a gradient. Lives in `arena`. */
gr_status gr_buckets_make(gr_buckets *b, gr_arena *arena, const gr_vars *vars, const bool *used,
                          const size_t cap_bytes[2]) GR_MUST_CHECK;
/* Fills the keys from the forward part of a graph whose products are as traced. */
void gr_buckets_find_keys(gr_buckets *b, const gr_graph *trace);
/* Lets the exchange carry `low` (bf16, f16): a row of that type per bucket, behind the slots. */
gr_status gr_buckets_narrow(gr_buckets *b, gr_dtype low) GR_MUST_CHECK;
/* One line per bucket, for the fingerprint. */
void gr_buckets_print(const gr_buckets *b, gr_text *out);

/* Zeros for parameters that have a slot but that this graph does not use. */
gr_status gr_pass_fill_slots(gr_graph *g, const gr_buckets *b) GR_MUST_CHECK;

/* Sums each gradient over micro-steps, in its slot. */
gr_status gr_pass_accumulate(gr_graph *g, const gr_buckets *b) GR_MUST_CHECK;

/* Lays gradients into their slots, copying those that cannot be computed there. */
gr_status gr_pass_place(gr_graph *g, const gr_buckets *b) GR_MUST_CHECK;

/* Lays gradients into their slots and adds start and finish nodes per bucket. */
gr_status gr_pass_sync(gr_graph *g, const gr_buckets *b, gr_pg *pg) GR_MUST_CHECK;

/* ---- exchanges besides the buckets ---- */

/*
 * Exchanges that a step has besides its gradients, and the order in which all are started.
 * The first plan makes the list, the first that updates the order; later plans must have the
 * same, so that ranks which run different plans still meet. Ids count down from the last, and
 * places follow the buckets'.
 */
typedef struct gr_meeting {
    gr_coll coll;
    uint32_t key; /* where in the trace */
    bool backward;
} gr_meeting;

typedef struct gr_meetings {
    gr_meeting list[GR_MAX_COLLS];
    int n;
    bool is_open, is_closed; /* begun; no more may be added */
    size_t n_bytes;          /* of the exchange space, buckets included */
    size_t align;            /* of places in it */
    int order[GR_MAX_COLLS]; /* ids; n_order 0: not known yet */
    int n_order;
} gr_meetings;

/* Begins the list behind n_bytes of buckets, unless it has begun. */
void gr_meetings_open(gr_meetings *m, size_t n_bytes, size_t align);
/* The meeting of this label, size and type that is not in `used` yet (by place in the list),
 * added while the list may grow. Its label lives in `arena`. */
gr_status gr_meetings_get(gr_meetings *m, gr_arena *arena, const gr_meeting *want, bool *used,
                          const gr_coll **out) GR_MUST_CHECK;
/* For the fingerprint. */
void gr_meetings_print(const gr_meetings *m, gr_text *out);

/* Starts exchanges in the order of `m`, which a graph that `updates` decides if none has. */
gr_status gr_pass_order(gr_graph *g, gr_meetings *m, const gr_buckets *b,
                        bool updates) GR_MUST_CHECK;

/* Puts the exchange into synchronised batch norms (op/norm/sync.h). */
gr_status gr_pass_sync_norm(gr_graph *g, gr_meetings *m, gr_arena *arena, gr_pg *pg) GR_MUST_CHECK;

/* ---- losses over all ranks ---- */

/* Before autodiff: makes a loss the mean over the elements that count on all ranks; with
 * accumulation only finds out what they are counted by, g->loss_count. See global.c. */
gr_status gr_pass_global(gr_graph *g, int n_ranks, bool accumulates) GR_MUST_CHECK;
/* Puts the exchange into the counts that gr_pass_global() left. */
gr_status gr_pass_sync_counts(gr_graph *g, gr_meetings *m, gr_arena *arena,
                              gr_pg *pg) GR_MUST_CHECK;
/* Sums g->loss_count and the loss over micro-steps; where the graph `updates`, over ranks as
 * well: g->grad_scale and the output "loss" come of it. */
gr_status gr_pass_count(gr_graph *g, gr_meetings *m, gr_arena *arena, gr_pg *pg,
                        bool updates) GR_MUST_CHECK;

/* ---- the vote ---- */

#define GR_VAR_CODE "vote.code"

/* Adds the exchange of what op/vote/vote.h says, from which g->vote comes where the graph
 * `updates`. Before gr_pass_update(), in every graph that trains. See vote.c. */
gr_status gr_pass_vote(gr_graph *g, gr_meetings *m, gr_arena *arena, gr_pg *pg,
                       bool updates) GR_MUST_CHECK;

/* ---- recompute ---- */

/* Lets the backward pass compute values of blocks anew instead of keeping them: of the
 * n_blocks cheapest ones, or of all when n_blocks is negative. See recompute.c. */
gr_status gr_pass_recompute(gr_graph *g, int n_blocks) GR_MUST_CHECK;

/* ---- fuse and join ---- */

/* Joins maps that read maps (fuse.c), then offers maps and sums to the operators around them,
 * whose kernels in `sets` say what they take (fuse_offer.c). Drops what nothing reads any more. */
gr_status gr_pass_fuse(gr_graph *g, const gr_kernel_set *sets) GR_MUST_CHECK;

/* Joins updates of single parameters into nodes that do many at once; see join.c. */
gr_status gr_pass_join(gr_graph *g) GR_MUST_CHECK;
/* The same for those whose gradients are rows of all ranks, and for no others. */
gr_status gr_pass_rows(gr_graph *g) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

/*
 * Process groups: the ranks of a job and what they do together.
 *
 * Functions marked collective are called by every rank of the group, in the same order
 * with equal counts and types. A group belongs to one thread of each rank. After one
 * failure it refuses all further work with GR_ERR_PEER, and no rank waits for ever:
 * each wait ends at the group's timeout with the name of what was missing.
 */
#ifndef GRADUS_COMM_H
#define GRADUS_COMM_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_pg gr_pg;

typedef enum gr_reduce {
    GR_REDUCE_SUM,
    GR_REDUCE_AVG, /* each rank's element times 1/size, rounded, then summed */
    GR_REDUCE_MAX,
    GR_REDUCE_MIN,
    GR_REDUCE_PROD,
    GR_REDUCE_OR /* bit by bit; integers only */
} gr_reduce;

/* id, text in messages. */
#define GR_CALL_MAP(X)                  \
    X(ALLREDUCE, "all-reduce")          \
    X(REDUCE, "reduce")                 \
    X(REDUCE_SCATTER, "reduce-scatter") \
    X(ALLGATHER, "all-gather")          \
    X(BROADCAST, "broadcast")           \
    X(GATHER, "gather")                 \
    X(SCATTER, "scatter")               \
    X(ALLTOALL, "all-to-all")           \
    X(BARRIER, "barrier")               \
    X(SEND, "send")                     \
    X(RECV, "receive")

typedef enum gr_call_kind {
#define X(id, text) GR_CALL_##id,
    GR_CALL_MAP(X)
#undef X
        GR_CALL_COUNT
} gr_call_kind;

/*
 * One call, in full. W is the group's size, r this rank, n is n_elem:
 *
 *   kind            src                      dst
 *   ALLREDUCE       n elements               n elements
 *   REDUCE          n                        n on the root; not touched elsewhere
 *   REDUCE_SCATTER  W blocks                 block r of the result
 *   ALLGATHER       block r                  W blocks
 *   BROADCAST       n on the root            n
 *   GATHER          block r                  W blocks on the root
 *   SCATTER         W blocks on the root     block r
 *   ALLTOALL        W blocks, one for each   W blocks, one from each
 *   SEND, RECV      n                        n
 *
 * A block has n elements, or counts[k] for rank k; counts are equal on all ranks. In an
 * ALLTOALL counts[k] come from rank k and send_counts[k] go to it, and both or none are
 * given. src NULL means in place: `dst` holds what this rank gives, and for
 * REDUCE_SCATTER and SCATTER (on the root) all blocks, of which block r becomes the
 * result; for ALLGATHER and GATHER (on the root) block r of dst is the contribution.
 * Otherwise src and dst do not overlap.
 */
typedef struct gr_pg_call {
    gr_call_kind kind;
    gr_dtype dtype;
    const void *src;
    void *dst;
    size_t n_elem;
    const size_t *counts, *send_counts;
    gr_reduce op;
    int root;          /* of SEND and RECV: the other rank */
    const char *label; /* what it is for, in messages; NULL: nothing */
} gr_pg_call;

/* A call under way. */
typedef struct gr_work gr_work;

typedef struct gr_pg_config {
    int timeout_ms;        /* of every wait; 0: GR_TIMEOUT (seconds), else 300 s */
    const char *transport; /* NULL: GR_COMM, else chosen; "shm", "tcp", "hosts", "mpi" */
} gr_pg_config;
#define GR_PG_CONFIG_INIT \
    {                     \
        0, NULL           \
    }

/* The group that the environment describes: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
 * as gradrun and torchrun set them; without them a group of one. Half-set environments
 * are GR_ERR_ARG and name the missing variable. Collective over the job. Caller owns *out. */
GR_API gr_status gr_pg_create(gr_pg **out, const gr_pg_config *config) GR_MUST_CHECK;

/* n ranks inside one process, for tests and examples: out[r] is for rank r's thread, which
 * destroys it. Called once, not collective. */
GR_API gr_status gr_pg_create_threads(gr_pg **out, int n, const gr_pg_config *config) GR_MUST_CHECK;

/* Accepts NULL. Tells peers that this rank is gone. */
GR_API void gr_pg_destroy(gr_pg *pg);

GR_API int gr_pg_rank(const gr_pg *pg); /* 0 for NULL */
GR_API int gr_pg_size(const gr_pg *pg); /* 1 for NULL */
GR_API int gr_pg_local_rank(const gr_pg *pg);

/*
 * Collective, host memory (SEND and RECV: the two ranks). Each element is combined in rank
 * order: equal bits on every rank, in every run, over every transport. f32, f64, bf16 and
 * f16 (in f32, rounded once), i32, i64, u8. GR_ERR_ARG for what is wrong here or when
 * ranks call different things: the message shows both sides. GR_ERR_PEER when a rank
 * died, left or gave up; GR_ERR_TIMEOUT names who was missing.
 */
GR_API gr_status gr_pg_run(gr_pg *pg, const gr_pg_call *c) GR_MUST_CHECK;

/*
 * The same in two halves: it moves on whenever this rank is in a function of the group.
 * Buffers and counts stay the call's until it is finished. A call begun on one rank is
 * begun on all, not run. Several may be under way; they are finished in any order.
 */
GR_API gr_status gr_pg_begin(gr_work **out, gr_pg *pg, const gr_pg_call *c) GR_MUST_CHECK;
/* Moves the group on; says whether the work is done. Does not wait. */
GR_API gr_status gr_work_test(gr_work *w, bool *is_done) GR_MUST_CHECK;
/* Waits for it and frees it, also when it failed. */
GR_API gr_status gr_work_finish(gr_work *w) GR_MUST_CHECK;

/* Short forms of gr_pg_run(). In place where there is one gr_vec only. */
GR_API gr_status gr_pg_allreduce(gr_pg *pg, gr_vec v, gr_reduce op) GR_MUST_CHECK;
GR_API gr_status gr_pg_reduce(gr_pg *pg, gr_vec v, gr_reduce op, int root) GR_MUST_CHECK;
/* src.n_elem must be a multiple of the group's size. */
GR_API gr_status gr_pg_reduce_scatter(gr_pg *pg, void *dst, gr_vec src, gr_reduce op) GR_MUST_CHECK;
GR_API gr_status gr_pg_allgather(gr_pg *pg, void *dst, gr_vec src) GR_MUST_CHECK;
/* Rank `root`'s elements reach every rank. */
GR_API gr_status gr_pg_broadcast(gr_pg *pg, gr_vec v, int root) GR_MUST_CHECK;
GR_API gr_status gr_pg_gather(gr_pg *pg, void *dst, gr_vec src, int root) GR_MUST_CHECK;
GR_API gr_status gr_pg_scatter(gr_pg *pg, gr_vec dst, const void *src, int root) GR_MUST_CHECK;
/* src.n_elem must be a multiple of the group's size. */
GR_API gr_status gr_pg_alltoall(gr_pg *pg, void *dst, gr_vec src) GR_MUST_CHECK;
GR_API gr_status gr_pg_barrier(gr_pg *pg) GR_MUST_CHECK;
/* Between two ranks: as many receives as sends, in the same order for each pair. */
GR_API gr_status gr_pg_send(gr_pg *pg, gr_vec v, int to) GR_MUST_CHECK;
GR_API gr_status gr_pg_recv(gr_pg *pg, gr_vec v, int from) GR_MUST_CHECK;

/*
 * Collective over `pg`: ranks with the same colour become a group of their own, in the
 * order of their keys, then of their ranks. A negative colour: *out is NULL. The new
 * group is independent of `pg` and is destroyed by itself.
 */
GR_API gr_status gr_pg_split(gr_pg **out, gr_pg *pg, int color, int key) GR_MUST_CHECK;
/* Collective over `pg`, with equal lists: the ranks listed, in that order. *out is NULL on
 * the others. */
GR_API gr_status gr_pg_create_sub(gr_pg **out, gr_pg *pg, const int *ranks, int n) GR_MUST_CHECK;

/* Lines about the group: transport, ranks and hosts, timeout, and the table that says
 * which algorithm is taken when. Cut at n_bytes; returns `text`. */
#define GR_PG_TEXT 4096
GR_API const char *gr_pg_describe(const gr_pg *pg, char *text, size_t n_bytes);

/* Collective: n_bytes (any number per rank, 0 too) from each rank to each. (*out)[r] is
 * rank r's copy, NUL-terminated, sizes[r] its length if sizes is given. One free() of
 * *out frees all. */
GR_API gr_status gr_pg_gather_bytes(gr_pg *pg, const void *src, size_t n_bytes, char ***out,
                                    size_t *sizes) GR_MUST_CHECK;

/* Breaks the group on purpose: every waiting rank returns GR_ERR_PEER with `why`. */
GR_API void gr_pg_abort(gr_pg *pg, const char *why);

#ifdef __cplusplus
}
#endif

#endif

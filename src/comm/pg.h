/*
 * A process group from the inside: rank, size, a table of functions, the first failure.
 *
 * A group provides the exchange space, in which gradient buckets lie, and reduces them
 * where they are. A collective is started and finished; between the two, poll() moves
 * it on. On the host that is `shm` (ranks of one machine, or threads of one process),
 * `tcp`, `hosts` (shared memory inside a machine, tcp between them), `mpi`, and `solo`
 * (one rank). Groups on a GPU (`nccl`, `ipc`) are made by the CUDA module
 * over a host group, which they borrow for everything that is not a reduction.
 *
 * Threads: one per rank.
 */
#ifndef GR_COMM_PG_H
#define GR_COMM_PG_H

#include "backend/backend.h"
#include "base/clock.h"
#include "base/text.h"
#include "gradus/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One collective on a stretch of the exchange space, in place. Ids count from 0 in the order
 * in which every rank starts them within a step; at most GR_MAX_COLLS per step.
 *
 *   ALLREDUCE        all elements are combined, everywhere
 *   REDUCE_SCATTER   rank r's share is combined on rank r; the rest is undefined afterwards
 *   ALLGATHER        rank r's share goes to everybody
 *
 * The shares are n_elem / size elements each, which must come out even.
 */
#define GR_MAX_COLLS 512
typedef struct gr_coll {
    int id;
    const char *label; /* "bucket 2 (14 gradients)": appears in messages */
    size_t offset;     /* bytes, 64-byte aligned */
    size_t n_elem;
    gr_dtype dtype;
    gr_reduce op;
    gr_call_kind kind; /* 0 is ALLREDUCE */
    bool own_only; /* of a REDUCE_SCATTER: finished as soon as the own share is there. Others may
                      read the stretch until a later collective without this is finished */
    bool rows;     /* of a REDUCE_SCATTER: nothing is combined. It is finished as soon as all ranks
                      have started, and they combine what they find: see gr_coll_rows */
} gr_coll;

/* What all ranks gave to a collective with `rows`, to be combined by whoever has time: work is cut
 * into pieces, in one way on all ranks, and each piece goes to the first that takes it. From its
 * finish on; a rank must be done with the rows and with its pieces when it starts the next
 * collective without own_only, at whose finish others write their rows anew. */
typedef struct gr_coll_rows {
    const void *const *row; /* by rank: the stretch; good until the group's next call */
    uint64_t *next;         /* of all ranks; atomic */
    uint64_t first;         /* its value before any piece was taken */
} gr_coll_rows;

/* The number of the next of n pieces; n: none is left. Any thread of any rank. */
static inline uint64_t gr_coll_rows_take(const gr_coll_rows *r, uint64_t n)
{
    uint64_t next = __atomic_load_n(r->next, __ATOMIC_SEQ_CST);

    while (next - r->first < n) /* also when a later collective has the count: it is larger */
        if (__atomic_compare_exchange_n(r->next, &next, next + 1, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            return next - r->first;
    return n;
}

/* The ranks of `pg` that become a group of their own. */
typedef struct gr_part {
    const int *ranks; /* in their new order */
    int n;
    int rank; /* this rank's new number */
} gr_part;

/* What every transport's works begin with. */
struct gr_work {
    gr_pg *pg; /* whose table looks after it */
};

typedef struct gr_pg_ops {
    const char *name; /* "solo", "shm", "tcp", "hosts", "mpi", "nccl", "ipc" */
    bool can_capture; /* start and finish may be recorded in a device graph */
    bool has_shares;  /* collectives in the exchange space may be other than ALLREDUCE */

    /* Collective: n_bytes of exchange space on `dev`, equal on all ranks, zeroed; again
     * with more bytes replaces it. *base is this rank's part. Owned by the group. */
    gr_status (*exchange)(gr_pg *pg, gr_device *dev, size_t n_bytes, void **base);
    /* Collective: zeroed memory that all ranks see, n_bytes of whole pages, mapped over what is
     * mapped at `at`, of which it is a part from then on. NULL: the group has none. */
    gr_status (*common)(gr_pg *pg, void *at, size_t n_bytes);
    /* This rank's contribution lies ready at c->offset (on a GPU: in stream order). */
    gr_status (*start)(gr_pg *pg, const gr_coll *c, void *stream);
    /* On return the result lies there (on a GPU: in stream order). */
    gr_status (*finish)(gr_pg *pg, const gr_coll *c, void *stream);
    /* Does what can be done for started collectives without waiting. */
    gr_status (*poll)(gr_pg *pg);
    /* Of a collective that is finished. NULL: the group has none with `rows`. */
    gr_status (*rows)(gr_pg *pg, const gr_coll *c, gr_coll_rows *out);

    gr_status (*gather_bytes)(gr_pg *pg, const void *src, size_t n_bytes, char ***out,
                              size_t *sizes);
    /* One call from end to end; or begun, and looked after by the two functions below.
     * The call is checked already (call.h) and has its src and dst in order. */
    gr_status (*run)(gr_pg *pg, const gr_pg_call *c);
    gr_status (*begin)(gr_pg *pg, const gr_pg_call *c, gr_work **out);
    gr_status (*work_test)(gr_work *w, bool *is_done);
    gr_status (*work_finish)(gr_work *w); /* frees it, too */
    /* Collective: a group of some ranks; part->n 0: this rank is in none. */
    gr_status (*split)(gr_pg *pg, const gr_part *part, gr_pg **out);
    void (*describe)(const gr_pg *pg, gr_text *text);
    void (*abort)(gr_pg *pg, const char *why);
    void (*destroy)(gr_pg *pg);
} gr_pg_ops;

struct gr_pg {
    const gr_pg_ops *ops;
    int rank, size, local_rank; /* fixed at creation */
    int timeout_ms;
    gr_status broken;     /* the first failure; sticks */
    int n_open;           /* reductions started and not finished */
    int64_t busy_ns;      /* in calls of this group so far: moving, adding up, waiting */
    struct gr_pool *pool; /* borrowed, or NULL: threads that may help in start, finish and poll */

    /* A number that every rank must have alike while it starts collectives, and its name
     * for the message. Groups that meet on the host compare it. */
    double agreed;
    const char *agreed_name; /* static text; NULL: nothing is compared */
};

/* Makes a device's group over a host group (borrowed). Collective over the host group. */
typedef struct gr_pg_factory {
    const char *name; /* "nccl", "ipc"; NULL ends the array */
    gr_status (*create)(gr_pg **out, gr_pg *host, gr_device *dev);
} gr_pg_factory;

/* For messages of waits that took too long. */
#define GR_TIMEOUT_HINT "--timeout or GR_TIMEOUT (seconds) allows more"

/* For whom a rank waited that was itself stopped until its time was over. */
#define GR_NOBODY_TEXT "nobody: the others have come, and this process was stopped or had no core"

/* Time that this rank has spent in the group's calls; with NULL 0. On a GPU they only queue
 * work, and the time is not in here. */
int64_t gr_pg_busy_ns(const gr_pg *pg);

/* "reduce-scatter": the kind of a collective in the exchange space, for messages. */
const char *gr_coll_name(const gr_coll *c);

/* Checked entries: refuse a broken group with GR_ERR_PEER, remember a failure and abort
 * the transport. Callers use these, not the table. */
GR_API gr_status gr_pg_exchange(gr_pg *pg, gr_device *dev, size_t n_bytes,
                                void **base) GR_MUST_CHECK;
/* Collective: n_bytes of zeroed memory, on a page's border, the first n_common of which are the
 * same memory on all ranks (rounded up to whole pages). The group must have ops->common. Given
 * back by each rank for itself, before or after the group. */
GR_API gr_status gr_pg_common(gr_pg *pg, size_t n_common, size_t n_bytes, void **mem) GR_MUST_CHECK;
GR_API void gr_pg_common_free(void *mem, size_t n_bytes);
GR_API gr_status gr_pg_start(gr_pg *pg, const gr_coll *c, void *stream) GR_MUST_CHECK;
GR_API gr_status gr_pg_finish(gr_pg *pg, const gr_coll *c, void *stream) GR_MUST_CHECK;
GR_API gr_status gr_pg_poll(gr_pg *pg) GR_MUST_CHECK;
/* Of a collective with `rows` that this rank has finished. */
GR_API gr_status gr_pg_rows(gr_pg *pg, const gr_coll *c, gr_coll_rows *out) GR_MUST_CHECK;

/*
 * Compares settings across ranks. `text` is lines "key = value"; when ranks differ,
 * every rank gets GR_ERR_ARG with the first differing key, both values, both ranks.
 * Collective.
 */
gr_status gr_pg_compare(gr_pg *pg, const char *text) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

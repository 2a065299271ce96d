/*
 * The shared-memory group, from the inside. Ranks are processes of one host that map the
 * same memfd, or threads of one process over one anonymous mapping: the code is the same.
 *
 *   control   shm_head | shm_rank of rank 0, 1, ... | staging slot of rank 0, 1, ... | rings
 *   exchange  part of rank 0 | part of rank 1 | ...    gradient buckets, reduced in place
 *
 * There are three kinds of meeting, each numbered from 0:
 *
 * - A *round*: every rank shows a card that says what it is about to do, and goes on when
 *   all have. Barrier, broadcast, gather and all-reduce of arbitrary memory are made of
 *   rounds with copies through the staging slots between them.
 *     (1) Cards and halves of the slots alternate by the round's parity. Before round n a
 *         rank writes only its own card and half n % 2. From then until it arrives at
 *         round n + 1 it may use every rank's.
 * - A *collective* in the exchange space, started and finished apart:
 *
 *              rank 0                 rank 1                 rank 2
 *     start    a0 b0 c0, shows card   a1 b1 c1, shows card   a2 b2 c2, shows card
 *     reduce   a = a0+a1+a2 to all    b = b0+b1+b2 to all    c = c0+c1+c2 to all
 *              done                   done                   done
 *     finish   waits until all are done: a b c everywhere
 *
 *     That is an all-reduce. In a reduce-scatter a sum stays with the rank that took it; in an
 *     all-gather nothing is summed, and each rank copies the others' shares to itself. One with
 *     `rows` (pg.h) is done when all have started; ranks take the pieces of it by a count of rank
 * 0's.
 *
 *     (2) A share is reduced when all cards of that number are there: by its rank when it polls
 *         or waits, in the order of the numbers, with all threads that it lends the group
 *         (pg.pool); and piece by piece by ranks that wait, to whom one that has other work
 *         leaves it. Whoever sums an element gets the same bits.
 *     (3) After finish nobody reads or writes that stretch, nor the cards of that number:
 *         the ring of GR_MAX_COLLS cards may be used again. (With own_only, after the finish of
 *         the next one without it.)
 *
 * - A *call* by messages: schedules (sched.h) over rings of shared memory, one from each
 *   rank to each. All calls that are begun and finished apart are of this kind, and those
 *   that have no faster way through the slots.
 *
 *   Cost of a collective of n bytes: reads n and writes n bytes per rank, two meetings.
 *
 * Publishing is one sequentially consistent store; waiting is spinning for a moment when
 * every rank has a core, then sleeping on `event`. No wait goes without checking for
 * abort, peers that left, peers that died, and the deadline.
 *
 * Threads: one per rank; gr_pg_abort() from any.
 */
#ifndef GR_COMM_SHM_SHM_H
#define GR_COMM_SHM_SHM_H

#include "comm/engine.h"
#include "comm/shm/atom.h"
#include "comm/shm/segment.h"

#include <sched.h>

#define SHM_MAGIC      0x6772616475730002u
#define SHM_HALF_BYTES ((size_t)256 << 10)
#define SHM_SLOT_BYTES (2 * SHM_HALF_BYTES)
#define SHM_CALLS      64
#define SHM_ALIGNED    __attribute__((aligned(SHM_LINE)))
#define SHM_LINE       64 /* of the cache; shares are cut at multiples of it */

typedef struct shm_card {
    atom64 number SHM_ALIGNED; /* 1 + the meeting's number; stored last */
    gr_what what;
    uint64_t n_bytes; /* of a gather: may differ between ranks; of a call: its sequence number */
    char label[GR_LABEL];
} shm_card;

typedef enum shm_state { SHM_EXPECTED, SHM_HERE, SHM_LEFT } shm_state;

/* How far a rank's share of a collective is, in pieces: see share.c. Written by all. */
typedef struct shm_share {
    atom64 taken SHM_ALIGNED, done;
} shm_share;

/* Written by its rank alone, but `share`. */
typedef struct shm_rank {
    shm_card round[2];
    atom32 state SHM_ALIGNED; /* shm_state */
    atom32 helps;             /* 1 + the rank on whose share it works, else 0 */
    atom32 waits;             /* shm_goal_kind + 1 while it sleeps, else 0 */
    atom64 waits_for;         /* the meeting's number then */
    atom64 last;              /* the card it showed last: 4 * number + shm_goal_kind */
    cpu_set_t cores;          /* that it may run on; fixed before state is SHM_HERE */
    shm_card coll[GR_MAX_COLLS];
    shm_share share[GR_MAX_COLLS];
    shm_card call[SHM_CALLS]; /* calls by messages, in the order in which this rank began them */
} shm_rank;

/* Bytes from one rank to another; the ring's memory follows all of these. */
typedef struct shm_ring {
    atom64 tail SHM_ALIGNED; /* bytes written; by the sender */
    atom64 head SHM_ALIGNED; /* bytes read; by the receiver */
} shm_ring;

typedef struct shm_head {
    uint64_t magic, token; /* fixed at creation; a peer checks that it mapped the right thing */
    uint64_t n_ranks;
    atom32 event SHM_ALIGNED; /* futex: counts publications with sleepers */
    atom32 n_sleepers;
    atom32 n_waiting SHM_ALIGNED; /* ranks with time to help, those that sleep among them */
    atom32 aborted SHM_ALIGNED;   /* 0, 1 while the reason is written, 2 */
    int32_t abort_rank;
    char abort_text[GR_ERROR_TEXT];
    int32_t exchange_fd, common_fd; /* of rank 0's process; written by it between two rounds */
} shm_head;

/* What the ranks of one process share: all of them as threads, else one. */
typedef struct shm_world {
    atom32 n_refs;
    int n_ranks;          /* fixed at creation */
    bool is_threads;      /* fixed at creation */
    int owner_pid;        /* of rank 0; fixed at creation */
    shm_segment control;  /* fixed at creation */
    shm_segment exchange; /* replaced between rounds of gr_pg_exchange() */
} shm_world;

typedef struct gr_shm {
    gr_pg pg; /* first: a gr_pg * is a gr_shm * */
    shm_world *world;
    shm_head *head; /* these three point into world->control */
    shm_rank *ranks;
    char *staging;
    shm_ring *rings;   /* of rank r to rank p: rings[r * size + p] */
    char *ring_memory; /* of all rings, in the same order */
    size_t ring_bytes; /* of one; a power of two. 0: too many ranks for rings */
    gr_engine engine;  /* calls by messages */
    uint64_t n_begun;  /* of them */
    int *pids;         /* of all ranks; NULL for threads */
    int *pid_fds;      /* -1: this one is watched by its number; NULL for threads */
    enum { SHM_SPIN_UNKNOWN, SHM_SPINS, SHM_SLEEPS } spin; /* see shm_may_spin() */
    uint64_t n_rounds, n_started;
    uint64_t n_ready; /* collectives that all have started */
    int next_started; /* ranks below it have started collective n_ready */
    uint64_t *n_done; /* by rank: collectives, in order, whose share is known to be done */
    bool is_open[GR_MAX_COLLS];       /* by number % GR_MAX_COLLS: started, not finished */
    uint64_t number_of[GR_MAX_COLLS]; /* by id: 1 + its number while open, else 0 */
    uint64_t last_of[GR_MAX_COLLS];   /* by id: 1 + its number when it was finished last, else 0 */
    char *parts;                      /* the exchange space of all ranks, or NULL */
    size_t part_bytes;                /* usable bytes of a part */
    size_t part_stride;               /* from one part to the next */
    void **part;                      /* scratch: one address per rank */
} gr_shm;

/* What a rank waits for. */
typedef enum shm_goal_kind { SHM_GOAL_ROUND, SHM_GOAL_DONE, SHM_GOAL_CALL } shm_goal_kind;
typedef struct shm_goal {
    shm_goal_kind kind;
    uint64_t number;
    int next;                /* ranks below it have been seen there; starts at 0 */
    bool own_only;           /* of a DONE: this rank's own part is enough */
    const gr_job_work *work; /* of a CALL */
} shm_goal;

/* shm.c */
shm_world *shm_world_create(int n_ranks); /* NULL: out of memory */
void shm_world_unref(shm_world *w);
size_t shm_control_bytes(int n_ranks);
/* Takes the world over, also when it fails. `pids` NULL: ranks are threads. */
gr_status shm_create(gr_shm **out, shm_world *w, int rank, const gr_pg_config *config,
                     const int *pids) GR_MUST_CHECK;
void shm_destroy(gr_pg *pg);

/* wait.c */
/* Whether every rank has a core, as far as their bindings tell; no, while some are not here. */
bool shm_may_spin(gr_shm *s);
void shm_publish(gr_shm *s, atom64 *number, uint64_t value);
/* Wakes whoever sleeps: something that others wait for has happened. */
void shm_tell(gr_shm *s);
void shm_wake_all(gr_shm *s);
void shm_abort(gr_pg *pg, const char *why);
/* GR_ERR_PEER when somebody has aborted the group. */
gr_status shm_alive(gr_shm *s) GR_MUST_CHECK;
gr_status shm_wait(gr_shm *s, shm_goal goal) GR_MUST_CHECK;
/* Shows a card and waits for everybody's. `label` may be NULL. */
gr_status shm_round(gr_shm *s, const gr_what *what, const char *label,
                    uint64_t n_bytes) GR_MUST_CHECK;

/* card.c: messages about cards */
gr_status shm_mismatch(gr_shm *s, int peer, const shm_card *mine, const shm_card *theirs);
const shm_card *shm_goal_card(const shm_rank *r, shm_goal_kind kind, uint64_t number);
/* "all-reduce 'bucket 2'": what this rank waits in. */
void shm_describe_goal(gr_shm *s, const shm_goal *g, char *text, size_t n_bytes);
void shm_describe_peer(gr_shm *s, int rank, char *text, size_t n_bytes);

/* ring.c: the wire of rings */
size_t shm_rings_bytes(int n_ranks);
gr_status shm_ring_wire(gr_wire **out, gr_shm *s) GR_MUST_CHECK;

/* call.c: calls by messages */
gr_status shm_run(gr_pg *pg, const gr_pg_call *c);
gr_status shm_begin(gr_pg *pg, const gr_pg_call *c, gr_work **out);
gr_status shm_work_test(gr_work *w, bool *is_done);
gr_status shm_work_finish(gr_work *w);

/* join.c */
gr_status shm_split(gr_pg *pg, const gr_part *part, gr_pg **out);

/* exchange.c */
gr_status shm_exchange(gr_pg *pg, gr_device *dev, size_t n_bytes, void **base);
gr_status shm_start(gr_pg *pg, const gr_coll *c, void *stream);
gr_status shm_finish(gr_pg *pg, const gr_coll *c, void *stream);
gr_status shm_poll(gr_pg *pg);
/* Reduces the own share of what is complete; never waits. A rank that has other work leaves it to
 * ranks that wait, while there are some. */
typedef enum shm_haste { SHM_BUSY, SHM_WAITS } shm_haste;
gr_status shm_progress(gr_shm *s, shm_haste haste) GR_MUST_CHECK;

/* share.c */
void shm_share_open(gr_shm *s, uint64_t number); /* before the card is shown */
/* Whether the rank's shares of the first n collectives are reduced. */
bool shm_has_done(gr_shm *s, int rank, uint64_t n);
/* Pieces of the own share, until none is left; others may still be at theirs. */
gr_status shm_share_work(gr_shm *s, uint64_t number) GR_MUST_CHECK;
/* Pieces of one other rank's share, if there are any. */
gr_status shm_help(gr_shm *s) GR_MUST_CHECK;
gr_status shm_rows(gr_pg *pg, const gr_coll *c, gr_coll_rows *out);

/* common.c */
gr_status shm_common(gr_pg *pg, void *at, size_t n_bytes);

/* staged.c */
gr_status shm_gather_bytes(gr_pg *pg, const void *src, size_t n_bytes, char ***out, size_t *sizes);
/* Calls that have a fast way through the staging slots. */
gr_status shm_barrier(gr_shm *s, const gr_pg_call *c) GR_MUST_CHECK;
gr_status shm_allreduce(gr_shm *s, const gr_pg_call *c) GR_MUST_CHECK;
gr_status shm_broadcast(gr_shm *s, const gr_pg_call *c) GR_MUST_CHECK;

#endif

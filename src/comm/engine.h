/*
 * The engine: calls under way on one rank, over a wire.
 *
 * (1) Every collective call of a group has the next sequence number, equal on all ranks;
 *     calls between two ranks count for each pair and direction.
 * (2) What a peer says about a call (in the head of each of its messages, or when it has
 *     waited for long) is compared with what this rank said when it began that call. The
 *     last GR_RECENT calls are remembered, so a difference is found by whoever is behind.
 * (3) A work that failed keeps its memory until the engine ends: the wire may still hold
 *     its messages.
 *
 * Threads: the group's; engines of further lanes (lanes.h) have one each.
 */
#ifndef GR_COMM_ENGINE_H
#define GR_COMM_ENGINE_H

#include "comm/choose.h"
#include "comm/inbox.h"
#include "comm/pg.h"
#include "comm/shm/atom.h"

#define GR_RECENT 64

typedef struct gr_engine gr_engine;
typedef struct gr_lanes gr_lanes;

/* A call that a rank has been seen in. */
typedef struct gr_seen {
    uint64_t seq; /* valid when is_set */
    bool is_set;
    gr_what what;
    char label[GR_LABEL];
} gr_seen;

typedef struct gr_peer {
    uint64_t n_to, n_from; /* calls between us two */
    gr_seen last;          /* its last message */
    gr_seen waits;         /* the last call it said it waits in */
    bool left;
} gr_peer;

typedef struct gr_job_work {
    gr_work base; /* first: a gr_work * is a gr_job_work * */
    gr_engine *engine;
    struct gr_job_work *next;
    gr_sched sched;
    uint64_t seq;
    gr_what what;
    char label[GR_LABEL];
    bool is_open;   /* begun, not yet finished */
    uint64_t order; /* for the group's own use */
    /* Of a call that further lanes carry, too: */
    struct gr_job_work *parts; /* theirs; kept for calls to come */
    int cap_parts, n_parts;    /* 0: this call has none */
    atom32 n_left;             /* parts that are not done */
    struct gr_job_work *whole; /* of a part: the work that it is of; else NULL */
    atom32 has_complained;     /* that a rank is late: one word for all lanes */
} gr_job_work;

struct gr_engine {
    gr_pg *pg;     /* borrowed */
    gr_wire *wire; /* owned */
    gr_hosts hosts;
    const char *forced; /* GR_COMM_ALGO; borrowed */
    size_t piece_bytes;
    uint64_t n_calls;
    gr_peer *peers;
    gr_seen recent[GR_RECENT]; /* by sequence number */
    gr_job_work *open, *spare;
    uint64_t n_moved; /* grows while anything moves */
    bool aborted;     /* a peer has told so already: not to be told again */
    gr_lanes *lanes;  /* further ones; NULL: none, or this is one. Owned by the group */
    int lane;
    const atom32 *is_cut;  /* of a lane: not 0, everything is given up. NULL: lane 0 */
    const atom32 *n_waits; /* of a lane: odd while lane 0 waits in a call. NULL: lane 0 */
    int grace_ms;          /* beyond the deadline */
};

/* Takes the wire over, also when it fails. `hosts` is copied; its array is borrowed. */
gr_status gr_engine_init(gr_engine *e, gr_pg *pg, gr_wire *wire,
                         const gr_hosts *hosts) GR_MUST_CHECK;
void gr_engine_fini(gr_engine *e);

/* 1 + the id and the offset of a reduction in the exchange space, else 0. */
typedef struct gr_place_id {
    int id;
    size_t offset;
} gr_place_id;
gr_status gr_engine_begin(gr_engine *e, const gr_pg_call *c, gr_place_id where,
                          gr_job_work **out) GR_MUST_CHECK;
/* The schedule of this lane's part of a call; w->sched.fn must be there. */
gr_status gr_engine_write(gr_engine *e, gr_job_work *w, const gr_pg_call *c,
                          int n_lanes) GR_MUST_CHECK;
/* A part, written before, is the next call of this lane. */
gr_status gr_engine_set_off(gr_engine *e, gr_job_work *part) GR_MUST_CHECK;
/* The same call again, on the same memory: nothing is written anew. */
gr_status gr_engine_again(gr_engine *e, gr_job_work *w) GR_MUST_CHECK;
/* Moves everything that can be moved; never waits. */
gr_status gr_engine_move(gr_engine *e) GR_MUST_CHECK;
bool gr_work_is_done(const gr_job_work *w);
/* A work that is done and not to be used again. */
void gr_engine_recycle(gr_engine *e, gr_job_work *w);
/* Done for now, kept for gr_engine_again(). */
void gr_engine_close(gr_engine *e, gr_job_work *w);

/* Until the work is done; the deadline is pg->timeout_ms from now. */
gr_status gr_engine_wait(gr_engine *e, gr_job_work *w) GR_MUST_CHECK;

void gr_engine_abort(gr_engine *e, const char *why);
/* Tells everybody that this rank leaves. */
void gr_engine_leave(gr_engine *e);

/* late.c: messages about who is missing */
gr_status gr_engine_timed_out(gr_engine *e, const gr_job_work *w, int64_t since_ns);
void gr_engine_log_late(gr_engine *e, const gr_job_work *w, int64_t since_ns);

#endif

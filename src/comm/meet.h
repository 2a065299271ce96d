/*
 * How ranks that have no group yet tell each other where they are: everybody's bytes to
 * everybody. Through the job's store, through a group they are already in (for
 * sub-groups), or, as threads of one process, through shared memory.
 *
 * Who makes a transport gathers exactly once, also when something is wrong already: ranks
 * that are not part of a sub-group take part in that one gathering, too.
 */
#ifndef GR_COMM_MEET_H
#define GR_COMM_MEET_H

#include "comm/pg.h"
#include "net/env.h"
#include "net/store.h"

typedef struct gr_meet {
    int rank, size; /* in the group to be made */
    bool is_threads;
    int most_lanes; /* for the group to be made, 0: any number; 1 and is_lane: it is one itself */
    bool is_lane;
    gr_deadline deadline;
    char address[GR_HOST_TEXT]; /* of this host, as the others may reach it; "": unknown */
    char token[GR_TOKEN_TEXT];  /* of the job; "": none */
    /* As gr_pg_gather_bytes(): one free() of *out. */
    gr_status (*gather)(struct gr_meet *m, const void *src, size_t n_bytes, char ***out,
                        size_t *sizes);
    void *arg;
} gr_meet;

/* Pointers to n texts and the texts, NUL-terminated, in one block: free() it. */
gr_status gr_bytes_table(char ***out, const char *bytes, const size_t *sizes, int n) GR_MUST_CHECK;

/* Through a store: keys begin with "gradus/<restart>/<n>/", where n counts how often this
 * rank has joined, so that a store that outlives a group does not mix it up with the next
 * one. `store` is borrowed. */
typedef struct gr_meet_store {
    gr_store *store;
    int restart, round;
    int64_t n;
} gr_meet_store;
gr_status gr_meet_at_store(gr_meet *m, gr_meet_store *s, gr_store *store,
                           const gr_job *job) GR_MUST_CHECK;

/* Through `pg`, of whose ranks `part` meet. Those outside call gr_meet_outside(). */
typedef struct gr_meet_pg {
    gr_pg *pg;
    const gr_part *part;
} gr_meet_pg;
void gr_meet_in_pg(gr_meet *m, gr_meet_pg *g, gr_pg *pg, const gr_part *part);
gr_status gr_meet_outside(gr_meet_pg *g) GR_MUST_CHECK;

/* Threads of one process: one gr_meet_room for all. */
typedef struct gr_meet_room gr_meet_room;
gr_status gr_meet_room_create(gr_meet_room **out, int size) GR_MUST_CHECK;
void gr_meet_room_destroy(gr_meet_room *r);
void gr_meet_in_room(gr_meet *m, gr_meet_room *r, int rank);
/* A thread that failed: the others are not to wait for it. */
void gr_meet_room_give_up(gr_meet_room *r);

#endif

/*
 * Wires: messages between the ranks of a group. A wire moves bytes and knows no sums; the
 * engine (engine.h) gives it sends and receives and looks when they are done.
 *
 * A message is named by (sequence number of its call, slot); the receiver finds by that
 * name where its bytes go (inbox.h), so messages of several calls may overtake each other.
 * Wires over byte streams (rings in shared memory, sockets) share gr_stream (stream.h).
 *
 * Patient messages, on wires that have patience: one that nobody asked for yet stays where it
 * is, in the system's buffers, and holds up what follows it in its stream, so its receiver
 * needs no more memory than it posts receives for. They have streams of their own. Nothing
 * can block for ever as long as (1) the sends of a call are given to the wire when the call
 * begins, so that in each such stream the messages of earlier calls come first, and (2) their
 * receives are posted in the order of the sends, each needing only earlier ones.
 *
 * Threads: the group's, or its lane's (lanes.h). A wire may have others that write what was given
 * to send().
 */
#ifndef GR_COMM_WIRE_H
#define GR_COMM_WIRE_H

#include "base/text.h"
#include "comm/head.h"

#include <stdbool.h>

typedef struct gr_wire gr_wire;

/* Patient messages are counted apart, with this bit. */
#define GR_SLOT_PATIENT ((uint32_t)1 << 31)

/* A send or a receive. Lent to the wire until is_done. */
typedef struct gr_msg {
    struct gr_msg *next; /* the wire's */
    int peer;
    uint32_t slot;
    uint64_t seq;
    char *mem;
    size_t n_bytes; /* at most GR_HEAD_DATA */
    const gr_what *what;
    const char *label;
    bool is_done; /* by the two functions below: a thread of the wire's may say so */
} gr_msg;

/* The message's memory is its owner's again, and what was received is there. */
static inline void gr_msg_end(gr_msg *m)
{
    __atomic_store_n(&m->is_done, true, __ATOMIC_RELEASE);
}

static inline bool gr_msg_has_ended(const gr_msg *m)
{
    return __atomic_load_n(&m->is_done, __ATOMIC_ACQUIRE);
}

/* What a wire tells its user. */
typedef struct gr_wire_user {
    void *arg;
    /* A head came from `peer`; `text` is what followed it unless it is a message. A failure
     * goes back to whoever moves the wire. */
    gr_status (*frame)(void *arg, int peer, const gr_head *f, const char *text);
} gr_wire_user;

typedef struct gr_wire_ops {
    const char *name;
    void (*send)(gr_wire *w, gr_msg *m); /* what goes wrong shows in move() */
    gr_status (*recv)(gr_wire *w, gr_msg *m);
    /* Does what can be done now; *moved when anything was. GR_ERR_PEER when a rank died. */
    gr_status (*move)(gr_wire *w, bool *moved);
    /* Sleeps until something may have come, at most ms. */
    gr_status (*sleep)(gr_wire *w, int ms);
    /* From any thread: sleep() returns, or does not begin. NULL: the wire has no lanes. */
    void (*wake)(gr_wire *w);
    /* Best effort, at once, to one rank: WAITS, ABORT, BYE. */
    void (*tell)(gr_wire *w, int peer, const gr_head *f, const char *text);
    /* This rank has said BYE to all: until what it sent has arrived, at most ms. A host, or
     * its network, may end together with this process. */
    void (*settle)(gr_wire *w, int ms);
    /* The peer has said BYE: has everything come that it sent before? BYE may overtake it. */
    bool (*is_over)(const gr_wire *w, int peer);
    /* "process 4711 on 'a'"; for a process of this host also whether it is stopped. */
    void (*peer_text)(gr_wire *w, int peer, char *text, size_t n_bytes);
    /* How long its host has not answered; 0: it does. NULL: the wire cannot tell. */
    int (*silent_ms)(const gr_wire *w, int peer);
    void (*describe)(const gr_wire *w, gr_text *text);
    /* The group is broken: no memory of a message is touched from here on. NULL: it is only
     * while the wire is moved. */
    void (*halt)(gr_wire *w);
    void (*destroy)(gr_wire *w);
} gr_wire_ops;

struct gr_wire {
    const gr_wire_ops *ops;
    int rank, size;               /* fixed at creation */
    gr_wire_user user;            /* set by the engine */
    struct gr_inbox *inboxes;     /* one per rank; owned */
    bool may_spin;                /* every rank of this host has a core */
    bool has_patience;            /* the same on all ranks; else patient messages are as others */
    const char *address;          /* of this host, for sub-groups; NULL: not known */
    int silence_ms;               /* after which a host is given up; 0: not by the wire */
    int n_lanes;                  /* planned, then used; equal on all ranks. 0: one */
    bool is_threads;              /* ranks are threads of one process */
    const struct gr_hosts *hosts; /* NULL: one host, or not known; lives as long as the wire */
};

#endif

/* The meeting from inside: hub.c moves bytes and keeps time, meeting.c decides. One thread. */
#ifndef GR_LAUNCH_HUB_IMPL_H
#define GR_LAUNCH_HUB_IMPL_H

#include "base/clock.h"
#include "launch/backoff.h"
#include "launch/hub.h"
#include "launch/report.h"
#include "net/frame.h"
#include "net/interface.h"
#include "net/store_server.h"

#include <pthread.h>

typedef struct gr_peer {
    int fd;
    gr_text in;                    /* bytes that are no whole frame yet */
    char address[GR_ADDRESS_TEXT]; /* of its side of the connection */
    char self[GR_ADDRESS_TEXT];    /* of our side: how it reaches this host */
    int64_t heard_ns;
    bool is_missed; /* a line said that nothing is heard of it */
    bool has_said_hello, has_joined;
    /* what it said */
    char host[64], local_addr[GR_ADDRESS_TEXT];
    char agent[GR_TOKEN_TEXT]; /* its launcher's own random name; "": of an older version */
    int node;                  /* -1: none given */
    int n_local;               /* ranks */
    int probe_port;            /* where others can try to reach it */
    int number;                /* order of joining */
    /* in the round */
    bool in_round, has_probed, has_ended;
    int blame, exit_code; /* GR_BLAME_*; when it has ended */
    int order;            /* of the first bad news; -1: none */
    char line[256];       /* its failure in one line */
    gr_text report;
} gr_peer;

typedef enum gr_phase { GR_GATHER, GR_CHECK, GR_RUN, GR_END, GR_FINISHED } gr_phase;

struct gr_hub {
    const gr_launch_config *config;
    gr_store_server *server;
    pthread_t thread;
    int arrivals[2]; /* new connections, by number, from the store's thread */
    int must_end;    /* another thread sets it; through __atomic functions only */
    char address[GR_HOST_TEXT];
    /* only the thread */
    gr_peer **peers;
    int n_peers, cap_peers;
    int n_numbers;
    char token[GR_TOKEN_TEXT];
    char secret[GR_TOKEN_TEXT]; /* GR_JOB_TOKEN of our own environment: agents must know it */
    gr_phase phase;
    int attempt, restart;
    gr_deadline join_limit; /* GATHER */
    gr_deadline last_call;  /* GATHER: once enough hosts are there */
    bool has_last_call;
    gr_deadline not_before; /* GATHER: the pause before a restart */
    gr_deadline next_note, next_beat;
    gr_deadline end_limit; /* CHECK and END */
    int64_t round_ns;
    gr_backoff pauses;
    gr_text trouble;         /* CHECK: pairs that cannot reach each other */
    bool is_regrouping;      /* END because of a host that came or left, not of a failure */
    int stop_signal;         /* somebody's user ends the job */
    int n_bad;               /* bad news so far in this round */
    gr_text lost;            /* hosts that went away in this round, a line each */
    gr_deadline close_limit; /* FINISHED */
};

/* ---- hub.c ---- */

/* A frame that is written in `t`; a peer that cannot be reached is dropped later. */
void gr_hub_send(gr_peer *p, const gr_text *t);
void gr_hub_send_all(gr_hub *h, const gr_text *t);
void gr_hub_drop(gr_hub *h, gr_peer *p);

/* ---- meeting_text.c ---- */

int gr_meeting_size(const gr_hub *h); /* hosts that have joined */
/* Who is there, from where, and how many are missing. */
void gr_meeting_describe(const gr_hub *h, gr_text *out);
/* The host to blame for the end of a round, or NULL. */
gr_peer *gr_meeting_root(const gr_hub *h);
/* The root cause in full, then the other hosts in a line each; returns the exit code. A host
 * that went away without a word is the cause: what other ranks say then is about its ranks. */
int gr_meeting_verdict(const gr_hub *h, gr_text *out);

/* ---- meeting.c ---- */

void gr_meeting_begin(gr_hub *h);
/* A frame came. GR_ERR_FORMAT and GR_ERR_ARG: the peer is dropped. */
gr_status gr_meeting_take(gr_hub *h, gr_peer *p, const gr_frame *f) GR_MUST_CHECK;
/* A peer went away, or is silent; it is still in the list. */
void gr_meeting_lost(gr_hub *h, gr_peer *p, const char *how);
/* Deadlines. */
void gr_meeting_tick(gr_hub *h);

#endif

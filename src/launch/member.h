/* This host's connection to the meeting of hosts. One thread. */
#ifndef GR_LAUNCH_MEMBER_H
#define GR_LAUNCH_MEMBER_H

#include "base/clock.h"
#include "launch/config.h"
#include "launch/place.h"
#include "net/interface.h"

typedef struct gr_member gr_member;

typedef enum gr_event_kind {
    GR_EVENT_NONE,
    GR_EVENT_WELCOME, /* we are in */
    GR_EVENT_REFUSED, /* text: why */
    GR_EVENT_NOTE,    /* text: for the user */
    GR_EVENT_CHECK,   /* text: whom to try to reach, "address port host" lines */
    GR_EVENT_ROUND,   /* place: start the ranks */
    GR_EVENT_END,     /* signal, is_stop, text: end them */
    GR_EVENT_FINISH   /* exit_code, text: the job is over */
} gr_event_kind;

typedef struct gr_event {
    gr_event_kind kind;
    gr_place place;
    int signal, exit_code;
    int is_stop;  /* END: somebody stopped the job, no rank failed */
    gr_text text; /* owned; reused from event to event */
} gr_event;

/* Says hello over a connection that is there; takes `fd` over, also when it fails. `agent` is this
 * launcher's own name: when it comes again, the meeting knows who it was. */
gr_status gr_member_create(gr_member **out, int fd, const gr_launch_config *c, int probe_port,
                           const char *agent) GR_MUST_CHECK;
void gr_member_destroy(gr_member *m);
int gr_member_fd(const gr_member *m);
/* The address of the other side. */
const char *gr_member_address(const gr_member *m);

/* The next event that has come whole; NONE when there is none. GR_ERR_PEER: the meeting is
 * closed, or silent for too long. Also sends what keeps us from being silent. */
gr_status gr_member_next(gr_member *m, gr_event *e) GR_MUST_CHECK;
/* Milliseconds until gr_member_next() should be called at the latest. */
int gr_member_patience(const gr_member *m);

/* For both ends. After how long a silence is told of; and for how long the connection is kept:
 * longer than heartbeat_timeout, by which both decide for themselves. */
int gr_member_misses_ms(const gr_launch_config *c);
int gr_member_endures_ms(const gr_launch_config *c);
#define GR_MISSED_TEXT "after %d s it is lost (--rdzv-conf heartbeat_timeout=SECONDS)"

/* A frame without and with fields; what cannot be sent is noticed by gr_member_next(). */
void gr_member_say(gr_member *m, const gr_text *frame);

#endif

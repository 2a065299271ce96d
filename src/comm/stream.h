/*
 * Messages over one byte stream to one rank: what is to be sent goes out head first,
 * what comes in is taken apart. The bytes themselves are moved by the two functions of
 * gr_pipe: a ring in shared memory, or a socket. The two directions know nothing of each
 * other, and two threads may move them.
 */
#ifndef GR_COMM_STREAM_H
#define GR_COMM_STREAM_H

#include "comm/inbox.h"

#include <sys/types.h>
#include <sys/uio.h>

/* Both move what they can: 0 for nothing now, -errno for a failure. */
typedef struct gr_pipe {
    void *arg;
    ssize_t (*write)(void *arg, const struct iovec *parts, int n_parts);
    ssize_t (*read)(void *arg, const struct iovec *parts, int n_parts);
} gr_pipe;

typedef struct gr_stream {
    gr_msg *first, *last; /* to be sent; the first is under way */
    size_t out_at;        /* bytes of it that have gone, its head included */
    uint8_t out_head[GR_HEAD_BYTES];
    uint8_t in_head[GR_HEAD_BYTES];
    size_t in_at; /* bytes of the incoming message, its head included */
    gr_head in;
    gr_place place;
    gr_parcel late; /* the incoming message while it waits */
} gr_stream;

void gr_stream_send(gr_stream *s, gr_msg *m);
/* A patient message holds up the stream: there is no use in reading on. */
bool gr_stream_is_held(const gr_stream *s);
/* The first message, which must be there, as far as it can go. *moved when a byte was.
 * GR_ERR_IO with the system's reason. */
gr_status gr_stream_out_one(gr_stream *s, const gr_pipe *p, bool *moved) GR_MUST_CHECK;
/* All of them. */
gr_status gr_stream_out(gr_stream *s, const gr_pipe *p, bool *moved) GR_MUST_CHECK;
/* Messages for w->inboxes[peer]; heads go to the wire's user first. */
gr_status gr_stream_in(gr_stream *s, const gr_pipe *p, gr_wire *w, int peer,
                       bool *moved) GR_MUST_CHECK;

#endif

/*
 * Where the bytes of incoming messages go: into the receive that waits for them, or, when
 * none does yet, into a parcel of their own until one comes.
 */
#ifndef GR_COMM_INBOX_H
#define GR_COMM_INBOX_H

#include "comm/wire.h"

typedef struct gr_parcel {
    struct gr_parcel *next;
    gr_head frame;
    bool is_whole;
    gr_msg *wanted; /* the receive that came while the bytes did */
    char *bytes;    /* right behind this struct; NULL: a patient message, in its stream */
} gr_parcel;

typedef struct gr_inbox {
    gr_msg *first, *last; /* receives without a message */
    gr_parcel *parcels;   /* messages without a receive */
    size_t parcel_bytes;
} gr_inbox;

/* The place of one message while it comes in. */
typedef struct gr_place {
    char *mem;   /* NULL: a patient message that waits */
    gr_msg *msg; /* one of these two */
    gr_parcel *parcel;
} gr_place;

GR_API gr_status gr_inboxes_create(gr_inbox **out, int n) GR_MUST_CHECK;
GR_API void gr_inboxes_destroy(gr_inbox *boxes, int n);

/* A head came. GR_ERR_FORMAT when the receive has another length. `late` is borrowed for a
 * patient message without a receive; NULL: the wire has no patience. */
GR_API gr_status gr_inbox_open(gr_inbox *b, const gr_head *f, gr_parcel *late,
                               gr_place *place) GR_MUST_CHECK;
/* False while a patient message waits for its receive. */
bool gr_inbox_is_open(const gr_place *place);
/* Its bytes may come now: gr_inbox_is_open() said so. */
void gr_inbox_admit(gr_inbox *b, gr_place *place);
/* Its bytes are complete. */
GR_API void gr_inbox_close(gr_inbox *b, gr_place *place);
/* A receive: is_done at once if its message is there. */
GR_API gr_status gr_inbox_post(gr_inbox *b, gr_msg *m) GR_MUST_CHECK;
/* A parcel of that call, or NULL. */
const gr_parcel *gr_inbox_find(const gr_inbox *b, uint64_t seq);
/* No receive waits here and much has come unasked: better not to read on. */
bool gr_inbox_is_full(const gr_inbox *b);

#endif

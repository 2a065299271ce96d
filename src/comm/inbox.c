/* Matching messages with receives. */
#include "comm/inbox.h"

#include "base/alloc.h"

#include <string.h>

#define PARCEL_LIMIT ((size_t)64 << 20) /* bytes from one rank that nobody asked for yet */

gr_status gr_inboxes_create(gr_inbox **out, int n)
{
    *out = (gr_inbox *)gr_calloc((size_t)n, sizeof(**out));
    return *out ? GR_OK : GR_ERR_NOMEM;
}

void gr_inboxes_destroy(gr_inbox *boxes, int n)
{
    for (int i = 0; i < n && boxes; i++)
        while (boxes[i].parcels) {
            gr_parcel *p = boxes[i].parcels;

            boxes[i].parcels = p->next;
            if (p->bytes)
                gr_free(p);
        }
    gr_free(boxes);
}

static gr_status check_length(const gr_msg *m, const gr_head *f)
{
    char text[GR_WHAT_TEXT];

    if (m->n_bytes == f->n_bytes)
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "rank %d sent %llu bytes where %zu were expected in %s", m->peer,
                   (unsigned long long)f->n_bytes, m->n_bytes,
                   gr_what_text(m->what, m->label, text, sizeof(text)));
}

static gr_msg *take_receive(gr_inbox *b, const gr_head *f)
{
    gr_msg *before = NULL;

    for (gr_msg *m = b->first; m; before = m, m = m->next) {
        if (m->seq != f->seq || m->slot != f->slot)
            continue;
        if (before)
            before->next = m->next;
        else
            b->first = m->next;
        if (b->last == m)
            b->last = before;
        return m;
    }
    return NULL;
}

static void put_parcel(gr_inbox *b, gr_parcel *p, const gr_head *f, char *bytes)
{
    *p = (gr_parcel){ .next = b->parcels, .frame = *f, .bytes = bytes };
    b->parcels = p;
}

static void remove_parcel(gr_inbox *b, const gr_parcel *p)
{
    gr_parcel **at = &b->parcels;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
}

gr_status gr_inbox_open(gr_inbox *b, const gr_head *f, gr_parcel *late, gr_place *place)
{
    gr_msg *m = take_receive(b, f);
    gr_parcel *p;

    if (m) {
        *place = (gr_place){ .mem = m->mem, .msg = m };
        return check_length(m, f);
    }
    if (late && (f->slot & GR_SLOT_PATIENT) && f->n_bytes > 0) {
        put_parcel(b, late, f, NULL);
        *place = (gr_place){ .parcel = late };
        return GR_OK;
    }
    p = (gr_parcel *)gr_malloc(sizeof(*p) + f->n_bytes); /* n_bytes was checked by head.c */
    if (!p)
        return GR_ERR_NOMEM;
    put_parcel(b, p, f, (char *)(p + 1));
    b->parcel_bytes += f->n_bytes;
    *place = (gr_place){ .mem = p->bytes, .parcel = p };
    return GR_OK;
}

bool gr_inbox_is_open(const gr_place *place)
{
    return place->mem || place->parcel->wanted;
}

void gr_inbox_admit(gr_inbox *b, gr_place *place)
{
    if (place->mem)
        return;
    remove_parcel(b, place->parcel);
    *place = (gr_place){ .mem = place->parcel->wanted->mem, .msg = place->parcel->wanted };
}

static void hand_over(gr_inbox *b, gr_parcel *p, gr_msg *m)
{
    if (m->n_bytes > 0)
        memcpy(m->mem, p->bytes, m->n_bytes);
    gr_msg_end(m);
    remove_parcel(b, p);
    b->parcel_bytes -= p->frame.n_bytes;
    gr_free(p);
}

void gr_inbox_close(gr_inbox *b, gr_place *place)
{
    if (place->msg) {
        gr_msg_end(place->msg);
        return;
    }
    place->parcel->is_whole = true;
    if (place->parcel->wanted)
        hand_over(b, place->parcel, place->parcel->wanted);
}

gr_status gr_inbox_post(gr_inbox *b, gr_msg *m)
{
    m->next = NULL;
    for (gr_parcel *p = b->parcels; p; p = p->next) {
        if (p->frame.seq != m->seq || p->frame.slot != m->slot)
            continue;
        GR_TRY(check_length(m, &p->frame));
        if (p->is_whole)
            hand_over(b, p, m);
        else
            p->wanted = m;
        return GR_OK;
    }
    if (m->slot & GR_SLOT_PATIENT) { /* few at a time: not behind the many of the others */
        m->next = b->first;
        b->first = m;
        b->last = b->last ? b->last : m;
        return GR_OK;
    }
    if (b->last)
        b->last->next = m;
    else
        b->first = m;
    b->last = m;
    return GR_OK;
}

const gr_parcel *gr_inbox_find(const gr_inbox *b, uint64_t seq)
{
    for (const gr_parcel *p = b->parcels; p; p = p->next)
        if (p->frame.seq == seq)
            return p;
    return NULL;
}

bool gr_inbox_is_full(const gr_inbox *b)
{
    return !b->first && b->parcel_bytes > PARCEL_LIMIT;
}

/* Messages over byte streams. */
#include "comm/stream.h"

#include <stdio.h>
#include <string.h>

#define MOST_AT_ONCE ((size_t)4 << 20) /* bytes from one stream before others have a turn */

void gr_stream_send(gr_stream *s, gr_msg *m)
{
    m->next = NULL;
    if (s->last)
        s->last->next = m;
    else
        s->first = m;
    s->last = m;
}

static void put_head(gr_stream *s, const gr_msg *m)
{
    gr_head f = { .type = GR_HEAD_MESSAGE,
                  .seq = m->seq,
                  .n_bytes = m->n_bytes,
                  .slot = m->slot,
                  .what = *m->what };

    snprintf(f.label, sizeof(f.label), "%s", m->label);
    gr_head_put(s->out_head, &f);
}

gr_status gr_stream_out_one(gr_stream *s, const gr_pipe *p, bool *moved)
{
    gr_msg *m = s->first;

    for (;;) {
        size_t in_head = s->out_at < GR_HEAD_BYTES ? GR_HEAD_BYTES - s->out_at : 0;
        size_t body_at = in_head ? 0 : s->out_at - GR_HEAD_BYTES;
        struct iovec parts[2] = { { s->out_head + GR_HEAD_BYTES - in_head, in_head },
                                  { m->mem + body_at, m->n_bytes - body_at } };
        ssize_t n;

        if (s->out_at == 0)
            put_head(s, m);
        n = p->write(p->arg, in_head ? parts : parts + 1, in_head && m->n_bytes ? 2 : 1);
        if (n < 0)
            return gr_fail(GR_ERR_IO, "%s", strerror((int)-n));
        if (n == 0)
            return GR_OK;
        *moved = true;
        s->out_at += (size_t)n;
        if (s->out_at < GR_HEAD_BYTES + m->n_bytes)
            continue;
        s->out_at = 0;
        s->first = m->next;
        s->last = s->first ? s->last : NULL;
        gr_msg_end(m);
        return GR_OK;
    }
}

gr_status gr_stream_out(gr_stream *s, const gr_pipe *p, bool *moved)
{
    gr_msg *m = NULL;

    while (s->first && s->first != m) { /* else it did not go out as a whole */
        m = s->first;
        GR_TRY(gr_stream_out_one(s, p, moved));
    }
    return GR_OK;
}

/* The head is complete. */
static gr_status begin_message(gr_stream *s, gr_wire *w, int peer)
{
    GR_TRY(gr_head_get(s->in_head, &s->in));
    if (s->in.type != GR_HEAD_MESSAGE)
        return gr_fail(GR_ERR_FORMAT, "a message of type %d among data", (int)s->in.type);
    GR_TRY(w->user.frame(w->user.arg, peer, &s->in, ""));
    return gr_inbox_open(&w->inboxes[peer], &s->in, w->has_patience ? &s->late : NULL, &s->place);
}

bool gr_stream_is_held(const gr_stream *s)
{
    return s->in_at >= GR_HEAD_BYTES && !gr_inbox_is_open(&s->place);
}

/* Of `n` bytes that came, those of the message under way, or of its head. */
static gr_status take_bytes(gr_stream *s, gr_wire *w, int peer, size_t *n)
{
    bool is_head = s->in_at < GR_HEAD_BYTES;
    size_t rest = (is_head ? GR_HEAD_BYTES : GR_HEAD_BYTES + s->in.n_bytes) - s->in_at;
    size_t used = *n < rest ? *n : rest;

    *n -= used;
    s->in_at += used;
    if (used < rest)
        return GR_OK;
    if (is_head)
        GR_TRY(begin_message(s, w, peer));
    if (s->in_at == GR_HEAD_BYTES + s->in.n_bytes) {
        s->in_at = 0;
        gr_inbox_close(&w->inboxes[peer], &s->place);
    }
    return GR_OK;
}

/* A body is read together with the head that follows it. */
gr_status gr_stream_in(gr_stream *s, const gr_pipe *p, gr_wire *w, int peer, bool *moved)
{
    gr_inbox *box = &w->inboxes[peer];
    size_t budget = MOST_AT_ONCE;

    while (budget > 0 && (s->in_at > 0 || !gr_inbox_is_full(box))) {
        bool is_head = s->in_at < GR_HEAD_BYTES;
        size_t body_at = is_head ? 0 : s->in_at - GR_HEAD_BYTES, left;
        struct iovec parts[2] = { { s->in_head, GR_HEAD_BYTES }, { s->in_head, GR_HEAD_BYTES } };
        ssize_t n;

        if (gr_stream_is_held(s))
            return GR_OK;
        if (is_head) {
            parts[0] = (struct iovec){ s->in_head + s->in_at, GR_HEAD_BYTES - s->in_at };
        } else {
            gr_inbox_admit(box, &s->place);
            parts[0] = (struct iovec){ s->place.mem + body_at, s->in.n_bytes - body_at };
        }
        n = p->read(p->arg, parts, is_head ? 1 : 2);
        if (n < 0)
            return gr_fail(GR_ERR_IO, "%s", strerror((int)-n));
        if (n == 0)
            return GR_OK;
        *moved = true;
        left = (size_t)n;
        budget -= left < budget ? left : budget;
        while (left > 0)
            GR_TRY(take_bytes(s, w, peer, &left));
    }
    return GR_OK;
}

/*
 * Rings of shared memory as a wire: from each rank to each, one byte stream. The sender
 * writes at tail and the receiver reads at head; both only ever grow, and each is stored by
 * one side alone. Telling and sleeping are the group's (wait.c).
 */
#include "comm/shm/shm.h"

#include "base/alloc.h"
#include "base/size.h"
#include "comm/stream.h"

#include <stdio.h>
#include <string.h>

#define PAGE_BYTES ((size_t)4096)
#define MAX_RANKS  512 /* with rings: W * W of them */

typedef struct ring_wire {
    gr_wire wire; /* first: a gr_wire * is a ring_wire * */
    gr_shm *shm;
    gr_stream *streams; /* one per rank */
} ring_wire;

/* What one pipe needs: which rings. */
typedef struct ends {
    gr_shm *s;
    int peer;
} ends;

static size_t ring_bytes(int n_ranks)
{
    return n_ranks > MAX_RANKS ? 0
           : n_ranks > 64      ? PAGE_BYTES
           : n_ranks > 16      ? (size_t)32 << 10
                               : (size_t)256 << 10;
}

size_t shm_rings_bytes(int n_ranks)
{
    size_t n = (size_t)n_ranks * (size_t)n_ranks;

    return n_ranks > MAX_RANKS
               ? 0
               : gr_round_up(n * sizeof(shm_ring), PAGE_BYTES) + n * ring_bytes(n_ranks);
}

/* Copies into or out of a ring at position `at`, around its end. */
static void copy_in(char *ring, size_t size, uint64_t at, const char *src, size_t n)
{
    size_t from = at & (size - 1), first = n < size - from ? n : size - from;

    memcpy(ring + from, src, first);
    memcpy(ring, src + first, n - first);
}

static void copy_out(const char *ring, size_t size, uint64_t at, char *dst, size_t n)
{
    size_t from = at & (size - 1), first = n < size - from ? n : size - from;

    memcpy(dst, ring + from, first);
    memcpy(dst + first, ring, n - first);
}

static ssize_t ring_write(void *arg, const struct iovec *parts, int n_parts)
{
    ends *e = (ends *)arg;
    gr_shm *s = e->s;
    size_t i = (size_t)s->pg.rank * (size_t)s->pg.size + (size_t)e->peer;
    shm_ring *r = &s->rings[i];
    uint64_t tail = atom64_acquire(&r->tail), head = atom64_acquire(&r->head);
    size_t room = s->ring_bytes - (size_t)(tail - head), done = 0;

    for (int k = 0; k < n_parts && room > 0; k++) {
        size_t n = parts[k].iov_len < room ? parts[k].iov_len : room;

        copy_in(s->ring_memory + i * s->ring_bytes, s->ring_bytes, tail + done,
                (const char *)parts[k].iov_base, n);
        done += n;
        room -= n;
        if (n < parts[k].iov_len)
            break;
    }
    if (done > 0)
        shm_publish(s, &r->tail, tail + done);
    return (ssize_t)done;
}

static ssize_t ring_read(void *arg, const struct iovec *parts, int n_parts)
{
    ends *e = (ends *)arg;
    gr_shm *s = e->s;
    size_t i = (size_t)e->peer * (size_t)s->pg.size + (size_t)s->pg.rank;
    shm_ring *r = &s->rings[i];
    uint64_t tail = atom64_acquire(&r->tail), head = atom64_acquire(&r->head);
    size_t there = (size_t)(tail - head), done = 0;

    for (int k = 0; k < n_parts && done < there; k++) {
        size_t n = parts[k].iov_len < there - done ? parts[k].iov_len : there - done;

        copy_out(s->ring_memory + i * s->ring_bytes, s->ring_bytes, head + done,
                 (char *)parts[k].iov_base, n);
        done += n;
    }
    if (done > 0)
        shm_publish(s, &r->head, head + done);
    return (ssize_t)done;
}

static void wire_send(gr_wire *w, gr_msg *m)
{
    gr_stream_send(&((ring_wire *)w)->streams[m->peer], m);
}

static gr_status wire_recv(gr_wire *w, gr_msg *m)
{
    return gr_inbox_post(&w->inboxes[m->peer], m);
}

static gr_status wire_move(gr_wire *w, bool *moved)
{
    ring_wire *v = (ring_wire *)w;

    for (int r = 0; r < w->size; r++) {
        ends e = { v->shm, r };
        gr_pipe p = { &e, ring_write, ring_read };

        if (r == w->rank)
            continue;
        GR_TRY(gr_stream_out(&v->streams[r], &p, moved));
        GR_TRY(gr_wrap(gr_stream_in(&v->streams[r], &p, w, r, moved), "from rank %d", r));
    }
    return GR_OK;
}

static gr_status wire_sleep(gr_wire *w, int ms)
{
    (void)w;
    (void)ms;
    return GR_OK;
}

static void wire_tell(gr_wire *w, int peer, const gr_head *f, const char *text)
{
    (void)w;
    (void)peer;
    (void)f;
    (void)text;
}

/* What is in a ring has arrived. */
static void wire_settle(gr_wire *w, int ms)
{
    (void)w;
    (void)ms;
}

static bool wire_is_over(const gr_wire *w, int peer)
{
    const gr_shm *s = ((const ring_wire *)w)->shm;
    const shm_ring *r = &s->rings[(size_t)peer * (size_t)s->pg.size + (size_t)s->pg.rank];

    return atom64_acquire(&r->tail) == atom64_acquire(&r->head);
}

static void wire_peer_text(gr_wire *w, int peer, char *text, size_t n_bytes)
{
    shm_describe_peer(((ring_wire *)w)->shm, peer, text, n_bytes);
}

static void wire_describe(const gr_wire *w, gr_text *text)
{
    const gr_shm *s = ((const ring_wire *)w)->shm;

    gr_text_addf(text, "rings of %zu bytes from each rank to each\n", s->ring_bytes);
}

static void wire_destroy(gr_wire *w)
{
    ring_wire *v = (ring_wire *)w;

    gr_inboxes_destroy(w->inboxes, w->size);
    gr_free(v->streams);
    gr_free(v);
}

static const gr_wire_ops ring_ops = {
    .name = "rings",
    .send = wire_send,
    .recv = wire_recv,
    .move = wire_move,
    .sleep = wire_sleep,
    .tell = wire_tell,
    .settle = wire_settle,
    .is_over = wire_is_over,
    .peer_text = wire_peer_text,
    .describe = wire_describe,
    .destroy = wire_destroy,
};

gr_status shm_ring_wire(gr_wire **out, gr_shm *s)
{
    size_t n = (size_t)s->pg.size;
    ring_wire *v = (ring_wire *)gr_calloc(1, sizeof(*v));

    if (!v)
        return GR_ERR_NOMEM;
    v->wire = (gr_wire){ .ops = &ring_ops, .rank = s->pg.rank, .size = s->pg.size };
    v->shm = s;
    v->streams = (gr_stream *)gr_calloc(n, sizeof(*v->streams));
    if (!v->streams || gr_inboxes_create(&v->wire.inboxes, s->pg.size) != GR_OK) {
        wire_destroy(&v->wire);
        return GR_ERR_NOMEM;
    }
    s->ring_bytes = ring_bytes(s->pg.size);
    s->ring_memory = (char *)s->rings + gr_round_up(n * n * sizeof(shm_ring), PAGE_BYTES);
    *out = &v->wire;
    return GR_OK;
}

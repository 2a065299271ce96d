/*
 * Ranks of one host inside group `hosts`: each has a shelf, a memfd with one ring for every
 * other rank to write into, which neighbours open through /proc/<pid>/fd/<n>. Pages of
 * rings that nobody uses are never touched.
 */
#include "comm/tcp/mesh.h"

#include "base/size.h"

#include <string.h>

#define RING_BYTES ((size_t)256 << 10)
#define PAGE_BYTES ((size_t)4096)

static size_t rings_at(void)
{
    return gr_round_up(sizeof(mesh_shelf), PAGE_BYTES);
}

static size_t memory_at(int n_ranks)
{
    return rings_at() + gr_round_up((size_t)n_ranks * sizeof(mesh_ring), PAGE_BYTES);
}

static size_t shelf_bytes(int n_ranks)
{
    return memory_at(n_ranks) + (size_t)n_ranks * RING_BYTES;
}

static mesh_ring *ring_of(const shm_segment *shelf, int writer)
{
    return (mesh_ring *)((char *)shelf->mem + rings_at()) + writer;
}

static char *memory_of(const shm_segment *shelf, int n_ranks, int writer)
{
    return (char *)shelf->mem + memory_at(n_ranks) + (size_t)writer * RING_BYTES;
}

gr_status mesh_shelf_make(mesh *m)
{
    return shm_segment_create(&m->shelf, shelf_bytes(m->wire.size), SHM_SMALL_PAGES);
}

gr_status mesh_shelves_open(mesh *m)
{
    int me = m->wire.rank, size = m->wire.size;
    const mesh_card *mine = &m->peers[me].card;

    for (int r = 0; r < size; r++) {
        mesh_peer *p = &m->peers[r];

        if (r == me || strcmp(p->card.host_id, mine->host_id) != 0)
            continue;
        GR_TRY(shm_segment_open(&p->shelf, p->card.pid, p->card.shelf_fd, shelf_bytes(size),
                                SHM_SMALL_PAGES));
        if (memcmp(((mesh_shelf *)p->shelf.mem)->token, p->card.nonce, MESH_TOKEN) != 0)
            return gr_fail(GR_ERR_FORMAT, "descriptor %d of process %d is not rank %d's memory",
                           p->card.shelf_fd, p->card.pid, r);
        shm_segment_hide(&p->shelf);
        p->out_ring = ring_of(&p->shelf, me);
        p->out_mem = memory_of(&p->shelf, size, me);
        p->in_ring = ring_of(&m->shelf, r);
        p->in_mem = memory_of(&m->shelf, size, r);
    }
    return GR_OK;
}

static void copy_in(char *ring, uint64_t at, const char *src, size_t n)
{
    size_t from = at & (RING_BYTES - 1), first = n < RING_BYTES - from ? n : RING_BYTES - from;

    memcpy(ring + from, src, first);
    memcpy(ring, src + first, n - first);
}

static void copy_out(const char *ring, uint64_t at, char *dst, size_t n)
{
    size_t from = at & (RING_BYTES - 1), first = n < RING_BYTES - from ? n : RING_BYTES - from;

    memcpy(dst, ring + from, first);
    memcpy(dst + first, ring, n - first);
}

/* Rule (3): the sleeper says so before it looks a last time, the writer stores before it
 * looks whether somebody sleeps. */
static void wake(mesh *m, int peer)
{
    const mesh_shelf *shelf = (const mesh_shelf *)m->peers[peer].shelf.mem;
    gr_head f = { .type = GR_HEAD_WAKE };

    if (atom32_get(&shelf->asleep))
        mesh_tell(&m->wire, peer, &f, "");
}

ssize_t mesh_ring_write(void *arg, const struct iovec *parts, int n_parts)
{
    mesh_stream *s = (mesh_stream *)arg;
    mesh_peer *p = &s->mesh->peers[s->peer];
    uint64_t tail = atom64_acquire(&p->out_ring->tail), head = atom64_acquire(&p->out_ring->head);
    size_t room = RING_BYTES - (size_t)(tail - head), done = 0;

    for (int k = 0; k < n_parts && room > 0; k++) {
        size_t n = parts[k].iov_len < room ? parts[k].iov_len : room;

        copy_in(p->out_mem, tail + done, (const char *)parts[k].iov_base, n);
        done += n;
        room -= n;
        if (n < parts[k].iov_len)
            break;
    }
    if (done > 0) {
        atom64_set(&p->out_ring->tail, tail + done);
        wake(s->mesh, s->peer);
    }
    return (ssize_t)done;
}

ssize_t mesh_ring_read(void *arg, const struct iovec *parts, int n_parts)
{
    mesh_stream *s = (mesh_stream *)arg;
    mesh_peer *p = &s->mesh->peers[s->peer];
    uint64_t tail = atom64_acquire(&p->in_ring->tail), head = atom64_acquire(&p->in_ring->head);
    size_t there = (size_t)(tail - head), done = 0;

    for (int k = 0; k < n_parts && done < there; k++) {
        size_t n = parts[k].iov_len < there - done ? parts[k].iov_len : there - done;

        copy_out(p->in_mem, head + done, (char *)parts[k].iov_base, n);
        done += n;
    }
    if (done > 0)
        atom64_set(&p->in_ring->head, head + done);
    if (done > 0 && there == RING_BYTES)
        wake(s->mesh, s->peer);
    return (ssize_t)done;
}

bool mesh_ring_is_ready(const mesh_peer *p)
{
    if (!p->in_ring)
        return false;
    if (atom64_get(&p->in_ring->tail) != atom64_get(&p->in_ring->head))
        return true;
    return p->streams[0].stream.first &&
           atom64_get(&p->out_ring->tail) - atom64_get(&p->out_ring->head) < RING_BYTES;
}

void mesh_sleeps(mesh *m, bool asleep)
{
    if (m->shelf.mem)
        atom32_set(&((mesh_shelf *)m->shelf.mem)->asleep, asleep);
}

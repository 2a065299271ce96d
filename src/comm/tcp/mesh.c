/* The mesh as a wire: moving, sleeping, ending. */
#include "comm/tcp/mesh.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SMALL_BYTES ((size_t)16 << 10) /* such messages stay on one stream, without a sender */
#define GRACE_NS    8000000000         /* from the end of a data stream to the verdict */
#define NAP_NS      1000000

const char *mesh_name(const mesh *m, int rank, char *text, size_t n_bytes)
{
    const mesh_card *c = &m->peers[rank].card;

    snprintf(text, n_bytes, "rank %d (process %d on '%.*s')", rank, (int)c->pid, MESH_HOST - 1,
             c->host);
    return text;
}

bool mesh_is_near(const mesh *m, int rank)
{
    const char *mine = m->peers[m->wire.rank].card.machine;

    return mine[0] && strcmp(mine, m->peers[rank].card.machine) == 0;
}

/* ---- sockets as pipes ---- */

ssize_t mesh_socket_write(int fd, const struct iovec *parts, int n_parts, bool *is_full)
{
    struct msghdr h = { .msg_iov = (struct iovec *)(uintptr_t)parts,
                        .msg_iovlen = (size_t)n_parts };
    ssize_t n = fd >= 0 ? sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

    *is_full = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (n >= 0 || *is_full || errno == EINTR)
        return n < 0 ? 0 : n;
    return -errno;
}

static ssize_t socket_write(void *arg, const struct iovec *parts, int n_parts)
{
    mesh_stream *s = (mesh_stream *)arg;

    return mesh_socket_write(s->fd, parts, n_parts, &s->is_full);
}

static ssize_t socket_read(void *arg, const struct iovec *parts, int n_parts)
{
    mesh_stream *s = (mesh_stream *)arg;
    struct msghdr h = { .msg_iov = (struct iovec *)(uintptr_t)parts,
                        .msg_iovlen = (size_t)n_parts };
    ssize_t n;

    if (s->fd < 0)
        return 0;
    n = recvmsg(s->fd, &h, MSG_DONTWAIT);
    if (n > 0)
        return n;
    if (n == 0)
        return -ECONNRESET;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
}

/* ---- the table ---- */

/* With patience, half of the sockets are for patient messages. */
static mesh_stream *pick_stream(const mesh *m, mesh_peer *p, const gr_msg *msg)
{
    unsigned n_patient = m->wire.has_patience ? (unsigned)m->n_streams / 2 : 0;
    unsigned n_other = (unsigned)m->n_streams - n_patient;

    if (n_patient > 0 && (msg->slot & GR_SLOT_PATIENT))
        return &p->streams[n_other + p->next_patient++ % n_patient];
    return &p->streams[msg->n_bytes > SMALL_BYTES ? p->next_stream++ % n_other : 0];
}

static void mesh_send(gr_wire *w, gr_msg *msg)
{
    mesh *m = (mesh *)w;
    mesh_peer *p = &m->peers[msg->peer];
    mesh_stream *s = p->out_ring ? &p->streams[0] : pick_stream(m, p, msg);
    bool is_long = msg->n_bytes > SMALL_BYTES;

    if (is_long && m->wants_sender && !p->out_ring)
        mesh_sender_start(m);
    if (m->sender && !p->out_ring)
        mesh_sender_send(m, s, msg, is_long);
    else
        gr_stream_send(&s->stream, msg);
}

static gr_status mesh_recv(gr_wire *w, gr_msg *msg)
{
    return gr_inbox_post(&w->inboxes[msg->peer], msg);
}

/* Rule (1): the control connection tells what the end of a stream means. */
static gr_status stream_ended(mesh *m, mesh_stream *s, gr_status st)
{
    mesh_peer *p = &m->peers[s->peer];
    bool moved = false;

    if (st != GR_ERR_IO || s->fd < 0)
        return st;
    if (atom32_get(&s->is_lent)) {
        (void)shutdown(s->fd, SHUT_RDWR); /* fails where it has ended by itself */
        s->shut_fd = s->fd;
    } else {
        close(s->fd);
    }
    s->fd = -1;
    p->closed_ns = p->closed_ns ? p->closed_ns : gr_now_ns();
    return mesh_control_move(m, s->peer, &moved);
}

gr_status mesh_read_rest(mesh *m, int peer)
{
    bool is_ring = m->peers[peer].out_ring != NULL;

    for (int i = 0; i < (is_ring ? 1 : m->n_streams) && !m->is_halted; i++) {
        mesh_stream *s = &m->peers[peer].streams[i];
        gr_pipe p = { s, is_ring ? mesh_ring_write : socket_write,
                      is_ring ? mesh_ring_read : socket_read };
        bool moved = is_ring || s->fd >= 0;

        while (moved) {
            gr_status st;

            moved = false;
            st = gr_stream_in(&s->stream, &p, &m->wire, peer, &moved);
            if (st == GR_ERR_ARG)
                return st;
            moved = moved && st == GR_OK;
        }
    }
    return GR_OK;
}

/* Has the sender met with a failure? */
static gr_status check_lent(mesh *m, mesh_stream *s)
{
    int error = (int)atom32_get(&s->out_error);

    if (error == 0 || s->fd < 0)
        return GR_OK;
    return stream_ended(m, s, gr_fail(GR_ERR_IO, "%s", strerror(error)));
}

/* To sockets one message at a time: what fills the system's buffers for one rank while nothing is
 * read from the others has left the cache by the time it is. */
static gr_status write_some(mesh_stream *s, const gr_pipe *p, bool is_ring, bool *moved)
{
    return (is_ring ? gr_stream_out : gr_stream_out_one)(&s->stream, p, moved);
}

static gr_status move_stream(mesh *m, mesh_stream *s, short events, bool *moved)
{
    bool is_ring = m->peers[s->peer].out_ring != NULL;
    gr_pipe p = { s, is_ring ? mesh_ring_write : socket_write,
                  is_ring ? mesh_ring_read : socket_read };
    char name[MESH_NAME];
    gr_status st = GR_OK;

    if (atom32_get(&s->is_lent))
        st = check_lent(m, s);
    else if (s->stream.first &&
             (is_ring || !s->is_full || (events & (POLLOUT | POLLERR | POLLHUP))))
        st = stream_ended(m, s, write_some(s, &p, is_ring, moved));
    if (st == GR_OK && (is_ring || (events & (POLLIN | POLLERR | POLLHUP))))
        st = stream_ended(m, s, gr_stream_in(&s->stream, &p, &m->wire, s->peer, moved));
    if (st == GR_ERR_FORMAT || st == GR_ERR_IO)
        return gr_wrap(st, "from %s", mesh_name(m, s->peer, name, sizeof(name)));
    return st;
}

/* Fills the list for poll(): per rank its control connection and its streams. */
static int list_polls(mesh *m)
{
    int n = 0;

    for (int k = 1; k < m->wire.size; k++) {
        int r = (m->wire.rank + k) % m->wire.size;
        mesh_peer *p = &m->peers[r];
        bool reads = !gr_inbox_is_full(&m->wire.inboxes[r]);

        m->polls[n++] = (struct pollfd){ .fd = p->control,
                                         .events = (short)(POLLIN | (p->n_out ? POLLOUT : 0)) };
        for (int i = 0; i < m->n_streams; i++) {
            mesh_stream *s = &p->streams[i];
            bool in = (reads || s->stream.in_at) && !gr_stream_is_held(&s->stream);
            bool out = !atom32_get(&s->is_lent) && s->stream.first && s->is_full;
            short events = (short)((in ? POLLIN : 0) | (out ? POLLOUT : 0));

            /* Nothing wanted: not even a hang-up, which would wake at once, again and again. */
            m->polls[n++] = (struct pollfd){ .fd = events ? s->fd : -1, .events = events };
        }
    }
    return n;
}

static gr_status check_closed(mesh *m, int rank)
{
    mesh_peer *p = &m->peers[rank];
    char name[MESH_NAME];

    if (!p->closed_ns || p->left || gr_now_ns() - p->closed_ns < GRACE_NS)
        return GR_OK;
    return gr_fail(GR_ERR_PEER, "%s lost one of its connections",
                   mesh_name(m, rank, name, sizeof(name)));
}

static gr_status mesh_move(gr_wire *w, bool *moved)
{
    mesh *m = (mesh *)w;
    int n = list_polls(m), at = 0;
    uint32_t n_news = atom32_get(&m->n_news);

    *moved = *moved || n_news != m->n_news_seen;
    m->n_news_seen = n_news;
    if (poll(m->polls, (nfds_t)n, 0) < 0 && errno != EINTR)
        return gr_fail(GR_ERR_IO, "poll: %s", strerror(errno));
    for (int k = 1; k < w->size; k++) { /* not all to the same rank first */
        int r = (w->rank + k) % w->size;
        mesh_peer *p = &m->peers[r];

        if (m->polls[at++].revents)
            GR_TRY(mesh_control_move(m, r, moved));
        for (int i = 0; i < (p->out_ring ? 1 : m->n_streams); i++) /* rings are one stream */
            GR_TRY(move_stream(m, &p->streams[i],
                               p->streams[i].fd >= 0 ? m->polls[at + i].revents : (short)0, moved));
        at += m->n_streams;
        GR_TRY(check_closed(m, r));
    }
    return GR_OK;
}

void mesh_wake_by(atom32 *is_asleep, int fd)
{
    uint64_t one = 1;

    if (atom32_claim(is_asleep, 1, 0))
        GR_BUG_IF(write(fd, &one, sizeof(one)) < 0 && errno != EAGAIN);
}

void mesh_drain(int fd)
{
    uint64_t n;

    GR_BUG_IF(read(fd, &n, sizeof(n)) < 0 && errno != EAGAIN && errno != EINTR);
}

void mesh_wake(gr_wire *w)
{
    mesh *m = (mesh *)w;

    atom32_add(&m->n_news, 1);
    mesh_wake_by(&m->is_asleep, m->wake_fd);
}

static gr_status mesh_sleep(gr_wire *w, int ms)
{
    mesh *m = (mesh *)w;
    bool is_ready = false;
    int n, rc;

    mesh_sleeps(m, true);
    atom32_set(&m->is_asleep, 1);
    is_ready = atom32_get(&m->n_news) != m->n_news_seen;
    for (int r = 0; r < w->size; r++)
        is_ready = is_ready || mesh_ring_is_ready(&m->peers[r]);
    n = list_polls(m);
    m->polls[n++] = (struct pollfd){ .fd = m->wake_fd, .events = POLLIN };
    rc = poll(m->polls, (nfds_t)n, is_ready ? 0 : ms);
    mesh_sleeps(m, false);
    atom32_set(&m->is_asleep, 0);
    if (rc > 0 && m->polls[n - 1].revents)
        mesh_drain(m->wake_fd);
    if (rc < 0 && errno != EINTR)
        return gr_fail(GR_ERR_IO, "poll: %s", strerror(errno));
    return GR_OK;
}

/* A connection that is closed while bytes are on their way loses them as soon as the other
 * side says anything: the system then answers with a reset. So they are waited for. */
static void mesh_settle(gr_wire *w, int ms)
{
    mesh *m = (mesh *)w;
    gr_deadline d = gr_deadline_in_ms(ms);
    const struct timespec nap = { .tv_nsec = NAP_NS };

    for (int r = 0; r < w->size; r++) {
        bool moved = false;

        if (r == w->rank)
            continue;
        /* Who has left needs nothing any more. */
        while (!m->peers[r].left && mesh_has_unsent(&m->peers[r]) && !gr_deadline_passed(d) &&
               mesh_control_move(m, r, &moved) == GR_OK)
            nanosleep(&nap, NULL);
    }
}

/* Has the sender come to the end of what it writes there? */
static bool is_written(const mesh_stream *s)
{
    return !atom32_get(&s->is_lent) || atom32_get(&s->out_error);
}

/* Streams end behind their last byte, wherever BYE was then. A peer that has everything may be
 * gone before the sender has noted that its last message went. */
static bool mesh_is_over(const gr_wire *w, int peer)
{
    const mesh *m = (const mesh *)w;
    const mesh_peer *p = &m->peers[peer];

    if (p->in_ring)
        return atom64_get(&p->in_ring->tail) == atom64_get(&p->in_ring->head);
    for (int i = 0; i < m->n_streams; i++)
        if (p->streams[i].fd >= 0 || !is_written(&p->streams[i]))
            return false;
    return true;
}

static void mesh_peer_text(gr_wire *w, int peer, char *text, size_t n_bytes)
{
    const mesh_card *c = &((mesh *)w)->peers[peer].card;

    snprintf(text, n_bytes, "process %d on '%.*s'", (int)c->pid, MESH_HOST - 1, c->host);
}

static void mesh_describe(const gr_wire *w, gr_text *text)
{
    const mesh *m = (const mesh *)w;

    gr_text_addf(text, "TCP from %s, %d stream%s to each rank%s\n", m->address, m->n_streams,
                 gr_plural(m->n_streams),
                 m->has_rings ? "; rings of shared memory to ranks of the same host" : "");
    if (w->n_lanes > 1)
        gr_text_addf(text, "long calls on %d lanes, each with a thread and streams of its own\n",
                     w->n_lanes);
    if (m->sender || m->wants_sender)
        gr_text_addf(text, "a thread of its own writes messages over %zu KiB\n", SMALL_BYTES >> 10);
    if (m->hosts.n > 1)
        gr_text_addf(text, "%d hosts; this is number %d\n", m->hosts.n, m->hosts.here);
}

static void mesh_halt(gr_wire *w)
{
    mesh *m = (mesh *)w;

    m->is_halted = true;
    mesh_sender_halt(m);
}

static void close_stream(mesh_stream *s)
{
    if (s->fd >= 0)
        close(s->fd);
    if (s->shut_fd >= 0)
        close(s->shut_fd);
}

void mesh_destroy(gr_wire *w)
{
    mesh *m = (mesh *)w;

    if (!m)
        return;
    mesh_halt(w);
    mesh_sender_end(m);
    for (int r = 0; r < w->size && m->peers; r++) {
        mesh_peer *p = &m->peers[r];
        bool moved = false;

        if (p->control >= 0 && w->user.frame)
            GR_IGNORE(mesh_control_move(m, r, &moved)); /* unread bytes would reset it */
        if (p->control >= 0)
            close(p->control);
        for (int i = 0; i < MESH_STREAMS; i++)
            close_stream(&p->streams[i]);
        shm_segment_close(&p->shelf);
    }
    if (m->wake_fd >= 0)
        close(m->wake_fd);
    shm_segment_close(&m->shelf);
    gr_inboxes_destroy(w->inboxes, w->size);
    gr_free(m->host_first);
    gr_free(m->polls);
    gr_free(m->peers);
    gr_free(m);
}

static const gr_wire_ops mesh_ops = {
    .name = "mesh",
    .send = mesh_send,
    .recv = mesh_recv,
    .move = mesh_move,
    .sleep = mesh_sleep,
    .wake = mesh_wake,
    .tell = mesh_tell,
    .settle = mesh_settle,
    .is_over = mesh_is_over,
    .peer_text = mesh_peer_text,
    .silent_ms = mesh_silent_ms,
    .describe = mesh_describe,
    .halt = mesh_halt,
    .destroy = mesh_destroy,
};

gr_status mesh_create(mesh **out, const gr_meet *meet)
{
    size_t n = (size_t)meet->size;
    mesh *m = (mesh *)gr_calloc(1, sizeof(*m));

    if (!m)
        return GR_ERR_NOMEM;
    m->wire = (gr_wire){
        .ops = &mesh_ops, .rank = meet->rank, .size = meet->size, .is_threads = meet->is_threads
    };
    m->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    m->shelf = (shm_segment)SHM_SEGMENT_NONE;
    m->peers = (mesh_peer *)gr_calloc(n, sizeof(*m->peers));
    m->polls = (struct pollfd *)gr_calloc(n * (MESH_STREAMS + 1), sizeof(*m->polls));
    for (size_t r = 0; r < n && m->peers; r++) {
        m->peers[r].control = -1;
        m->peers[r].shelf = (shm_segment)SHM_SEGMENT_NONE;
        for (int i = 0; i < MESH_STREAMS; i++)
            m->peers[r].streams[i].fd = m->peers[r].streams[i].shut_fd = -1;
        for (int i = 0; i < MESH_STREAMS; i++) {
            m->peers[r].streams[i].mesh = m;
            m->peers[r].streams[i].peer = (int)r;
        }
    }
    if (!m->peers || !m->polls || gr_inboxes_create(&m->wire.inboxes, meet->size) != GR_OK) {
        mesh_destroy(&m->wire);
        return GR_ERR_NOMEM;
    }
    m->wire.address = m->address;
    if (m->wake_fd < 0) {
        gr_status st = gr_fail(GR_ERR_IO, "eventfd: %s", strerror(errno));

        mesh_destroy(&m->wire);
        return st;
    }
    *out = m;
    return GR_OK;
}

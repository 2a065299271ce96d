/* Control connections: small things that must not wait behind data. */
#include "comm/tcp/mesh.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* First probe after 3 s of silence, then every 2 s, three times: 9 s. */
#define IDLE_S     3
#define INTERVAL_S 2
#define N_PROBES   3

void mesh_control_prepare(int fd)
{
    int on = 1, idle = IDLE_S, interval = INTERVAL_S, n = N_PROBES;
    unsigned timeout_ms = (IDLE_S + INTERVAL_S * N_PROBES) * 1000;

    /* Refused only by sockets that are not TCP: then there is no cable to be cut. */
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n, sizeof(n));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

static bool flush(mesh_peer *p)
{
    ssize_t n;

    if (p->n_out == 0 || p->control < 0)
        return false;
    n = send(p->control, p->out, p->n_out, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0)
        return false; /* what is wrong shows when it is read */
    memmove(p->out, p->out + n, p->n_out - (size_t)n);
    p->n_out -= (size_t)n;
    return true;
}

void mesh_tell(gr_wire *w, int peer, const gr_head *f, const char *text)
{
    mesh_peer *p = &((mesh *)w)->peers[peer];
    size_t n = strnlen(text, GR_HEAD_TEXT - 1);
    gr_head head = *f;

    head.n_bytes = n;
    if (p->control < 0 || p->n_out + GR_HEAD_BYTES + n > MESH_CONTROL)
        return; /* it reads nothing any more: then it is late, and others say so */
    gr_head_put(p->out + p->n_out, &head);
    memcpy(p->out + p->n_out + GR_HEAD_BYTES, text, n);
    p->n_out += GR_HEAD_BYTES + n;
    flush(p);
}

static gr_status lost(mesh *m, int peer, int error)
{
    char name[MESH_NAME];

    mesh_name(m, peer, name, sizeof(name));
    close(m->peers[peer].control);
    m->peers[peer].control = -1;
    if (m->peers[peer].left)
        return GR_OK;
    if (error == 0 || error == ECONNRESET || error == EPIPE)
        return gr_fail(GR_ERR_PEER, "%s died: its connection ended", name);
    return gr_fail(GR_ERR_PEER, "%s is lost: its host has not answered for %d s (%s)", name,
                   IDLE_S + INTERVAL_S * N_PROBES, strerror(error));
}

/* One message, complete in p->in. */
static gr_status take(mesh *m, int peer, const gr_head *f)
{
    mesh_peer *p = &m->peers[peer];
    char text[GR_HEAD_TEXT + 1];

    memcpy(text, p->in + GR_HEAD_BYTES, f->n_bytes);
    text[f->n_bytes] = '\0';
    if (f->type == GR_HEAD_BYE)
        p->left = true;
    if (f->type == GR_HEAD_WAKE)
        return GR_OK;
    return m->wire.user.frame(m->wire.user.arg, peer, f, text);
}

gr_status mesh_control_move(mesh *m, int peer, bool *moved)
{
    mesh_peer *p = &m->peers[peer];

    *moved = flush(p) || *moved;
    while (p->control >= 0) {
        size_t want = GR_HEAD_BYTES;
        gr_head f;
        ssize_t n;

        if (p->in_at >= GR_HEAD_BYTES) {
            GR_TRY(gr_head_get(p->in, &f));
            if (f.type == GR_HEAD_MESSAGE)
                return gr_fail(GR_ERR_FORMAT, "rank %d sent data where none belongs", peer);
            want += f.n_bytes;
        }
        if (p->in_at == want) {
            p->in_at = 0;
            GR_TRY(take(m, peer, &f));
            continue;
        }
        n = recv(p->control, p->in + p->in_at, want - p->in_at, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return GR_OK;
        if (n <= 0)
            return lost(m, peer, n == 0 ? 0 : errno);
        *moved = true;
        p->in_at += (size_t)n;
    }
    return GR_OK;
}

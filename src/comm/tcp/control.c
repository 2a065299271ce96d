/* Control connections: small things that must not wait behind data. */
#include "comm/tcp/mesh.h"

#include "net/interface.h"
#include "net/socket.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* The control connection tells of a silent host. */
void mesh_endure(const mesh *m, const mesh_peer *p)
{
    gr_socket_endure(p->control, m->wire.silence_ms, false);
    for (int i = 0; i < m->n_streams; i++)
        if (p->streams[i].fd >= 0)
            gr_socket_endure(p->streams[i].fd, m->wire.silence_ms, true);
}

/* Something is on its way, or was asked, and nothing has come back since. */
int mesh_silent_ms(const gr_wire *w, int peer)
{
    const mesh_peer *p = &((const mesh *)w)->peers[peer];
    struct tcp_info info = { 0 };
    socklen_t n = sizeof(info);

    if (p->control < 0 || getsockopt(p->control, IPPROTO_TCP, TCP_INFO, &info, &n) != 0 ||
        (info.tcpi_unacked == 0 && info.tcpi_probes == 0))
        return 0;
    return (int)info.tcpi_last_ack_recv;
}

static bool is_unsent(int fd)
{
    int n = 0;

    return fd >= 0 && ioctl(fd, SIOCOUTQ, &n) == 0 && n > 0;
}

bool mesh_has_unsent(const mesh_peer *p)
{
    char mine[GR_ADDRESS_TEXT], theirs[GR_ADDRESS_TEXT];
    bool found = p->n_out > 0 || is_unsent(p->control);

    if (p->control < 0)
        return false;
    for (int i = 0; i < MESH_STREAMS; i++)
        found = found || is_unsent(p->streams[i].fd);
    if (!found)
        return false;
    gr_address_of_self(p->control, mine);
    gr_address_of_peer(p->control, theirs);
    return strcmp(mine, theirs) != 0;
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
    GR_TRY(mesh_read_rest(m, peer));
    if (error == 0 || error == ECONNRESET || error == EPIPE)
        return gr_fail(GR_ERR_PEER, "%s died: its connection ended", name);
    return gr_fail(GR_ERR_PEER, "%s is lost: its host has not answered for %d s (%s)", name,
                   m->wire.silence_ms / 1000, strerror(error));
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

/*
 * Connecting all pairs. Every rank listens, then
 *
 *     connects to all lower ranks and greets      needs nobody's attention: the system
 *                                                 of the other side completes connections
 *     accepts all higher ranks, checks, answers
 *     reads the lower ranks' answers
 *
 * so no order of starting can block. A connection that says nothing, or the wrong thing, is
 * refused with a line in the log and does not hold up the others.
 */
#include "comm/tcp/mesh.h"

#include "base/log.h"
#include "net/interface.h"
#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_GUESTS  64 /* connections that have not greeted yet */
#define GREETING_NS 5000000000
#define SLICE_MS    100

static const char welcome[8] = "GRok\n\0\0";

typedef struct guest {
    int fd;
    size_t n_bytes;
    uint8_t bytes[MESH_HELLO];
    int64_t since_ns;
} guest;

typedef struct joining {
    mesh *m;
    mesh_hello mine; /* rank, size and token as expected of others */
    gr_deadline deadline;
    int listener;
    int n_missing; /* connections of higher ranks */
    guest guests[MAX_GUESTS];
    int n_guests;
} joining;

static int *place_of(mesh_peer *p, int stream)
{
    return stream < 0 ? &p->control : &p->streams[stream].fd;
}

/* Data streams of a pair: none when it has rings. */
static int n_data(const mesh *m, int rank)
{
    return m->peers[rank].shelf.mem ? 0 : m->n_streams;
}

static gr_status call_rank(joining *j, int rank)
{
    mesh_peer *p = &j->m->peers[rank];
    uint8_t bytes[MESH_HELLO];
    char name[MESH_NAME];
    gr_status st = GR_OK;

    for (int i = -1; i < n_data(j->m, rank) && st == GR_OK; i++) {
        mesh_hello h = j->mine;

        h.stream = i;
        mesh_hello_put(bytes, &h);
        st = (mesh_is_near(j->m, rank) ? gr_socket_connect_near : gr_socket_connect)(
            place_of(p, i), p->card.address, p->card.port, j->deadline);
        if (st == GR_OK)
            st = gr_socket_send(*place_of(p, i), bytes, sizeof(bytes), j->deadline);
    }
    return gr_wrap(st, "to %s", mesh_name(j->m, rank, name, sizeof(name)));
}

static void refuse(guest *g, const char *why)
{
    char from[GR_ADDRESS_TEXT];

    gr_address_of_peer(g->fd, from);
    gr_log(COMM, WARN, "refused a connection from %s: %s", from, why);
    close(g->fd);
    g->fd = -1;
}

/* The greeting is complete: the guest becomes a stream, or goes. */
static gr_status admit(joining *j, guest *g)
{
    mesh_hello h;
    int *place;

    if (mesh_hello_get(g->bytes, &h) != GR_OK ||
        mesh_hello_check(&h, &j->mine,
                         n_data(j->m, h.rank > 0 && h.rank < j->mine.size ? h.rank : 0)) != GR_OK) {
        refuse(g, gr_error_message());
        return GR_OK;
    }
    place = place_of(&j->m->peers[h.rank], h.stream);
    if (*place >= 0) {
        refuse(g, "this rank is connected already");
        return GR_OK;
    }
    if (!mesh_is_near(j->m, h.rank))
        gr_socket_far(g->fd);
    *place = g->fd;
    g->fd = -1;
    j->n_missing--;
    return gr_socket_send(*place, welcome, sizeof(welcome), j->deadline);
}

static gr_status hear(joining *j, guest *g)
{
    ssize_t n = recv(g->fd, g->bytes + g->n_bytes, MESH_HELLO - g->n_bytes, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        refuse(g, "it left without a word");
        return GR_OK;
    }
    g->n_bytes += n > 0 ? (size_t)n : 0;
    if (g->n_bytes == MESH_HELLO)
        return admit(j, g);
    if (gr_now_ns() - g->since_ns > GREETING_NS)
        refuse(g, "it said nothing for 5 s");
    return GR_OK;
}

static void take_guest(joining *j)
{
    int fd = accept(j->listener, NULL, NULL);

    if (fd < 0)
        return;
    if (gr_socket_prepare(fd) != GR_OK) {
        close(fd);
        return;
    }
    j->guests[j->n_guests++] = (guest){ .fd = fd, .since_ns = gr_now_ns() };
}

static gr_status who_is_missing(joining *j)
{
    char name[MESH_NAME];

    for (int r = j->mine.rank + 1; r < j->mine.size; r++)
        for (int i = -1; i < n_data(j->m, r); i++)
            if (*place_of(&j->m->peers[r], i) < 0)
                return gr_fail(GR_ERR_TIMEOUT,
                               "%s has not connected to %s port %d: can its host reach this one?",
                               mesh_name(j->m, r, name, sizeof(name)),
                               j->m->peers[j->mine.rank].card.address,
                               j->m->peers[j->mine.rank].card.port);
    return GR_OK;
}

static gr_status accept_higher(joining *j)
{
    struct pollfd p[MAX_GUESTS + 1];

    for (int r = j->mine.rank + 1; r < j->mine.size; r++)
        j->n_missing += 1 + n_data(j->m, r);
    while (j->n_missing > 0) {
        int n = 0, left = gr_deadline_left_ms(j->deadline);

        if (left == 0)
            return who_is_missing(j);
        for (int i = 0; i < j->n_guests; i++)
            p[n++] = (struct pollfd){ .fd = j->guests[i].fd, .events = POLLIN };
        p[n++] =
            (struct pollfd){ .fd = j->n_guests < MAX_GUESTS ? j->listener : -1, .events = POLLIN };
        if (poll(p, (nfds_t)n, left < SLICE_MS ? left : SLICE_MS) < 0 && errno != EINTR)
            return gr_fail(GR_ERR_IO, "poll: %s", strerror(errno));
        for (int i = 0; i < j->n_guests; i++)
            GR_TRY(hear(j, &j->guests[i]));
        for (int i = j->n_guests; i-- > 0;)
            if (j->guests[i].fd < 0)
                j->guests[i] = j->guests[--j->n_guests];
        if (p[n - 1].revents)
            take_guest(j);
    }
    return GR_OK;
}

static gr_status read_answers(joining *j)
{
    char answer[sizeof(welcome)], name[MESH_NAME];

    for (int r = 0; r < j->mine.rank; r++)
        for (int i = -1; i < n_data(j->m, r); i++) {
            gr_status st =
                gr_socket_recv(*place_of(&j->m->peers[r], i), answer, sizeof(answer), j->deadline);

            if (st == GR_OK && memcmp(answer, welcome, sizeof(answer)) != 0)
                st = gr_fail(GR_ERR_FORMAT, "a wrong answer");
            GR_TRY(
                gr_wrap(st, "%s did not accept this rank", mesh_name(j->m, r, name, sizeof(name))));
        }
    return GR_OK;
}

gr_status mesh_connect(mesh *m, int listener, const uint8_t *token, gr_deadline d)
{
    joining j = { .m = m,
                  .mine = { .rank = m->wire.rank, .size = m->wire.size },
                  .deadline = d,
                  .listener = listener };
    gr_status st = GR_OK;

    memcpy(j.mine.token, token, MESH_TOKEN);
    for (int r = 0; r < m->wire.rank && st == GR_OK; r++)
        st = call_rank(&j, r);
    if (st == GR_OK)
        st = accept_higher(&j);
    if (st == GR_OK)
        st = read_answers(&j);
    for (int i = 0; i < j.n_guests; i++)
        if (j.guests[i].fd >= 0)
            close(j.guests[i].fd);
    close(listener);
    for (int r = 0; r < m->wire.size && st == GR_OK; r++)
        if (r != m->wire.rank)
            mesh_endure(m, &m->peers[r]);
    return st;
}

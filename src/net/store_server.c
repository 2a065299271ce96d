/*
 * One thread, one poll() over the listening socket, a stop event and all clients. It has
 * all signals blocked, so that they reach the thread that handles them.
 *
 * A client that breaks the protocol loses its connection and nothing else happens.
 */
#include "net/store_server.h"

#include "base/alloc.h"
#include "base/log.h"
#include "net/socket.h"
#include "net/store_hub.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES  ((size_t)64 << 10)
#define MAX_CLIENTS 8192
#define PAUSE_MS    50 /* without descriptors for new clients, until one may be free */

typedef struct client {
    int fd;
    gr_store_session *session;
} client;

struct gr_store_server {
    int listen_fd, stop_fd;
    int port; /* fixed at creation */
    pthread_t thread;
    bool has_thread;
    atomic_int n_open; /* clients, for other threads */
    /* only the server's thread, from start() on */
    gr_store_hub *hub;
    client *clients;
    struct pollfd *polls; /* two fixed ones, then one per client */
    int n_clients, cap_clients, cap_polls;
    bool is_full; /* the last accept found no descriptor */
    uint8_t *buffer;
};

int gr_store_server_port(const gr_store_server *s)
{
    return s->port;
}

gr_status gr_store_server_create(gr_store_server **out, const char *host, int port)
{
    gr_store_server *s = (gr_store_server *)gr_calloc(1, sizeof(*s));
    gr_status st;

    if (!s)
        return GR_ERR_NOMEM;
    s->listen_fd = -1;
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->buffer = (uint8_t *)gr_malloc(READ_BYTES);
    st = s->buffer ? GR_OK : GR_ERR_NOMEM;
    if (st == GR_OK && s->stop_fd < 0)
        st = gr_fail(GR_ERR_IO, "eventfd: %s", strerror(errno));
    if (st == GR_OK)
        st = gr_store_hub_create(&s->hub);
    if (st == GR_OK)
        st = gr_socket_listen(&s->listen_fd, host, port, &s->port);
    if (st != GR_OK) {
        gr_store_server_destroy(s);
        return gr_wrap(st, "key-value store");
    }
    *out = s;
    return GR_OK;
}

static void drop_client(gr_store_server *s, int i)
{
    close(s->clients[i].fd);
    gr_store_session_close(s->clients[i].session);
    s->clients[i] = s->clients[--s->n_clients];
    atomic_store(&s->n_open, s->n_clients);
}

static gr_status add_client(gr_store_server *s, int fd)
{
    client c = { .fd = fd };

    if (s->n_clients == MAX_CLIENTS)
        return gr_fail(GR_ERR_IO, "more than %d clients", MAX_CLIENTS);
    GR_TRY(gr_socket_prepare(fd));
    GR_TRY(gr_grow((void **)&s->clients, &s->cap_clients, s->n_clients + 1, sizeof(client)));
    GR_TRY(gr_grow((void **)&s->polls, &s->cap_polls, s->n_clients + 3, sizeof(struct pollfd)));
    GR_TRY(gr_store_session_open(&c.session, s->hub));
    s->clients[s->n_clients++] = c;
    atomic_store(&s->n_open, s->n_clients);
    return GR_OK;
}

static void accept_clients(gr_store_server *s)
{
    int fd;

    while ((fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        if (add_client(s, fd) != GR_OK) {
            gr_log(NET, WARN, "store: client refused: %s", gr_error_message());
            close(fd);
        }
    s->is_full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
}

/* Sends what the system takes now. */
static gr_status flush(client *c)
{
    const uint8_t *mem;
    size_t n_bytes;

    while ((mem = gr_store_session_pending(c->session, &n_bytes)) != NULL) {
        ssize_t n = send(c->fd, mem, n_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return GR_OK;
        if (n < 0 && errno != EINTR)
            return gr_fail(GR_ERR_IO, "send: %s", strerror(errno));
        GR_TRY(gr_store_session_sent(c->session, n > 0 ? (size_t)n : 0));
    }
    return GR_OK;
}

/* *gone: the client closed its side. */
static gr_status receive(gr_store_server *s, client *c, bool *gone)
{
    ssize_t n = recv(c->fd, s->buffer, READ_BYTES, MSG_DONTWAIT);

    *gone = n == 0 || (n < 0 && errno == ECONNRESET);
    if (n > 0)
        return gr_store_session_feed(c->session, s->buffer, (size_t)n);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && !*gone)
        return gr_fail(GR_ERR_IO, "receive: %s", strerror(errno));
    return GR_OK;
}

static int fill_polls(gr_store_server *s)
{
    s->polls[0] = (struct pollfd){ .fd = s->stop_fd, .events = POLLIN };
    s->polls[1] = (struct pollfd){ .fd = s->is_full ? -1 : s->listen_fd, .events = POLLIN };
    for (int i = 0; i < s->n_clients; i++) {
        const gr_store_session *session = s->clients[i].session;
        size_t pending;

        (void)gr_store_session_pending(session, &pending);
        s->polls[2 + i] =
            (struct pollfd){ .fd = s->clients[i].fd, .events = (short)(pending ? POLLOUT : 0) };
        if (gr_store_session_wants_input(session))
            s->polls[2 + i].events |= POLLIN;
    }
    return 2 + s->n_clients;
}

/* Backwards, because dropping a client moves the last one into its place. A request may
 * have answered others, so everybody is flushed after all have been read. */
static void serve_clients(gr_store_server *s)
{
    for (int i = s->n_clients - 1; i >= 0; i--) {
        bool gone = false;
        gr_status st = GR_OK;

        if (s->polls[2 + i].revents & (POLLIN | POLLHUP | POLLERR))
            st = receive(s, &s->clients[i], &gone);
        if (st != GR_OK)
            gr_log(NET, WARN, "store: connection closed: %s", gr_error_message());
        if (st != GR_OK || gone)
            drop_client(s, i);
    }
    for (int i = s->n_clients - 1; i >= 0; i--)
        if (flush(&s->clients[i]) != GR_OK) {
            gr_log(NET, DEBUG, "store: connection closed: %s", gr_error_message());
            drop_client(s, i);
        }
}

static void *serve(void *arg)
{
    gr_store_server *s = (gr_store_server *)arg;

    for (;;) {
        int n = fill_polls(s);

        if (poll(s->polls, (nfds_t)n, s->is_full ? PAUSE_MS : -1) < 0 && errno != EINTR) {
            gr_log(NET, ERROR, "store: poll: %s", strerror(errno));
            return NULL;
        }
        if (s->polls[0].revents)
            return NULL;
        serve_clients(s);
        if (s->polls[1].revents || s->is_full)
            accept_clients(s);
    }
}

gr_status gr_store_server_start(gr_store_server *s)
{
    sigset_t all, old;
    int rc;

    GR_TRY(gr_grow((void **)&s->polls, &s->cap_polls, 2, sizeof(struct pollfd)));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&s->thread, NULL, serve, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return gr_fail(GR_ERR_IO, "key-value store: no thread: %s", strerror(rc));
    s->has_thread = true;
    return GR_OK;
}

void gr_store_server_drain(gr_store_server *s, gr_deadline d)
{
    const struct timespec pause = { .tv_nsec = 2000000 };

    while (s->has_thread && atomic_load(&s->n_open) > 0 && !gr_deadline_passed(d))
        nanosleep(&pause, NULL);
}

void gr_store_server_destroy(gr_store_server *s)
{
    uint64_t one = 1;

    if (!s)
        return;
    if (s->has_thread) {
        ssize_t n = write(s->stop_fd, &one, sizeof(one));

        GR_BUG_IF(n != (ssize_t)sizeof(one)); /* an event descriptor takes 2^64 - 2 of them */
        pthread_join(s->thread, NULL);
    }
    while (s->n_clients > 0)
        drop_client(s, s->n_clients - 1);
    gr_store_hub_destroy(s->hub);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->stop_fd >= 0)
        close(s->stop_fd);
    gr_free(s->clients);
    gr_free(s->polls);
    gr_free(s->buffer);
    gr_free(s);
}

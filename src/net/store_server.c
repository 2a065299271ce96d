/*
 * One thread, one poll() over the listening socket, a wake-up event and all clients. It has
 * all signals blocked, so that they reach the thread that handles them.
 *
 * A client that breaks the protocol loses its connection and nothing else happens.
 */
#include "net/store_server.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "net/interface.h"
#include "net/socket.h"
#include "net/store_hub.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
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
    gr_store_session *session; /* NULL: the first byte has not come */
} client;

typedef struct allowed {
    char address[GR_ADDRESS_TEXT];
    int n; /* how often it was said */
} allowed;

struct gr_store_server {
    int listen_fd, wake_fd;
    int port; /* fixed at creation */
    bool is_guarded;
    void (*other)(void *arg, int fd);
    void *arg;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* of what follows, up to the blank line; nothing else is taken in it */
    pthread_cond_t done;
    bool stops, clears; /* what the thread is told when woken */
    bool is_over;       /* the thread does not listen any more */
    allowed *list;
    int n_list, cap_list;

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
    gr_store_server_config config = { .host = host, .port = port };

    return gr_store_server_create_with(out, &config);
}

gr_status gr_store_server_create_with(gr_store_server **out, const gr_store_server_config *config)
{
    gr_store_server *s = (gr_store_server *)gr_calloc(1, sizeof(*s));
    gr_status st;

    if (!s)
        return GR_ERR_NOMEM;
    s->listen_fd = -1;
    s->is_guarded = config->is_guarded;
    s->other = config->other;
    s->arg = config->arg;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->done, NULL);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->buffer = (uint8_t *)gr_malloc(READ_BYTES);
    st = s->buffer ? GR_OK : GR_ERR_NOMEM;
    if (st == GR_OK && s->wake_fd < 0)
        st = gr_fail(GR_ERR_IO, "eventfd: %s", strerror(errno));
    if (st == GR_OK)
        st = gr_store_hub_create(&s->hub);
    if (st == GR_OK)
        st = gr_port_listen(&s->listen_fd, config->host, config->port, config->ports, &s->port);
    if (st != GR_OK) {
        gr_store_server_destroy(s);
        return gr_wrap(st, "key-value store");
    }
    *out = s;
    return GR_OK;
}

/* ---- who may come ---- */

gr_status gr_store_server_allow(gr_store_server *s, const char *address)
{
    gr_status st = GR_OK;
    int i = 0;

    pthread_mutex_lock(&s->lock);
    while (i < s->n_list && strcmp(s->list[i].address, address) != 0)
        i++;
    if (i == s->n_list)
        st = gr_grow((void **)&s->list, &s->cap_list, i + 1, sizeof(allowed));
    if (st == GR_OK && i == s->n_list) {
        s->list[i] = (allowed){ .n = 0 };
        snprintf(s->list[i].address, sizeof(s->list[i].address), "%s", address);
        s->n_list++;
    }
    if (st == GR_OK)
        s->list[i].n++;
    pthread_mutex_unlock(&s->lock);
    return st;
}

void gr_store_server_forbid(gr_store_server *s, const char *address)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_list; i++)
        if (strcmp(s->list[i].address, address) == 0 && --s->list[i].n == 0) {
            s->list[i] = s->list[--s->n_list];
            break;
        }
    pthread_mutex_unlock(&s->lock);
}

/* A connection of this host to itself has the same address on both sides. */
static bool may_use(gr_store_server *s, int fd)
{
    char peer[GR_ADDRESS_TEXT], self[GR_ADDRESS_TEXT];
    bool ok;

    if (!s->is_guarded)
        return true;
    gr_address_of_peer(fd, peer);
    gr_address_of_self(fd, self);
    ok = strcmp(peer, self) == 0;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_list && !ok; i++)
        ok = strcmp(s->list[i].address, peer) == 0;
    pthread_mutex_unlock(&s->lock);
    if (!ok)
        gr_log(NET, WARN, "store: a connection from %s is refused: no host of this job", peer);
    return ok;
}

static void forget_client(gr_store_server *s, int i)
{
    gr_store_session_close(s->clients[i].session);
    s->clients[i] = s->clients[--s->n_clients];
    atomic_store(&s->n_open, s->n_clients);
}

static void drop_client(gr_store_server *s, int i)
{
    close(s->clients[i].fd);
    forget_client(s, i);
}

/* The first byte says which protocol it is. False: the client is none of ours any more. */
static bool greet(gr_store_server *s, int i)
{
    client *c = &s->clients[i];
    char first;
    ssize_t n = recv(c->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return true;
    if (n > 0 && s->other && first == GR_STORE_OTHER) {
        int fd = c->fd;

        forget_client(s, i);
        s->other(s->arg, fd);
        return false;
    }
    if (n > 0 && may_use(s, c->fd) && gr_store_session_open(&c->session, s->hub) == GR_OK)
        return true;
    drop_client(s, i);
    return false;
}

static gr_status add_client(gr_store_server *s, int fd)
{
    if (s->n_clients == MAX_CLIENTS)
        return gr_fail(GR_ERR_IO, "more than %d clients", MAX_CLIENTS);
    GR_TRY(gr_socket_prepare(fd));
    GR_TRY(gr_grow((void **)&s->clients, &s->cap_clients, s->n_clients + 1, sizeof(client)));
    GR_TRY(gr_grow((void **)&s->polls, &s->cap_polls, s->n_clients + 3, sizeof(struct pollfd)));
    s->clients[s->n_clients++] = (client){ .fd = fd };
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
    s->polls[0] = (struct pollfd){ .fd = s->wake_fd, .events = POLLIN };
    s->polls[1] = (struct pollfd){ .fd = s->is_full ? -1 : s->listen_fd, .events = POLLIN };
    for (int i = 0; i < s->n_clients; i++) {
        const gr_store_session *session = s->clients[i].session;
        size_t pending;

        if (!session) {
            s->polls[2 + i] = (struct pollfd){ .fd = s->clients[i].fd, .events = POLLIN };
            continue;
        }
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

        if (!(s->polls[2 + i].revents & (POLLIN | POLLHUP | POLLERR)))
            continue;
        if (!s->clients[i].session && !greet(s, i))
            continue;
        if (s->clients[i].session)
            st = receive(s, &s->clients[i], &gone);
        if (st != GR_OK)
            gr_log(NET, WARN, "store: connection closed: %s", gr_error_message());
        if (st != GR_OK || gone)
            drop_client(s, i);
    }
    for (int i = s->n_clients - 1; i >= 0; i--)
        if (s->clients[i].session && flush(&s->clients[i]) != GR_OK) {
            gr_log(NET, DEBUG, "store: connection closed: %s", gr_error_message());
            drop_client(s, i);
        }
}

static void clear(gr_store_server *s)
{
    gr_store_hub *fresh;

    while (s->n_clients > 0)
        drop_client(s, s->n_clients - 1);
    /* Without memory the old keys stay; they have other names than a restarted job's. */
    if (gr_store_hub_create(&fresh) != GR_OK)
        return;
    gr_store_hub_destroy(s->hub);
    s->hub = fresh;
}

/* Woken by another thread; false when that wants us to end. */
static bool obey(gr_store_server *s)
{
    uint64_t n;
    bool go_on;

    (void)!read(s->wake_fd, &n, sizeof(n));
    pthread_mutex_lock(&s->lock);
    go_on = !s->stops;
    if (s->clears)
        clear(s);
    s->clears = false;
    pthread_cond_broadcast(&s->done);
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static void wake(gr_store_server *s)
{
    uint64_t one = 1;
    ssize_t n = write(s->wake_fd, &one, sizeof(one));

    GR_BUG_IF(n != (ssize_t)sizeof(one)); /* an event descriptor takes 2^64 - 2 of them */
}

void gr_store_server_clear(gr_store_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->clears = true;
    wake(s);
    while (s->clears && !s->is_over)
        pthread_cond_wait(&s->done, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void serve_until_told(gr_store_server *s)
{
    for (;;) {
        int n = fill_polls(s);

        if (poll(s->polls, (nfds_t)n, s->is_full ? PAUSE_MS : -1) < 0 && errno != EINTR) {
            gr_log(NET, ERROR, "store: poll: %s", strerror(errno));
            return;
        }
        if (s->polls[0].revents && !obey(s))
            return;
        if (s->polls[0].revents)
            continue;
        serve_clients(s);
        if (s->polls[1].revents || s->is_full)
            accept_clients(s);
    }
}

static void *serve(void *arg)
{
    gr_store_server *s = (gr_store_server *)arg;

    serve_until_told(s);
    pthread_mutex_lock(&s->lock);
    s->is_over = true; /* nobody is to wait for it */
    pthread_cond_broadcast(&s->done);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

gr_status gr_store_server_start(gr_store_server *s)
{
    int rc;

    GR_TRY(gr_grow((void **)&s->polls, &s->cap_polls, 2, sizeof(struct pollfd)));
    rc = gr_thread_start(&s->thread, serve, s);
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
    if (!s)
        return;
    if (s->has_thread) {
        pthread_mutex_lock(&s->lock);
        s->stops = true;
        pthread_mutex_unlock(&s->lock);
        wake(s);
        pthread_join(s->thread, NULL);
    }
    while (s->n_clients > 0)
        drop_client(s, s->n_clients - 1);
    gr_store_hub_destroy(s->hub);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    pthread_cond_destroy(&s->done);
    pthread_mutex_destroy(&s->lock);
    gr_free(s->list);
    gr_free(s->clients);
    gr_free(s->polls);
    gr_free(s->buffer);
    gr_free(s);
}

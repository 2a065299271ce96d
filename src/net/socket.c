/* TCP sockets with deadlines. */
#include "net/socket.h"

#include "base/log.h"
#include "net/ports.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FIRST_PAUSE_MS 2
#define LAST_PAUSE_MS  100
#define TELL_NS        5000000000 /* between two words about a wait */
#define TRY_MS         5000       /* for one address, at most; then it is asked anew */
#define IDLE_S         3          /* of silence before the first probe */
#define INTERVAL_S     1
#define BULK_MS        900000 /* about as long as the system tries by itself */

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* since Linux 6.15; older headers do not have it */
#endif

gr_status gr_socket_prepare(int fd)
{
    int on = 1;

    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        return gr_fail(GR_ERR_IO, "fcntl on a socket: %s", strerror(errno));
    /* Fails only on sockets that are not TCP, and then does not matter. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return GR_OK;
}

static int clamp(int ms, int least, int most)
{
    return ms < least ? least : ms > most ? most : ms;
}

void gr_socket_endure(int fd, int silence_ms, bool is_bulk)
{
    int on = 1, idle = IDLE_S, interval = INTERVAL_S;
    int limit_ms = is_bulk ? clamp(silence_ms, BULK_MS / 2, INT_MAX / 2) * 2 : silence_ms;
    /* Not shorter for long limits: with its own interface down, a system gives up after 15 tries,
     * whatever the limit is. */
    int pause_ms = clamp(silence_ms / 6, 2000, 120000);

    /* Refused only by sockets that are not TCP: then there is no cable to be cut. The last one by
     * older systems, too, which can do without. The limit is that of the probes as well, in place
     * of a number of them. */
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &pause_ms, sizeof(pause_ms));
}

/* *again says whether a later try might work: the name server, or the name, may come. */
static gr_status resolve(struct addrinfo **out, const char *host, int port, int flags, bool *again)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_NUMERICSERV | flags };
    char service[16];
    int rc;

    snprintf(service, sizeof(service), "%d", port);
    rc = getaddrinfo(host, service, &hints, out);
    *again = rc == EAI_AGAIN || rc == EAI_NONAME;
    if (rc != 0)
        return gr_fail(GR_ERR_IO, "cannot resolve '%s': %s", host, gai_strerror(rc));
    return GR_OK;
}

/* A new socket of the address's family; -1 with errno. */
static int open_socket(const struct addrinfo *a)
{
    return socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
}

int gr_socket_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = { .v6 = { 0 } };
    socklen_t len = sizeof(a);

    if (getsockname(fd, &a.any, &len) != 0)
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

/* 0, or -1 with errno. */
static int listen_on(int *fd, const struct addrinfo *a)
{
    int on = 1, off = 0, s = open_socket(a), error;

    if (s < 0)
        return -1;
    /* "::" takes IPv4 too. */
    if (a->ai_family == AF_INET6)
        (void)setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, SOMAXCONN) == 0) {
        *fd = s;
        return 0;
    }
    error = errno;
    close(s);
    errno = error;
    return -1;
}

/* Any address: IPv6 with IPv4 inside where the host has it, else IPv4 alone. */
static int listen_on_any(int *fd, int port)
{
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    struct addrinfo a = { .ai_family = AF_INET6,
                          .ai_socktype = SOCK_STREAM,
                          .ai_addr = (struct sockaddr *)&v6,
                          .ai_addrlen = sizeof(v6) };
    struct addrinfo b = { .ai_family = AF_INET,
                          .ai_socktype = SOCK_STREAM,
                          .ai_addr = (struct sockaddr *)&v4,
                          .ai_addrlen = sizeof(v4) };

    if (listen_on(fd, &a) == 0)
        return 0;
    return errno == EADDRINUSE ? -1 : listen_on(fd, &b);
}

/* As gr_socket_try_listen(); a name that does not resolve sets the message and errno 0. */
static int try_listen(int *fd, const char *host, int port)
{
    struct addrinfo *list;
    int error = 0;
    bool again;

    *fd = -1;
    if (!host)
        return listen_on_any(fd, port);
    if (resolve(&list, host, port, AI_PASSIVE, &again) != GR_OK) {
        errno = 0;
        return -1;
    }
    for (struct addrinfo *a = list; a && *fd < 0; a = a->ai_next)
        if (listen_on(fd, a) != 0)
            error = errno;
    freeaddrinfo(list);
    errno = error;
    return *fd < 0 ? -1 : 0;
}

int gr_socket_try_listen(int *fd, const char *host, int port)
{
    return try_listen(fd, host, port);
}

static gr_status fail_taken(const char *host, int port)
{
    char owner[128];
    int other = gr_port_free();

    if (!gr_port_owner(port, owner, sizeof(owner)))
        snprintf(owner, sizeof(owner), "another program");
    return gr_fail(GR_ERR_IO, "port %d of '%s' is taken by %s; port %d is free", port, host, owner,
                   other);
}

gr_status gr_socket_listen(int *fd, const char *host, int port, int *real_port)
{
    const char *name = host ? host : "this host";

    if (try_listen(fd, host, port) == 0) {
        *real_port = gr_socket_port(*fd);
        return GR_OK;
    }
    switch (errno) {
    case 0: return GR_ERR_IO; /* the message says what did not resolve */
    case EADDRINUSE: return fail_taken(name, port);
    case EADDRNOTAVAIL: return gr_fail(GR_ERR_IO, "'%s' is no address of this host", name);
    default:
        return gr_fail(GR_ERR_IO, "cannot listen on '%s' port %d: %s", name, port, strerror(errno));
    }
}

/* Waits until the socket is ready; GR_ERR_TIMEOUT at the deadline. */
static gr_status wait_for(int fd, short events, gr_deadline d)
{
    for (;;) {
        struct pollfd p = { .fd = fd, .events = events };
        int n = poll(&p, 1, gr_deadline_left_ms(d));

        if (n > 0)
            return GR_OK;
        if (n < 0 && errno != EINTR)
            return gr_fail(GR_ERR_IO, "poll: %s", strerror(errno));
        if (gr_deadline_passed(d))
            return gr_fail(GR_ERR_TIMEOUT, "no answer in time");
    }
}

/* A client that tries a port of its own host before anybody listens there may be given
 * that very port as its own, and then talks to itself. */
static bool is_self(int fd)
{
    struct sockaddr_storage mine = { 0 }, theirs = { 0 };
    socklen_t n = sizeof(mine), m = sizeof(theirs);

    return getsockname(fd, (struct sockaddr *)&mine, &n) == 0 &&
           getpeername(fd, (struct sockaddr *)&theirs, &m) == 0 && n == m &&
           memcmp(&mine, &theirs, n) == 0;
}

/* Refused only by sockets that are not TCP; the system's choice then does. */
void gr_socket_near(int fd)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
}

void gr_socket_far(int fd)
{
    int fresh = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char usual[16] = "";
    socklen_t n = sizeof(usual);

    if (fresh < 0)
        return;
    if (getsockopt(fresh, IPPROTO_TCP, TCP_CONGESTION, usual, &n) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, usual, n);
    close(fresh);
}

/* Where to, and how. */
typedef struct target {
    const char *host;
    int port;
    bool is_near;
    bool *is_refused; /* by the last address that was tried; NULL: nobody asks */
} target;

static gr_status connect_one(int *fd, const struct addrinfo *a, const target *t, gr_deadline d)
{
    int s = open_socket(a);
    gr_status st = GR_OK;
    int error = 0;
    socklen_t len = sizeof(error);

    if (s < 0)
        return gr_fail(GR_ERR_IO, "socket: %s", strerror(errno));
    if (t->is_near)
        gr_socket_near(s);
    if (connect(s, a->ai_addr, a->ai_addrlen) != 0) {
        error = errno;
        if (error == EINPROGRESS) {
            st = wait_for(s, POLLOUT, d);
            if (st == GR_OK && getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
                error = errno;
        }
    }
    if (st == GR_OK && error == 0 && is_self(s))
        error = ECONNREFUSED;
    if (t->is_refused)
        *t->is_refused = st == GR_OK && error == ECONNREFUSED;
    if (st == GR_OK && error != 0)
        st = gr_fail(GR_ERR_IO, "%s", strerror(error));
    if (st == GR_OK)
        st = gr_socket_prepare(s);
    if (st == GR_OK)
        *fd = s;
    else
        close(s);
    return st;
}

/* Each address of the name in turn; one that does not answer must not use up the others' time. */
static gr_status try_connect(int *fd, const target *t, gr_deadline d, bool *again)
{
    struct addrinfo *list;
    int n_left = 0;
    gr_status st;

    GR_TRY(resolve(&list, t->host, t->port, 0, again));
    *again = true;
    st = gr_fail(GR_ERR_IO, "no address");
    for (struct addrinfo *a = list; a; a = a->ai_next)
        n_left++;
    for (struct addrinfo *a = list; a && st != GR_OK; a = a->ai_next) {
        int ms = gr_deadline_left_ms(d) / n_left--;

        st = connect_one(fd, a, t, gr_deadline_in_ms(ms < TRY_MS ? ms : TRY_MS));
    }
    freeaddrinfo(list);
    return st;
}

/* Once from every rank, then from rank 0 alone: the one who is missing may be rank 0. */
static void say_waiting(const target *to, double seconds, bool is_first)
{
    if (is_first)
        gr_log(NET, WARN, "waiting for '%s' port %d: %s (%.0f s)", to->host, to->port,
               gr_error_message(), seconds);
    else
        gr_log(NET, INFO, "waiting for '%s' port %d: %s (%.0f s)", to->host, to->port,
               gr_error_message(), seconds);
}

static gr_status connect_to(int *fd, const target *to, gr_deadline d)
{
    int64_t start = gr_now_ns(), told = start;
    int pause_ms = FIRST_PAUSE_MS;
    bool again, is_first = true;
    gr_status st;

    while ((st = try_connect(fd, to, d, &again)) != GR_OK) {
        int left = gr_deadline_left_ms(d);
        struct timespec t;

        if (left == 0 || !again)
            return gr_wrap(st, "cannot connect to '%s' port %d after %.1f s", to->host, to->port,
                           (double)(gr_now_ns() - start) * 1e-9);
        t = (struct timespec){ 0, (long)(pause_ms < left ? pause_ms : left) * 1000000 };
        nanosleep(&t, NULL); /* a signal only makes the next try come earlier */
        if (gr_now_ns() - told > TELL_NS) {
            told = gr_now_ns();
            say_waiting(to, (double)(told - start) * 1e-9, is_first);
            is_first = false;
        }
        pause_ms = 2 * pause_ms < LAST_PAUSE_MS ? 2 * pause_ms : LAST_PAUSE_MS;
    }
    return GR_OK;
}

gr_status gr_socket_connect(int *fd, const char *host, int port, gr_deadline d)
{
    return connect_to(fd, &(target){ .host = host, .port = port }, d);
}

gr_status gr_socket_connect_near(int *fd, const char *host, int port, gr_deadline d)
{
    return connect_to(fd, &(target){ .host = host, .port = port, .is_near = true }, d);
}

gr_status gr_socket_knock(int *fd, const char *host, int port, gr_deadline d, bool *is_refused)
{
    target t = { .host = host, .port = port, .is_refused = is_refused };
    bool again;

    *is_refused = false;
    return gr_wrap(try_connect(fd, &t, d, &again), "cannot connect to '%s' port %d", host, port);
}

gr_status gr_socket_send(int fd, const void *src, size_t n_bytes, gr_deadline d)
{
    const char *at = (const char *)src;

    while (n_bytes > 0) {
        ssize_t n = send(fd, at, n_bytes, MSG_NOSIGNAL);

        if (n > 0) {
            at += n;
            n_bytes -= (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            GR_TRY(wait_for(fd, POLLOUT, d));
        } else if (n < 0 && errno != EINTR) {
            return gr_fail(GR_ERR_IO, "send: %s", strerror(errno));
        }
    }
    return GR_OK;
}

gr_status gr_socket_recv(int fd, void *dst, size_t n_bytes, gr_deadline d)
{
    char *at = (char *)dst;

    while (n_bytes > 0) {
        ssize_t n = recv(fd, at, n_bytes, 0);

        if (n > 0) {
            at += n;
            n_bytes -= (size_t)n;
        } else if (n == 0) {
            return gr_fail(GR_ERR_IO, "the other side closed the connection");
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            GR_TRY(wait_for(fd, POLLIN, d));
        } else if (errno != EINTR) {
            return gr_fail(GR_ERR_IO, "receive: %s", strerror(errno));
        }
    }
    return GR_OK;
}

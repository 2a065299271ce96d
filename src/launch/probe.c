/* All connections are begun first and then waited for together. */
#include "launch/probe.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct target {
    char address[64], host[64];
    int port;
    int error; /* EINPROGRESS: not known yet */
} target;

/* -1: nothing to wait for; `t->error` says why. */
static int begin(target *t)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *list;
    char service[16];
    int fd;

    snprintf(service, sizeof(service), "%d", t->port);
    t->error = EHOSTUNREACH;
    if (getaddrinfo(t->address, service, &hints, &list) != 0)
        return -1;
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    t->error = fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0 ? 0 : errno;
    freeaddrinfo(list);
    if (fd >= 0 && t->error != EINPROGRESS) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void look(target *t, struct pollfd *p)
{
    socklen_t len = sizeof(t->error);

    if (p->fd < 0 || !p->revents)
        return;
    if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &t->error, &len) != 0)
        t->error = errno;
    close(p->fd);
    p->fd = -1;
}

static void wait_for_all(target *targets, struct pollfd *polls, int n, gr_deadline d)
{
    int n_open = 1;

    while (n_open > 0 && !gr_deadline_passed(d)) {
        n_open = 0;
        for (int i = 0; i < n; i++)
            n_open += polls[i].fd >= 0;
        if (n_open > 0 && poll(polls, (nfds_t)n, gr_deadline_left_ms(d)) > 0)
            for (int i = 0; i < n; i++)
                look(&targets[i], &polls[i]);
    }
}

/* "address port host", up to the end of the line. */
static bool parse(const char *line, target *t)
{
    size_t len = strcspn(line, " \n");
    char *end;

    if (len == 0 || len >= sizeof(t->address) || line[len] != ' ')
        return false;
    memcpy(t->address, line, len);
    t->port = (int)strtol(line + len, &end, 10);
    snprintf(t->host, sizeof(t->host), "%.*s", (int)strcspn(end, "\n"), end + (*end == ' '));
    t->host[strcspn(t->host, "\n")] = '\0';
    return t->port > 0 && t->port < 65536;
}

static int count_lines(const char *list)
{
    int n = 0;

    for (; *list; list++)
        n += *list == '\n';
    return n;
}

gr_status gr_probe(const char *list, int limit_ms, gr_text *trouble)
{
    int n = count_lines(list), k = 0;
    target *targets = (target *)gr_calloc((size_t)n + 1, sizeof(*targets));
    struct pollfd *polls = (struct pollfd *)gr_calloc((size_t)n + 1, sizeof(*polls));
    gr_status st = targets && polls ? GR_OK : GR_ERR_NOMEM;

    for (; st == GR_OK && *list && k < n; list += strcspn(list, "\n") + 1) {
        target *t = &targets[k];

        if (!parse(list, t))
            continue;
        polls[k++] = (struct pollfd){ .fd = begin(t), .events = POLLOUT };
    }
    if (st == GR_OK)
        wait_for_all(targets, polls, k, gr_deadline_in_ms(limit_ms));
    for (int i = 0; i < k; i++) {
        if (polls[i].fd >= 0)
            close(polls[i].fd);
        if (targets[i].error != 0)
            gr_text_addf(trouble, "host '%s' at %s port %d: %s\n", targets[i].host,
                         targets[i].address, targets[i].port,
                         targets[i].error == EINPROGRESS ? "no answer in time"
                                                         : strerror(targets[i].error));
    }
    gr_free(targets);
    gr_free(polls);
    return st == GR_OK ? gr_text_status(trouble) : st;
}

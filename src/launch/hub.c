/* Connections, bytes and time of the meeting. */
#include "launch/hub.h"

#include "base/alloc.h"
#include "base/log.h"
#include "launch/agent.h"
#include "launch/hub_impl.h"
#include "launch/member.h"
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK_MS   100
#define SEND_MS   2000
#define HELLO_MS  10000 /* a connection that says nothing is closed */
#define MAX_PEERS 4096

void gr_hub_send(gr_peer *p, const gr_text *t)
{
    if (gr_text_status(t) == GR_OK &&
        gr_socket_send(p->fd, t->str, t->len, gr_deadline_in_ms(SEND_MS)) == GR_OK)
        return;
    /* Reading will find it closed. */
    (void)shutdown(p->fd, SHUT_RDWR);
}

void gr_hub_send_all(gr_hub *h, const gr_text *t)
{
    for (int i = 0; i < h->n_peers; i++)
        if (h->peers[i]->has_joined)
            gr_hub_send(h->peers[i], t);
}

void gr_hub_drop(gr_hub *h, gr_peer *p)
{
    for (int i = 0; i < h->n_peers; i++)
        if (h->peers[i] == p)
            h->peers[i] = h->peers[--h->n_peers];
    if (p->has_joined)
        gr_store_server_forbid(h->server, p->address);
    close(p->fd);
    gr_text_fini(&p->in);
    gr_text_fini(&p->report);
    gr_free(p);
}

/* From the store's thread: a connection that speaks our language. */
static void arrive(void *arg, int fd)
{
    gr_hub *h = (gr_hub *)arg;

    if (write(h->arrivals[1], &fd, sizeof(fd)) != (ssize_t)sizeof(fd))
        close(fd);
}

static gr_status add_peer(gr_hub *h, int fd)
{
    gr_peer *p;

    if (h->n_peers == MAX_PEERS)
        return gr_fail(GR_ERR_IO, "more than %d connections", MAX_PEERS);
    GR_TRY(gr_grow((void **)&h->peers, &h->cap_peers, h->n_peers + 1, sizeof(*h->peers)));
    p = (gr_peer *)gr_calloc(1, sizeof(*p));
    if (!p)
        return GR_ERR_NOMEM;
    p->fd = fd;
    gr_socket_endure(fd, gr_member_endures_ms(h->config), false);
    p->heard_ns = gr_now_ns();
    p->number = h->n_numbers++;
    gr_address_of_peer(fd, p->address);
    gr_address_of_self(fd, p->self);
    h->peers[h->n_peers++] = p;
    return GR_OK;
}

static void take_arrivals(gr_hub *h)
{
    int fd;

    while (read(h->arrivals[0], &fd, sizeof(fd)) == (ssize_t)sizeof(fd))
        if (add_peer(h, fd) != GR_OK) {
            gr_log(LAUNCH, WARN, "a host is refused: %s", gr_error_message());
            close(fd);
        }
}

/* Handles the frames that are whole. */
static gr_status take_frames(gr_hub *h, gr_peer *p)
{
    size_t at = 0, n_used = 1;
    gr_status st = GR_OK;

    if (!p->has_said_hello) {
        size_t len = strlen(GR_FRAME_HELLO);

        if (p->in.len < len)
            return GR_OK;
        if (memcmp(p->in.str, GR_FRAME_HELLO, len) != 0)
            return gr_fail(GR_ERR_FORMAT, "it is no launcher, or one of another version");
        p->has_said_hello = true;
        at = len;
    }
    while (st == GR_OK && n_used > 0) {
        gr_frame f;

        st = gr_frame_parse(p->in.str + at, p->in.len - at, &f, &n_used);
        if (st == GR_OK && n_used > 0)
            st = gr_meeting_take(h, p, &f);
        at += st == GR_OK ? n_used : 0;
    }
    memmove(p->in.str, p->in.str + at, p->in.len - at);
    p->in.len -= at;
    return st;
}

/* The peer may be gone from the list afterwards. */
static void receive(gr_hub *h, gr_peer *p)
{
    char mem[8192];
    ssize_t n = recv(p->fd, mem, sizeof(mem), MSG_DONTWAIT);
    gr_status st = GR_OK;

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n > 0) {
        if (p->is_missed)
            gr_log(LAUNCH, INFO, "host '%s' (%s) is heard of again after %.1f s", p->host,
                   p->address, (double)(gr_now_ns() - p->heard_ns) * 1e-9);
        p->is_missed = false;
        p->heard_ns = gr_now_ns();
        gr_text_addn(&p->in, mem, (size_t)n);
        st = gr_text_status(&p->in);
        if (st == GR_OK)
            st = take_frames(h, p);
        if (st == GR_OK)
            return;
        gr_log(LAUNCH, WARN, "the connection from %s is closed: %s", p->address,
               gr_error_message());
    }
    gr_meeting_lost(h, p, "its launcher ended or was cut off");
    gr_hub_drop(h, p);
}

/* One line in each silence, of a host in a round. */
static void miss(gr_hub *h, gr_peer *p)
{
    int64_t ms = (gr_now_ns() - p->heard_ns) / 1000000;

    if (p->is_missed || !p->in_round || ms < gr_member_misses_ms(h->config))
        return;
    p->is_missed = true;
    gr_log(LAUNCH, WARN, "nothing was heard of host '%s' (%s) for %d s; " GR_MISSED_TEXT, p->host,
           p->address, (int)(ms / 1000), h->config->silence_ms / 1000);
}

static void look_for_silence(gr_hub *h)
{
    for (int i = h->n_peers - 1; i >= 0; i--) {
        gr_peer *p = h->peers[i];
        int limit_ms = p->has_joined ? h->config->silence_ms : HELLO_MS;
        char how[64];

        miss(h, p);
        if (gr_now_ns() - p->heard_ns < (int64_t)limit_ms * 1000000)
            continue;
        snprintf(how, sizeof(how), "nothing was heard of it for %d s", limit_ms / 1000);
        gr_meeting_lost(h, p, how);
        gr_hub_drop(h, p);
    }
}

static void beat(gr_hub *h)
{
    gr_text t = GR_TEXT_INIT;

    if (!gr_deadline_passed(h->next_beat))
        return;
    h->next_beat = gr_deadline_in_ms(1000);
    gr_frame_begin(&t, "BEAT");
    gr_frame_end(&t, "");
    gr_hub_send_all(h, &t);
    gr_text_fini(&t);
}

/* Over: all was said and every host has left; or the agent of this host gave up. */
static bool is_over(const gr_hub *h)
{
    if (h->phase == GR_FINISHED)
        return gr_meeting_size(h) == 0 || gr_deadline_passed(h->close_limit);
    return __atomic_load_n(&h->must_end, __ATOMIC_ACQUIRE) != 0;
}

static bool wait_for_bytes(gr_hub *h, struct pollfd **polls, int *cap)
{
    int n = h->n_peers;

    if (gr_grow((void **)polls, cap, n + 1, sizeof(**polls)) != GR_OK)
        return false;
    (*polls)[0] = (struct pollfd){ .fd = h->arrivals[0], .events = POLLIN };
    for (int i = 0; i < n; i++)
        (*polls)[i + 1] = (struct pollfd){ .fd = h->peers[i]->fd, .events = POLLIN };
    if (poll(*polls, (nfds_t)n + 1, TICK_MS) < 0 && errno != EINTR)
        return false;
    /* From behind: a peer that goes is replaced by the last one. One that comes again takes its
     * old connection with it. */
    for (int i = n - 1; i >= 0; i--)
        if (i < h->n_peers && (*polls)[i + 1].revents)
            receive(h, h->peers[i]);
    if ((*polls)[0].revents)
        take_arrivals(h);
    return true;
}

static void *run(void *arg)
{
    gr_hub *h = (gr_hub *)arg;
    struct pollfd *polls = NULL;
    int cap = 0;

    gr_meeting_begin(h);
    while (!is_over(h) && wait_for_bytes(h, &polls, &cap)) {
        look_for_silence(h);
        beat(h);
        gr_meeting_tick(h);
    }
    gr_free(polls);
    while (h->n_peers > 0)
        gr_hub_drop(h, h->peers[0]);
    return NULL;
}

/* The interface that is chosen carries data; hosts meet where all were told, which may be another
 * one (a name in the network of the office, data in a faster one). */
static gr_status choose_address(gr_hub *h, const char **listen_on)
{
    static char interface[GR_ADDRESS_TEXT];
    const char *host = h->config->host;

    GR_TRY(gr_interface_address(interface));
    *listen_on = NULL;
    if (*interface && (gr_interface_is_one_of(interface, host) || !gr_interface_is_local(host)))
        *listen_on = interface;
    else if (gr_interface_is_loopback(host))
        *listen_on = host;
    snprintf(h->address, sizeof(h->address), "%s", *listen_on ? *listen_on : "127.0.0.1");
    return GR_OK;
}

static gr_status start(gr_hub *h)
{
    gr_store_server_config sc = {
        .port = h->config->port, .is_guarded = true, .other = arrive, .arg = h
    };
    const char *secret = getenv("GR_JOB_TOKEN");
    int rc;

    snprintf(h->secret, sizeof(h->secret), "%s", secret ? secret : "");
    GR_TRY(gr_token_make(h->token));
    GR_TRY(choose_address(h, &sc.host));
    if (pipe2(h->arrivals, O_CLOEXEC) != 0)
        return gr_fail(GR_ERR_IO, "pipe: %s", strerror(errno));
    (void)fcntl(h->arrivals[0], F_SETFL, O_NONBLOCK);
    GR_TRY(gr_store_server_create_with(&h->server, &sc));
    GR_TRY(gr_store_server_start(h->server));
    rc = pthread_create(&h->thread, NULL, run, h);
    if (rc != 0)
        return gr_fail(GR_ERR_IO, "no thread for the meeting of hosts: %s", strerror(rc));
    return GR_OK;
}

static void release(gr_hub *h)
{
    gr_store_server_destroy(h->server);
    for (int i = 0; i < 2; i++)
        if (h->arrivals[i] >= 0)
            close(h->arrivals[i]);
    gr_text_fini(&h->trouble);
    gr_text_fini(&h->lost);
    gr_free(h->peers);
    gr_free(h);
}

gr_status gr_hub_start(gr_hub **out, const gr_launch_config *c)
{
    gr_hub *h = (gr_hub *)gr_calloc(1, sizeof(*h));
    gr_status st;

    if (!h)
        return GR_ERR_NOMEM;
    h->config = c;
    h->arrivals[0] = h->arrivals[1] = -1;
    st = start(h);
    if (st != GR_OK) {
        release(h);
        return st;
    }
    *out = h;
    return GR_OK;
}

const char *gr_hub_address(const gr_hub *h)
{
    return h->address;
}

void gr_hub_finish(gr_hub *h)
{
    if (!h)
        return;
    __atomic_store_n(&h->must_end, 1, __ATOMIC_RELEASE);
    pthread_join(h->thread, NULL);
    release(h);
}

/* The agent's side of the meeting. */
#include "launch/member.h"

#include "base/alloc.h"
#include "base/log.h"
#include "launch/report.h"
#include "net/frame.h"
#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BEAT_MS 1000
#define SEND_MS 2000

#define MISSED_MS  5000 /* of silence until a line says so, or half of what is a loss */
#define ENDURES_MS 2000 /* beyond what is a loss: this and the other side are to decide that */

struct gr_member {
    const gr_launch_config *config;
    int fd;
    gr_text in;
    bool has_more; /* there may be a whole frame in `in` */
    bool is_known; /* a frame came: a gradrun is there */
    int64_t heard_ns;
    bool is_missed; /* a line said that nothing is heard */
    gr_deadline next_beat;
    char address[GR_ADDRESS_TEXT];
    char token[GR_TOKEN_TEXT];
};

int gr_member_fd(const gr_member *m)
{
    return m->fd;
}

const char *gr_member_address(const gr_member *m)
{
    return m->address;
}

void gr_member_say(gr_member *m, const gr_text *frame)
{
    if (gr_text_status(frame) == GR_OK &&
        gr_socket_send(m->fd, frame->str, frame->len, gr_deadline_in_ms(SEND_MS)) == GR_OK)
        return;
    (void)shutdown(m->fd, SHUT_RDWR); /* reading will find it closed */
}

static gr_status say_hello(gr_member *m, int probe_port, const char *agent)
{
    const gr_launch_config *c = m->config;
    const char *secret = getenv("GR_JOB_TOKEN");
    gr_text t = GR_TEXT_INIT;
    char host[64], local[GR_ADDRESS_TEXT] = "";
    gr_status st =
        gr_socket_send(m->fd, GR_FRAME_HELLO, strlen(GR_FRAME_HELLO), gr_deadline_in_ms(SEND_MS));

    if (c->local_addr)
        snprintf(local, sizeof(local), "%s", c->local_addr);
    else
        GR_TRY(gr_interface_address(local));
    gr_report_host(host, sizeof(host));
    gr_frame_begin(&t, "HELLO");
    gr_frame_put(&t, "id", c->run_id);
    gr_frame_put(&t, "secret", secret ? secret : "");
    gr_frame_put(&t, "agent", agent);
    gr_frame_put(&t, "host", host);
    gr_frame_put(&t, "addr", local);
    gr_frame_put_int(&t, "node", c->node_rank);
    gr_frame_put_int(&t, "ranks", c->n_local);
    gr_frame_put_int(&t, "port", probe_port);
    gr_frame_put_int(&t, "min", c->min_hosts);
    gr_frame_put_int(&t, "max", c->max_hosts);
    gr_frame_end(&t, "");
    if (st == GR_OK)
        gr_member_say(m, &t);
    gr_text_fini(&t);
    return st;
}

gr_status gr_member_create(gr_member **out, int fd, const gr_launch_config *c, int probe_port,
                           const char *agent)
{
    gr_member *m = (gr_member *)gr_calloc(1, sizeof(*m));
    gr_status st;

    if (!m) {
        close(fd);
        return GR_ERR_NOMEM;
    }
    m->config = c;
    m->fd = fd;
    m->heard_ns = gr_now_ns();
    m->next_beat = gr_deadline_in_ms(BEAT_MS);
    gr_address_of_peer(fd, m->address);
    gr_socket_endure(fd, gr_member_endures_ms(c), false);
    st = say_hello(m, probe_port, agent);
    if (st != GR_OK) {
        gr_member_destroy(m);
        return st;
    }
    *out = m;
    return GR_OK;
}

void gr_member_destroy(gr_member *m)
{
    if (!m)
        return;
    close(m->fd);
    gr_text_fini(&m->in);
    gr_free(m);
}

int gr_member_patience(const gr_member *m)
{
    return m->has_more ? 0 : gr_deadline_left_ms(m->next_beat);
}

/* ---- silence ---- */

int gr_member_misses_ms(const gr_launch_config *c)
{
    return c->silence_ms / 2 < MISSED_MS ? c->silence_ms / 2 : MISSED_MS;
}

int gr_member_endures_ms(const gr_launch_config *c)
{
    return c->silence_ms + ENDURES_MS;
}

static void hear(gr_member *m)
{
    if (m->is_missed)
        gr_log(LAUNCH, INFO, "host '%s' port %d is heard of again after %.1f s", m->config->host,
               m->config->port, (double)(gr_now_ns() - m->heard_ns) * 1e-9);
    m->is_missed = false;
    m->heard_ns = gr_now_ns();
}

static gr_status check_silence(gr_member *m)
{
    const gr_launch_config *c = m->config;
    int64_t ms = (gr_now_ns() - m->heard_ns) / 1000000;

    if (ms > c->silence_ms)
        return gr_fail(GR_ERR_PEER, "nothing was heard of it for %d s", c->silence_ms / 1000);
    if (!m->is_missed && m->is_known && ms > gr_member_misses_ms(c)) {
        m->is_missed = true;
        gr_log(LAUNCH, WARN,
               "nothing was heard of host '%s' port %d, which has the store, for %d "
               "s; " GR_MISSED_TEXT,
               c->host, c->port, (int)(ms / 1000), c->silence_ms / 1000);
    }
    return GR_OK;
}

/* ---- events ---- */

static gr_status read_place(gr_member *m, const gr_frame *f, gr_place *p)
{
    GR_TRY(gr_frame_int(f, "attempt", 0, 1 << 30, &p->attempt));
    GR_TRY(gr_frame_int(f, "restart", 0, 1 << 30, &p->restart));
    GR_TRY(gr_frame_int(f, "hosts", 1, 1 << 20, &p->n_hosts));
    GR_TRY(gr_frame_int(f, "host", 0, p->n_hosts - 1, &p->host));
    GR_TRY(gr_frame_int(f, "ranks", 1, 1 << 30, &p->n_ranks));
    GR_TRY(gr_frame_int(f, "first", 0, p->n_ranks - 1, &p->first_rank));
    GR_TRY(gr_frame_int(f, "port", 1, 65535, &p->master_port));
    memcpy(p->token, m->token, sizeof(p->token));
    /* Numbered hosts have been told a name that all know; others get the number that works. The
     * host of the meeting may have come through loopback: what it listens on is the endpoint. */
    snprintf(p->master_addr, sizeof(p->master_addr), "%s",
             m->config->node_rank >= 0 || gr_interface_is_loopback(m->address) ? m->config->host
                                                                               : m->address);
    return GR_OK;
}

static gr_status read_event(gr_member *m, const gr_frame *f, gr_event *e)
{
    static const struct {
        const char *kind;
        gr_event_kind event;
    } kinds[] = {
        { "BEAT", GR_EVENT_NONE }, { "WELCOME", GR_EVENT_WELCOME }, { "REFUSED", GR_EVENT_REFUSED },
        { "NOTE", GR_EVENT_NOTE }, { "CHECK", GR_EVENT_CHECK },     { "ROUND", GR_EVENT_ROUND },
        { "END", GR_EVENT_END },   { "FINISH", GR_EVENT_FINISH },
    };
    size_t i = 0, n = sizeof(kinds) / sizeof(kinds[0]);

    while (i < n && strcmp(kinds[i].kind, f->kind) != 0)
        i++;
    if (i == n)
        return gr_fail(GR_ERR_FORMAT, "a frame '%s' that nobody knows", f->kind);
    e->kind = kinds[i].event;
    e->text.len = 0;
    gr_text_add(&e->text, "");
    gr_text_addn(&e->text, f->body, f->n_body);
    if (e->kind == GR_EVENT_WELCOME)
        gr_frame_text(f, "token", m->token, sizeof(m->token));
    if (e->kind == GR_EVENT_ROUND)
        return read_place(m, f, &e->place);
    if (e->kind == GR_EVENT_END) {
        GR_TRY(gr_frame_int(f, "signal", 1, 64, &e->signal));
        return gr_frame_int(f, "stop", 0, 1, &e->is_stop);
    }
    if (e->kind == GR_EVENT_FINISH)
        return gr_frame_int(f, "code", 0, 255, &e->exit_code);
    return GR_OK;
}

/* Takes whole frames off the front until one is an event. */
static gr_status take_frames(gr_member *m, gr_event *e)
{
    m->has_more = m->in.len > 0;
    while (e->kind == GR_EVENT_NONE && m->has_more) {
        size_t n_used;
        gr_frame f;

        GR_TRY(gr_frame_parse(m->in.str, m->in.len, &f, &n_used));
        m->has_more = n_used > 0;
        if (n_used == 0)
            break;
        GR_TRY(read_event(m, &f, e));
        m->is_known = true;
        memmove(m->in.str, m->in.str + n_used, m->in.len - n_used);
        m->in.len -= n_used;
        m->has_more = m->in.len > 0;
    }
    return GR_OK;
}

/* What is no frame from the first byte on comes from another program: a web server, sshd. */
static gr_status take_frame(gr_member *m, gr_event *e)
{
    const gr_launch_config *c = m->config;
    gr_status st = take_frames(m, e);

    if (st != GR_ERR_FORMAT || m->is_known)
        return st;
    return gr_fail(
        GR_ERR_ARG,
        "what listens on '%s' port %d is no gradrun, it answered with other bytes; check "
        "%s",
        c->host, c->port,
        c->node_rank >= 0 ? "--master-addr and --master-port" : "--rdzv-endpoint");
}

static void beat(gr_member *m)
{
    gr_text t = GR_TEXT_INIT;

    if (!gr_deadline_passed(m->next_beat))
        return;
    m->next_beat = gr_deadline_in_ms(BEAT_MS);
    gr_frame_begin(&t, "BEAT");
    gr_frame_end(&t, "");
    gr_member_say(m, &t);
    gr_text_fini(&t);
}

gr_status gr_member_next(gr_member *m, gr_event *e)
{
    char mem[8192];
    ssize_t n;

    e->kind = GR_EVENT_NONE;
    beat(m);
    GR_TRY(take_frame(m, e));
    if (e->kind != GR_EVENT_NONE)
        return GR_OK;
    n = recv(m->fd, mem, sizeof(mem), MSG_DONTWAIT);
    if (n > 0) {
        hear(m);
        gr_text_addn(&m->in, mem, (size_t)n);
        GR_TRY(gr_text_status(&m->in));
        return take_frame(m, e);
    }
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        return gr_fail(GR_ERR_PEER, "the connection to it was closed");
    return check_silence(m);
}

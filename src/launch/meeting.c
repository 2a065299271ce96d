/*
 * What the meeting decides. Every function here is called by the hub's thread, with all peers
 * as they are now; none of them waits.
 */
#include "base/log.h"
#include "launch/hub_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_MS  5000
#define CHECK_MS 20000 /* for all hosts to try all others */
#define AGAIN_MS 2000  /* before they try again */
#define CLOSE_MS 3000  /* for the last frames */

/* ---- telling ---- */

static void send_note(gr_hub *h, const char *text)
{
    gr_text t = GR_TEXT_INIT;

    gr_frame_begin(&t, "NOTE");
    gr_frame_end(&t, text);
    gr_hub_send_all(h, &t);
    gr_text_fini(&t);
}

static void finish(gr_hub *h, int exit_code, const char *text)
{
    gr_text t = GR_TEXT_INIT;

    gr_frame_begin(&t, "FINISH");
    gr_frame_put_int(&t, "code", exit_code);
    gr_frame_end(&t, text);
    gr_hub_send_all(h, &t);
    gr_text_fini(&t);
    h->phase = GR_FINISHED;
    /* After an outage it may take a sixth of the silence until bytes go again (net/socket.h): those
     * who are heard are to hear how it ended, too. */
    h->close_limit = gr_deadline_in_ms(CLOSE_MS + h->config->silence_ms / 3);
}

/* ---- gathering ---- */

static void gather(gr_hub *h, int pause_ms)
{
    h->phase = GR_GATHER;
    h->join_limit = gr_deadline_in_ms((int64_t)h->config->join_ms + pause_ms);
    h->has_last_call = false;
    h->not_before = gr_deadline_in_ms(pause_ms);
    h->next_note = gr_deadline_in_ms(NOTE_MS);
}

void gr_meeting_begin(gr_hub *h)
{
    h->pauses = gr_backoff_begin(h->config->restart_ms);
    h->next_beat = gr_deadline_in_ms(1000);
    gather(h, 0);
}

static gr_status refuse(gr_hub *h, gr_peer *p, const char *text)
{
    gr_text t = GR_TEXT_INIT;

    (void)h;
    gr_frame_begin(&t, "REFUSED");
    gr_frame_end(&t, text);
    gr_hub_send(p, &t);
    gr_text_fini(&t);
    return gr_fail(GR_ERR_ARG, "%s", text);
}

static gr_status check_words(gr_hub *h, gr_peer *p, const gr_frame *f)
{
    const gr_launch_config *c = h->config;
    char id[GR_RUN_ID], secret[GR_TOKEN_TEXT], text[256];
    int min, max;

    gr_frame_text(f, "id", id, sizeof(id));
    gr_frame_text(f, "secret", secret, sizeof(secret));
    GR_TRY(gr_frame_int(f, "min", 1, 1 << 20, &min));
    GR_TRY(gr_frame_int(f, "max", 1, 1 << 20, &max));
    if (strcmp(id, c->run_id) != 0) {
        snprintf(text, sizeof(text), "the job here is called '%s', not '%s' (--rdzv-id)", c->run_id,
                 id);
        return refuse(h, p, text);
    }
    if (*h->secret && strcmp(secret, h->secret) != 0)
        return refuse(h, p, "GR_JOB_TOKEN is another one than on the host of the store");
    if (min != c->min_hosts || max != c->max_hosts) {
        snprintf(text, sizeof(text), "--nnodes is %d:%d here and %d:%d there", c->min_hosts,
                 c->max_hosts, min, max);
        return refuse(h, p, text);
    }
    return GR_OK;
}

static gr_status check_place(gr_hub *h, gr_peer *p)
{
    const gr_launch_config *c = h->config;
    char text[256];

    for (int i = 0; i < h->n_peers; i++) {
        const gr_peer *o = h->peers[i];

        if (o == p || !o->has_joined || p->node < 0 || o->node != p->node)
            continue;
        snprintf(text, sizeof(text),
                 "host '%s' from %s is node %d already; give each host its own --node-rank",
                 o->host, o->address, o->node);
        return refuse(h, p, text);
    }
    if (gr_meeting_size(h) >= c->max_hosts)
        return refuse(h, p, "the job has all its hosts already");
    return GR_OK;
}

static void end_round(gr_hub *h, const char *why, int signal_number);

/* A launcher that was cut off comes again on a new connection, perhaps before the old one is known
 * to be dead: its ranks have ended, whatever the old one says. */
static void replace(gr_hub *h, const gr_peer *p)
{
    for (int i = h->n_peers - 1; i >= 0 && *p->agent; i--) {
        gr_peer *o = h->peers[i];

        if (o == p || !o->has_joined || strcmp(o->agent, p->agent) != 0)
            continue;
        gr_meeting_lost(h, o, "it was cut off, and has come again");
        gr_hub_drop(h, o);
        return;
    }
}

static gr_status take_hello(gr_hub *h, gr_peer *p, const gr_frame *f)
{
    gr_text t = GR_TEXT_INIT;

    if (p->has_joined || h->phase == GR_FINISHED)
        return gr_fail(GR_ERR_FORMAT, "an unexpected hello");
    gr_frame_text(f, "host", p->host, sizeof(p->host));
    gr_frame_text(f, "addr", p->local_addr, sizeof(p->local_addr));
    gr_frame_text(f, "agent", p->agent, sizeof(p->agent));
    GR_TRY(gr_frame_int(f, "node", -1, 1 << 20, &p->node));
    GR_TRY(gr_frame_int(f, "ranks", 1, GR_MAX_RANKS, &p->n_local));
    GR_TRY(gr_frame_int(f, "port", 0, 65535, &p->probe_port));
    GR_TRY(check_words(h, p, f));
    replace(h, p);
    if (h->phase == GR_FINISHED)
        return gr_fail(GR_ERR_FORMAT, "a hello after the end");
    GR_TRY(check_place(h, p));
    GR_TRY(gr_store_server_allow(h->server, p->address));
    p->has_joined = true;
    gr_frame_begin(&t, "WELCOME");
    gr_frame_put(&t, "token", h->token);
    gr_frame_end(&t, "");
    gr_hub_send(p, &t);
    gr_text_fini(&t);
    if (h->phase == GR_RUN && h->config->min_hosts < h->config->max_hosts) {
        char why[160];

        snprintf(why, sizeof(why), "host '%s' joins from %s", p->host, p->address);
        h->is_regrouping = true;
        end_round(h, why, SIGTERM);
    }
    return GR_OK;
}

/* ---- checking ---- */

/* Where `to` is for `from`: a host that meets itself through loopback is elsewhere for others. */
static const char *address_for(const gr_peer *from, const gr_peer *to)
{
    if (*to->local_addr)
        return to->local_addr;
    if (gr_interface_is_loopback(to->address) && !gr_interface_is_loopback(from->address))
        return from->self;
    return to->address;
}

static void begin_round(gr_hub *h);

static void begin_check(gr_hub *h)
{
    int n = 0;

    h->phase = GR_CHECK;
    h->end_limit = gr_deadline_in_ms(CHECK_MS);
    h->trouble.len = 0;
    for (int i = 0; i < h->n_peers; i++) {
        gr_peer *p = h->peers[i];

        p->in_round = p->has_joined;
        p->has_probed = p->has_ended = false;
        p->blame = GR_BLAME_NONE;
        p->order = -1;
        p->report.len = 0;
        n += p->in_round;
    }
    if (n == 1) {
        begin_round(h);
        return;
    }
    for (int i = 0; i < h->n_peers; i++) {
        gr_text t = GR_TEXT_INIT, list = GR_TEXT_INIT;

        if (!h->peers[i]->in_round)
            continue;
        for (int k = 0; k < h->n_peers; k++)
            if (k != i && h->peers[k]->in_round && h->peers[k]->probe_port > 0)
                gr_text_addf(&list, "%s %d %s\n", address_for(h->peers[i], h->peers[k]),
                             h->peers[k]->probe_port, h->peers[k]->host);
        gr_frame_begin(&t, "CHECK");
        gr_frame_end(&t, gr_text_str(&list));
        gr_hub_send(h->peers[i], &t);
        gr_text_fini(&t);
        gr_text_fini(&list);
    }
}

static void note_trouble(gr_hub *h, const gr_peer *p, const gr_frame *f)
{
    for (size_t at = 0; at < f->n_body;) {
        const char *line = f->body + at;
        const char *end = (const char *)memchr(line, '\n', f->n_body - at);
        size_t len = end ? (size_t)(end - line) : f->n_body - at;

        gr_text_addf(&h->trouble, "  host '%s' (%s) cannot reach %.*s\n", p->host, p->address,
                     (int)len, line);
        at += len + 1;
    }
}

/* They could, before: the network is on its way down, or up. */
static void check_again(gr_hub *h)
{
    gr_deadline limit = h->join_limit;
    gr_text text = GR_TEXT_INIT;

    gr_text_addf(&text, "hosts of the job cannot reach each other, and try again\n%s",
                 gr_text_str(&h->trouble));
    send_note(h, gr_text_str(&text));
    gr_text_fini(&text);
    gather(h, AGAIN_MS);
    h->join_limit = limit;
}

static gr_status take_probed(gr_hub *h, gr_peer *p, const gr_frame *f)
{
    gr_text text = GR_TEXT_INIT;

    if (h->phase != GR_CHECK || !p->in_round)
        return GR_OK;
    p->has_probed = true;
    note_trouble(h, p, f);
    for (int i = 0; i < h->n_peers; i++)
        if (h->peers[i]->in_round && !h->peers[i]->has_probed)
            return GR_OK;
    if (h->trouble.len == 0) {
        begin_round(h);
        return GR_OK;
    }
    if (h->attempt > 0) {
        check_again(h);
        return GR_OK;
    }
    gr_text_addf(&text, "hosts of the job cannot reach each other; a firewall?\n%s",
                 gr_text_str(&h->trouble));
    finish(h, 1, gr_text_str(&text));
    gr_text_fini(&text);
    return GR_OK;
}

/* ---- running ---- */

/* Numbers in the order of --node-rank; without it in the order of joining. */
static int compare(const void *a, const void *b)
{
    const gr_peer *x = *(const gr_peer *const *)a, *y = *(const gr_peer *const *)b;

    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void begin_round(gr_hub *h)
{
    int host = 0, n_hosts = 0, first = 0, n_ranks = 0;

    gr_store_server_clear(h->server);
    qsort(h->peers, (size_t)h->n_peers, sizeof(gr_peer *), compare);
    for (int i = 0; i < h->n_peers; i++)
        if (h->peers[i]->in_round) {
            n_hosts++;
            n_ranks += h->peers[i]->n_local;
        }
    for (int i = 0; i < h->n_peers; i++) {
        gr_peer *p = h->peers[i];
        gr_text t = GR_TEXT_INIT;

        if (!p->in_round)
            continue;
        gr_frame_begin(&t, "ROUND");
        gr_frame_put_int(&t, "attempt", h->attempt);
        gr_frame_put_int(&t, "restart", h->restart);
        gr_frame_put_int(&t, "host", host++);
        gr_frame_put_int(&t, "hosts", n_hosts);
        gr_frame_put_int(&t, "first", first);
        gr_frame_put_int(&t, "ranks", n_ranks);
        gr_frame_put_int(&t, "port", gr_store_server_port(h->server));
        gr_frame_end(&t, "");
        gr_hub_send(p, &t);
        gr_text_fini(&t);
        first += p->n_local;
    }
    h->phase = GR_RUN;
    h->is_regrouping = false;
    h->n_bad = 0;
    h->lost.len = 0;
    h->round_ns = gr_now_ns();
}

static void decide(gr_hub *h);

static void end_round(gr_hub *h, const char *why, int signal_number)
{
    gr_text t = GR_TEXT_INIT;

    if (h->phase != GR_RUN)
        return;
    h->phase = GR_END;
    /* Silence and cut connections are noticed by themselves; this is for agents that hang. */
    h->end_limit = gr_deadline_in_ms((int64_t)h->config->shutdown_ms + 15000);
    gr_frame_begin(&t, "END");
    gr_frame_put_int(&t, "signal", signal_number);
    gr_frame_put_int(&t, "stop", h->stop_signal != 0);
    gr_frame_end(&t, why);
    for (int i = 0; i < h->n_peers; i++)
        if (h->peers[i]->in_round)
            gr_hub_send(h->peers[i], &t);
    gr_text_fini(&t);
    decide(h);
}

static void note_bad(gr_hub *h, gr_peer *p)
{
    if (p->order < 0)
        p->order = h->n_bad++;
}

static gr_status take_ended(gr_hub *h, gr_peer *p, const gr_frame *f)
{
    int attempt;

    GR_TRY(gr_frame_int(f, "attempt", 0, 1 << 30, &attempt));
    if (!p->in_round || attempt != h->attempt)
        return GR_OK;
    GR_TRY(gr_frame_int(f, "blame", 0, GR_BLAME_NONE, &p->blame));
    GR_TRY(gr_frame_int(f, "code", 0, 255, &p->exit_code));
    gr_frame_text(f, "line", p->line, sizeof(p->line));
    p->report.len = 0;
    gr_text_addn(&p->report, f->body, f->n_body);
    p->has_ended = true;
    if (p->blame != GR_BLAME_NONE)
        note_bad(h, p);
    if (p->blame != GR_BLAME_NONE && h->phase == GR_RUN)
        end_round(h, "ranks of another host failed", SIGTERM);
    else
        decide(h);
    return GR_OK;
}

/* ---- the end of a round ---- */

static void go_on(gr_hub *h, const char *verdict, bool uses_restart)
{
    int pause = uses_restart ? gr_backoff_next(&h->pauses, gr_now_ns() - h->round_ns) : 0;
    gr_text note = GR_TEXT_INIT;

    h->attempt++;
    h->restart += uses_restart;
    if (uses_restart)
        gr_text_addf(&note, "%srestart %d of %d in %.1f s", verdict, h->restart,
                     h->config->max_restarts, pause * 1e-3);
    else
        gr_text_addf(&note, "%sa new round begins with the hosts that are there", verdict);
    send_note(h, gr_text_str(&note));
    gr_text_fini(&note);
    gather(h, pause);
}

/* Once all hosts have ended their ranks: what follows. */
static void decide(gr_hub *h)
{
    gr_text verdict = GR_TEXT_INIT;
    bool elastic = h->config->min_hosts < h->config->max_hosts;
    const gr_peer *root = gr_meeting_root(h);
    bool ended_well = h->phase == GR_RUN && !root && h->lost.len == 0;
    bool was_stopped = root && root->blame == GR_BLAME_STOP && h->lost.len == 0;
    bool regroups = elastic && (h->is_regrouping || h->lost.len > 0);
    int code;

    for (int i = 0; i < h->n_peers; i++)
        if (h->peers[i]->in_round && !h->peers[i]->has_ended)
            return;
    code = gr_meeting_verdict(h, &verdict);
    if (h->stop_signal != 0 || ended_well || was_stopped ||
        (!regroups && h->restart == h->config->max_restarts))
        finish(h, code, gr_text_str(&verdict));
    else
        go_on(h, gr_text_str(regroups ? &h->lost : &verdict), !regroups);
    gr_text_fini(&verdict);
}

void gr_meeting_lost(gr_hub *h, gr_peer *p, const char *how)
{
    bool was_in = p->in_round;

    if (!p->has_joined || h->phase == GR_FINISHED)
        return;
    p->in_round = false;
    if (h->phase == GR_CHECK) {
        gather(h, 0);
    } else if (was_in && !(p->has_ended && h->phase == GR_END)) {
        gr_text_addf(&h->lost, "host '%s' (%s) was lost after %.1f s: %s\n", p->host, p->address,
                     (double)(gr_now_ns() - h->round_ns) * 1e-9, how);
        if (h->phase == GR_RUN)
            end_round(h, gr_text_str(&h->lost), SIGTERM);
        else if (h->phase == GR_END)
            decide(h);
    }
}

/* ---- frames and time ---- */

static gr_status take_stop(gr_hub *h, const gr_frame *f)
{
    int signal_number;

    GR_TRY(gr_frame_int(f, "signal", 1, NSIG - 1, &signal_number));
    if (h->stop_signal == 0)
        h->stop_signal = signal_number;
    if (h->phase == GR_RUN)
        end_round(h, "the job was told to end on another host", signal_number);
    else if (h->phase == GR_GATHER || h->phase == GR_CHECK)
        finish(h, 128 + signal_number, "stopped before all hosts were there\n");
    return GR_OK;
}

static gr_status take_fail(gr_hub *h, gr_peer *p)
{
    if (p->in_round && h->phase == GR_RUN) {
        note_bad(h, p);
        end_round(h, "ranks of another host failed", SIGTERM);
    }
    return GR_OK;
}

gr_status gr_meeting_take(gr_hub *h, gr_peer *p, const gr_frame *f)
{
    if (strcmp(f->kind, "HELLO") == 0)
        return take_hello(h, p, f);
    if (!p->has_joined)
        return gr_fail(GR_ERR_FORMAT, "a frame '%s' before a hello", f->kind);
    if (strcmp(f->kind, "BEAT") == 0)
        return GR_OK;
    if (strcmp(f->kind, "PROBED") == 0)
        return take_probed(h, p, f);
    if (strcmp(f->kind, "FAIL") == 0)
        return take_fail(h, p);
    if (strcmp(f->kind, "ENDED") == 0)
        return take_ended(h, p, f);
    if (strcmp(f->kind, "STOP") == 0)
        return take_stop(h, f);
    return gr_fail(GR_ERR_FORMAT, "a frame '%s' that nobody knows", f->kind);
}

static void tick_gather(gr_hub *h)
{
    const gr_launch_config *c = h->config;
    int n = gr_meeting_size(h);
    gr_text text = GR_TEXT_INIT;

    if (n >= c->min_hosts && !h->has_last_call) {
        h->has_last_call = true;
        h->last_call = gr_deadline_in_ms(h->attempt == 0 ? c->last_call_ms : 0);
    }
    if (n < c->min_hosts)
        h->has_last_call = false;
    if (gr_deadline_passed(h->not_before) &&
        (n >= c->max_hosts || (h->has_last_call && gr_deadline_passed(h->last_call)))) {
        begin_check(h);
    } else if (gr_deadline_passed(h->join_limit)) {
        gr_meeting_describe(h, &text);
        gr_text_addf(&text,
                     " after %d s; that is not enough: start the others, or wait longer with "
                     "--rdzv-conf join_timeout=SECONDS\n",
                     c->join_ms / 1000);
        finish(h, 1, gr_text_str(&text));
    } else if (gr_deadline_passed(h->next_note) && gr_deadline_passed(h->not_before)) {
        gr_text_add(&text, "waiting: ");
        gr_meeting_describe(h, &text);
        send_note(h, gr_text_str(&text));
        h->next_note = gr_deadline_in_ms(NOTE_MS);
    }
    gr_text_fini(&text);
}

void gr_meeting_tick(gr_hub *h)
{
    if (h->phase == GR_GATHER) {
        tick_gather(h);
    } else if ((h->phase == GR_CHECK || h->phase == GR_END) && gr_deadline_passed(h->end_limit)) {
        for (int i = h->n_peers - 1; i >= 0; i--) {
            gr_peer *p = h->peers[i];

            if (!p->in_round || (h->phase == GR_CHECK ? p->has_probed : p->has_ended))
                continue;
            gr_meeting_lost(h, p, "its launcher does not answer");
            gr_hub_drop(h, p);
            return; /* the phase may be another one now */
        }
    }
}

/*
 * One of several hosts: joins the meeting (which it may host itself), and does what it is told
 * until it hears FINISH, or hears nothing any more.
 */
#include "launch/hosts.h"

#include "base/log.h"
#include "launch/hub.h"
#include "launch/member.h"
#include "launch/probe.h"
#include "launch/report.h"
#include "net/frame.h"
#include "net/socket.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROBE_MS   5000
#define CONNECT_MS 500  /* the first attempt, between looks at signals; */
#define MOST_MS    4000 /* later ones take longer: on a slow network answers do, too */
#define NOTE_MS    5000 /* between lines while the meeting cannot be reached */

#define JOIN_HINT "wait longer with --rdzv-conf join_timeout=SECONDS"

typedef struct hosts {
    gr_agent *agent;
    const gr_launch_config *config;
    gr_hub *hub;       /* NULL: elsewhere */
    gr_member *member; /* NULL: not yet */
    gr_event event;
    int probe_fd, probe_port; /* where others try to reach this host */
    char id[GR_TOKEN_TEXT];   /* this launcher's name in the meeting */
    int restart;              /* the number of the last round's */
    bool said_stop;
    gr_launch_result *result;
} hosts;

/* ---- joining ---- */

/* Whether the meeting is on this host may be in its name's address alone, and that may come
 * later than we do. */
static gr_status wait_for_name(hosts *h)
{
    const gr_launch_config *c = h->config;
    gr_deadline limit = gr_deadline_in_ms(c->join_ms), note = gr_deadline_in_ms(NOTE_MS);

    while (!gr_interface_is_local(c->host) && !gr_interface_resolves(c->host)) {
        if (gr_deadline_passed(limit))
            return gr_fail(GR_ERR_IO, "host '%s' did not resolve within %d s; " JOIN_HINT, c->host,
                           c->join_ms / 1000);
        if (gr_deadline_passed(note)) {
            gr_log(LAUNCH, WARN, "waiting for host '%s': its name does not resolve", c->host);
            note = gr_deadline_in_ms(NOTE_MS);
        }
        GR_TRY(gr_agent_wait(h->agent, -1, CONNECT_MS));
        if (gr_agent_must_stop(h->agent))
            return gr_fail(GR_ERR_STOPPED, "stopped before the meeting of hosts was reached");
    }
    return GR_OK;
}

/* Decides whether the meeting is here, and begins it then. */
static gr_status host_meeting(hosts *h)
{
    const gr_launch_config *c = h->config;
    gr_status st;

    if (c->is_host < 0)
        GR_TRY(wait_for_name(h));
    if (c->is_host == 0 || (c->is_host < 0 && !gr_interface_is_local(c->host)))
        return GR_OK;
    st = gr_hub_start(&h->hub, c);
    /* Another agent of this machine may have begun it; then this one is a guest. */
    if (st == GR_ERR_IO && c->is_host < 0) {
        gr_log(LAUNCH, INFO, "%s; joining what is there", gr_error_message());
        return GR_OK;
    }
    if (st == GR_OK && c->node_rank >= 0 && !gr_interface_is_local(c->host))
        gr_log(LAUNCH, WARN,
               "this host is node 0, but '%s' (--master-addr) is none of its addresses: the others "
               "find it only if that leads here",
               c->host);
    return gr_wrap(st, "this host is node %d and is to have the store (--node-rank)", c->node_rank);
}

static gr_status connect_meeting(hosts *h, int *fd)
{
    const gr_launch_config *c = h->config;
    const char *host = h->hub ? gr_hub_address(h->hub) : c->host;
    gr_deadline limit = gr_deadline_in_ms(c->join_ms), note = gr_deadline_in_ms(NOTE_MS);
    int attempt_ms = CONNECT_MS;
    gr_status st;

    while ((st = gr_socket_connect(fd, host, c->port, gr_deadline_in_ms(attempt_ms))) != GR_OK) {
        attempt_ms =
            st == GR_ERR_TIMEOUT && 2 * attempt_ms <= MOST_MS ? 2 * attempt_ms : attempt_ms;
        if (gr_deadline_passed(limit))
            return gr_fail(st,
                           "the meeting of hosts was not reached within %d s: %s; start gradrun "
                           "there, open the port, or " JOIN_HINT,
                           c->join_ms / 1000, gr_error_message());
        if (gr_deadline_passed(note)) {
            gr_log(LAUNCH, WARN, "waiting for host '%s' port %d: %s", host, c->port,
                   gr_error_message());
            note = gr_deadline_in_ms(NOTE_MS);
        }
        GR_TRY(gr_agent_wait(h->agent, -1, 0));
        if (gr_agent_must_stop(h->agent))
            return gr_fail(GR_ERR_STOPPED, "stopped before the meeting of hosts was reached");
    }
    return GR_OK;
}

static gr_status join(hosts *h)
{
    char interface[GR_ADDRESS_TEXT];
    int fd;

    GR_TRY(gr_interface_address(interface));
    GR_TRY(gr_port_listen(&h->probe_fd, *interface ? interface : NULL, 0, h->config->ports,
                          &h->probe_port));
    GR_TRY(gr_token_make(h->id));
    GR_TRY(host_meeting(h));
    GR_TRY(connect_meeting(h, &fd));
    return gr_member_create(&h->member, fd, h->config, h->probe_port, h->id);
}

/* ---- joining again ---- */

/* The meeting waits for this host if there is to be another round. */
static bool may_rejoin(const hosts *h)
{
    const gr_launch_config *c = h->config;

    return !h->hub && !gr_agent_must_stop(h->agent) &&
           (h->restart < c->max_restarts || c->min_hosts < c->max_hosts);
}

/* Until somebody opens. That nobody listens there any more is believed once it was heard for as
 * long as a silence is: firewalls say so, too. */
static gr_status knock(hosts *h, int *fd)
{
    const gr_launch_config *c = h->config;
    gr_deadline limit = gr_deadline_in_ms(c->join_ms), note = gr_deadline_in_ms(NOTE_MS);
    gr_deadline closed = gr_deadline_in_ms(c->silence_ms);
    bool is_refused;

    for (;;) {
        GR_TRY(gr_agent_wait(h->agent, -1, CONNECT_MS)); /* also: the other side may be closing */
        if (gr_agent_must_stop(h->agent))
            return gr_fail(GR_ERR_STOPPED, "stopped before the meeting of hosts was reached again");
        if (gr_socket_knock(fd, c->host, c->port, gr_deadline_in_ms(MOST_MS), &is_refused) == GR_OK)
            return GR_OK;
        if (!is_refused)
            closed = gr_deadline_in_ms(c->silence_ms);
        if (gr_deadline_passed(closed))
            return gr_fail(GR_ERR_PEER, "nobody waits there any more: %s", gr_error_message());
        if (gr_deadline_passed(limit))
            return gr_fail(GR_ERR_PEER, "not reached again within %d s: %s; " JOIN_HINT,
                           c->join_ms / 1000, gr_error_message());
        if (gr_deadline_passed(note)) {
            gr_log(LAUNCH, WARN, "waiting for host '%s' port %d: %s", c->host, c->port,
                   gr_error_message());
            note = gr_deadline_in_ms(NOTE_MS);
        }
    }
}

/* The ranks have ended; the message says why the meeting was lost. */
static gr_status rejoin(hosts *h)
{
    const gr_launch_config *c = h->config;
    gr_status st;
    int fd;

    gr_log(LAUNCH, WARN,
           "host '%s' port %d, which has the store, is lost: %s; this host joins again as soon as "
           "it can be reached, within %d s",
           c->host, c->port, gr_error_message(), c->join_ms / 1000);
    gr_member_destroy(h->member);
    h->member = NULL;
    do {
        GR_TRY(knock(h, &fd));
        gr_log(LAUNCH, INFO, "host '%s' port %d is reached again", c->host, c->port);
        st = gr_member_create(&h->member, fd, c, h->probe_port, h->id);
    } while (st == GR_ERR_IO || st == GR_ERR_TIMEOUT); /* cut again before the first word */
    return st;
}

/* ---- telling the meeting ---- */

static void say_stop(hosts *h)
{
    gr_text t = GR_TEXT_INIT;

    if (h->said_stop || h->agent->stop_signal == 0)
        return;
    h->said_stop = true;
    gr_frame_begin(&t, "STOP");
    gr_frame_put_int(&t, "signal", h->agent->stop_signal);
    gr_frame_end(&t, "");
    gr_member_say(h->member, &t);
    gr_text_fini(&t);
}

static void say_fail(hosts *h)
{
    gr_text t = GR_TEXT_INIT;

    gr_frame_begin(&t, "FAIL");
    gr_frame_end(&t, "");
    gr_member_say(h->member, &t);
    gr_text_fini(&t);
}

static void say_ended(hosts *h, const gr_round *r, int attempt)
{
    const worker *root = gr_report_root(r->workers, h->config->n_local);
    gr_text t = GR_TEXT_INIT, report = GR_TEXT_INIT, line = GR_TEXT_INIT;

    gr_report_write(&report, r->workers, h->config->n_local, r->stop_signal, r->start_ns,
                    h->agent->logs);
    gr_report_line(&line, root, r->start_ns);
    gr_frame_begin(&t, "ENDED");
    gr_frame_put_int(&t, "attempt", attempt);
    gr_frame_put_int(&t, "blame", gr_report_blame(root));
    gr_frame_put_int(&t, "code", gr_report_exit_code(root, r->stop_signal));
    gr_frame_put(&t, "line", gr_text_str(&line));
    gr_frame_end(&t, gr_text_str(&report));
    gr_member_say(h->member, &t);
    gr_text_fini(&t);
    gr_text_fini(&report);
    gr_text_fini(&line);
}

/* Ranks that could not be started are a failure like any other; the message says which. */
static void say_not_started(hosts *h, int attempt)
{
    gr_text t = GR_TEXT_INIT, report = GR_TEXT_INIT;
    char host[64];

    gr_report_host(host, sizeof(host));
    gr_text_addf(&report, "host '%s': %s\n", host, gr_error_message());
    gr_frame_begin(&t, "ENDED");
    gr_frame_put_int(&t, "attempt", attempt);
    gr_frame_put_int(&t, "blame", GR_BLAME_OWN);
    gr_frame_put_int(&t, "code", 1);
    gr_frame_put(&t, "line", gr_error_message());
    gr_frame_end(&t, gr_text_str(&report));
    gr_member_say(h->member, &t);
    gr_text_fini(&t);
    gr_text_fini(&report);
}

static gr_status answer_check(hosts *h)
{
    gr_text trouble = GR_TEXT_INIT, t = GR_TEXT_INIT;
    gr_status st = gr_probe(gr_text_str(&h->event.text), PROBE_MS, &trouble);

    if (st == GR_OK) {
        gr_frame_begin(&t, "PROBED");
        gr_frame_end(&t, gr_text_str(&trouble));
        gr_member_say(h->member, &t);
    }
    gr_text_fini(&trouble);
    gr_text_fini(&t);
    return st;
}

/* ---- rounds ---- */

/* Waits for something and takes the next event, if one is there. */
static gr_status step(hosts *h)
{
    GR_TRY(gr_agent_wait(h->agent, gr_member_fd(h->member), gr_member_patience(h->member)));
    say_stop(h);
    GR_TRY(gr_member_next(h->member, &h->event));
    if (h->event.kind == GR_EVENT_NOTE) {
        gr_report_log(gr_text_str(&h->event.text));
        h->event.kind = GR_EVENT_NONE;
    }
    return GR_OK;
}

/* Without the meeting the ranks are ended as ever, and the reason stays. */
static void end_alone(hosts *h, gr_round *r)
{
    gr_error kept;

    gr_error_take(&kept, GR_ERR_PEER);
    gr_round_end(r, SIGTERM);
    while (!gr_round_is_over(r))
        if (gr_agent_wait(h->agent, -1, -1) != GR_OK)
            break;
    GR_IGNORE(gr_error_raise(&kept)); /* puts the message back */
}

static gr_status watch(hosts *h, gr_round *r)
{
    bool said_fail = false;

    while (!gr_round_is_over(r)) {
        gr_status st = step(h);

        if (st != GR_OK) {
            end_alone(h, r);
            return st;
        }
        if (h->event.kind == GR_EVENT_END) {
            if (!r->is_ending) {
                gr_log(LAUNCH, DEBUG, "the round ends: %s", gr_text_str(&h->event.text));
                if (h->event.is_stop)
                    gr_round_stop(r, h->event.signal);
                else
                    gr_round_end(r, h->event.signal);
            }
        } else if (h->event.kind == GR_EVENT_FINISH) {
            return gr_fail(GR_ERR_FORMAT, "a finish in the middle of a round");
        }
        if (r->is_ending && !said_fail) {
            said_fail = true;
            say_fail(h);
        }
    }
    return GR_OK;
}

static gr_status run_round(hosts *h)
{
    gr_place place = h->event.place;
    gr_round r = GR_ROUND_INIT;
    gr_status st = gr_logs_begin(h->agent->logs, place.attempt);

    h->restart = place.restart;
    if (st == GR_OK)
        st = gr_round_start(&r, h->config, &place, h->agent->logs);
    if (st != GR_OK) {
        say_not_started(h, place.attempt);
        gr_round_fini(&r);
        return GR_OK;
    }
    h->agent->round = &r;
    if (h->agent->stop_signal != 0)
        gr_round_stop(&r, h->agent->stop_signal);
    gr_round_look(&r);
    st = watch(h, &r);
    if (st == GR_OK)
        st = gr_agent_settle(h->agent);
    h->agent->round = NULL;
    gr_round_finish(&r);
    /* With the front gone this host leaves the job without a word: the others call it lost. */
    if (st == GR_OK && h->agent->is_orphan)
        st = gr_fail(GR_ERR_STOPPED, "the launcher was killed");
    if (st == GR_OK) {
        say_stop(h); /* before: it decides what follows */
        say_ended(h, &r, place.attempt);
    }
    gr_round_fini(&r);
    return st;
}

/* Until FINISH. */
static gr_status obey(hosts *h)
{
    for (;;) {
        GR_TRY(step(h));
        switch (h->event.kind) {
        case GR_EVENT_REFUSED:
            return gr_fail(GR_ERR_ARG, "the host of the store, %s, refuses this one: %s",
                           gr_member_address(h->member), gr_text_str(&h->event.text));
        case GR_EVENT_CHECK: GR_TRY(answer_check(h)); break;
        case GR_EVENT_ROUND: GR_TRY(run_round(h)); break;
        case GR_EVENT_FINISH:
            h->result->exit_code = h->event.exit_code;
            gr_text_add(&h->result->report, gr_text_str(&h->event.text));
            return GR_OK;
        case GR_EVENT_NONE:
        case GR_EVENT_WELCOME:
        case GR_EVENT_NOTE:
        case GR_EVENT_END: break;
        }
        if (h->agent->is_orphan)
            return gr_fail(GR_ERR_STOPPED, "the launcher was killed");
    }
}

gr_status gr_agent_run_hosts(gr_agent *a, gr_launch_result *result)
{
    hosts h = { .agent = a, .config = a->config, .probe_fd = -1, .result = result };
    gr_status st = join(&h);

    if (st == GR_OK)
        st = obey(&h);
    while (st == GR_ERR_PEER && may_rejoin(&h)) {
        st = rejoin(&h);
        if (st == GR_ERR_PEER)
            break;
        if (st == GR_OK)
            st = obey(&h);
    }
    if (st == GR_ERR_PEER)
        st = gr_wrap(GR_ERR_IO,
                     "host '%s' port %d, which has the store, is lost and the job with "
                     "it",
                     a->config->host, a->config->port);
    if (st == GR_ERR_STOPPED && a->stop_signal != 0) {
        result->exit_code = 128 + a->stop_signal;
        gr_text_addf(&result->report, "%s\n", gr_error_message());
        st = GR_OK;
    }
    if (st != GR_OK) { /* the meeting ends with us: the others are to hear of that, not of a host */
        gr_hub_finish(h.hub);
        h.hub = NULL;
    }
    gr_member_destroy(h.member);
    gr_hub_finish(h.hub);
    gr_text_fini(&h.event.text);
    if (h.probe_fd >= 0)
        close(h.probe_fd);
    return st;
}

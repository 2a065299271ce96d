/* A job of one host: its own store, and rounds until one ends well or no restart is left. */
#include "base/clock.h"
#include "launch/agent.h"
#include "launch/backoff.h"
#include "launch/report.h"
#include "net/interface.h"
#include "net/store_server.h"

#include <stdio.h>
#include <string.h>

static gr_status run_round(gr_agent *a, const gr_place *p, gr_round *r)
{
    gr_status st = gr_logs_begin(a->logs, p->attempt);

    if (st == GR_OK)
        st = gr_round_start(r, a->config, p, a->logs);
    a->round = st == GR_OK ? r : NULL;
    if (st == GR_OK)
        gr_round_look(r); /* one may have ended before it was ours to hear of */
    while (st == GR_OK && !gr_round_is_over(r))
        st = gr_agent_wait(a, -1, -1);
    if (st == GR_OK)
        st = gr_agent_settle(a);
    a->round = NULL;
    if (r->output)
        gr_round_finish(r);
    return st;
}

static gr_status pause_before(gr_agent *a, int ms)
{
    gr_deadline d = gr_deadline_in_ms(ms);

    while (!gr_agent_must_stop(a) && !gr_deadline_passed(d))
        GR_TRY(gr_agent_wait(a, -1, gr_deadline_left_ms(d)));
    return GR_OK;
}

/* The report of a round that is not the last, and that another follows. */
static gr_status announce(gr_agent *a, const gr_place *p, const gr_round *r, int pause_ms)
{
    gr_text text = GR_TEXT_INIT;

    gr_report_write(&text, r->workers, a->config->n_local, 0, r->start_ns, a->logs);
    gr_text_addf(&text, "restart %d of %d in %.1f s", p->restart + 1, a->config->max_restarts,
                 pause_ms * 1e-3);
    gr_report_log(gr_text_str(&text));
    gr_text_fini(&text);
    return pause_before(a, pause_ms);
}

/* The round's own report has been logged: what ended the job is the stop, as with several hosts. */
static void stopped_in_pause(const gr_agent *a, const gr_place *p, gr_launch_result *result)
{
    result->exit_code = 128 + a->stop_signal;
    gr_text_addf(&result->report, "stopped by SIG%s in the pause before restart %d of %d\n",
                 sigabbrev_np(a->stop_signal), p->restart + 1, a->config->max_restarts);
}

static gr_status run_rounds(gr_agent *a, gr_store_server *server, gr_place *p,
                            gr_launch_result *result)
{
    gr_backoff pauses = gr_backoff_begin(a->config->restart_ms);

    for (;;) {
        gr_round r = GR_ROUND_INIT;
        gr_status st = run_round(a, p, &r);
        const worker *root = st == GR_OK ? gr_report_root(r.workers, a->config->n_local) : NULL;
        /* Who asks the ranks to stop wants no restart, though the launcher was not asked. */
        bool again = root && gr_report_blame(root) != GR_BLAME_STOP &&
                     p->restart < a->config->max_restarts && !gr_agent_must_stop(a);

        if (again)
            st = announce(a, p, &r, gr_backoff_next(&pauses, gr_now_ns() - r.start_ns));
        if (again && st == GR_OK && a->stop_signal != 0) {
            stopped_in_pause(a, p, result);
        } else if (st == GR_OK && !again) {
            result->exit_code = gr_report_exit_code(root, r.stop_signal);
            gr_report_write(&result->report, r.workers, a->config->n_local, r.stop_signal,
                            r.start_ns, a->logs);
        }
        gr_round_fini(&r);
        if (!again || st != GR_OK || gr_agent_must_stop(a))
            return st;
        gr_store_server_clear(server);
        p->restart++;
        p->attempt++;
    }
}

gr_status gr_agent_run_alone(gr_agent *a, gr_launch_result *result)
{
    const gr_launch_config *c = a->config;
    /* Guarded: --master-addr may name an address that others can reach. */
    gr_store_server_config sc = {
        .host = c->host, .port = c->port, .ports = c->ports, .is_guarded = true
    };
    gr_place p = { .n_ranks = c->n_local, .n_hosts = 1 };
    gr_store_server *server;
    gr_status st;

    GR_TRY(gr_token_make(p.token));
    GR_TRY(gr_store_server_create_with(&server, &sc));
    snprintf(p.master_addr, sizeof(p.master_addr), "%s", c->host);
    p.master_port = gr_store_server_port(server);
    st = gr_store_server_start(server);
    if (st == GR_OK)
        st = run_rounds(a, server, &p, result);
    gr_store_server_destroy(server);
    return st;
}

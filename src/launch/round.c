/* One round on this host. */
#include "launch/round.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "launch/guard.h"
#include "launch/report.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINGER_MS 1000
#define DRAIN_MS  1000
#define STRAY_MS  1000 /* what ranks left running has this long to end, if they ended well */

static void tell_all(gr_round *r, int signal_number)
{
    for (int i = 0; i < r->config->n_local; i++)
        if (!r->workers[i].has_ended) {
            r->workers[i].was_told = true;
            gr_worker_signal(&r->workers[i], signal_number);
        }
}

void gr_round_kill(gr_round *r)
{
    r->is_ending = r->is_killed = true;
    r->untold = 0;
    tell_all(r, SIGKILL);
}

static void begin_ending(gr_round *r)
{
    r->is_ending = true;
    r->ending_ns = gr_now_ns();
}

void gr_round_end(gr_round *r, int signal_number)
{
    if (r->is_ending)
        return;
    begin_ending(r);
    r->next = gr_deadline_in_ms(r->config->shutdown_ms);
    tell_all(r, signal_number);
}

/* Ranks that the stop reached before it reached us have been told, too, though not by us; and
 * those that ended because of them. */
static void note_told(gr_round *r)
{
    int64_t since_ns = gr_now_ns() - GR_SAME_STOP_MS * (int64_t)1000000;

    for (int i = 0; i < r->config->n_local; i++) {
        worker *w = &r->workers[i];

        if (w->has_ended && w->ended_ns > since_ns &&
            (gr_report_was_asked(w) || w->exit_code == GR_EXIT_PEER))
            w->was_told = true;
    }
}

void gr_round_stop(gr_round *r, int signal_number)
{
    if (r->is_ending && gr_now_ns() - r->ending_ns >= GR_SAME_STOP_MS * (int64_t)1000000) {
        gr_round_kill(r);
        return;
    }
    if (r->stop_signal == 0) {
        r->stop_signal = signal_number;
        r->says_waiting = true;
        note_told(r);
    }
    if (r->is_ending)
        return;
    begin_ending(r);
    r->untold = signal_number;
    r->next = gr_deadline_in_ms(GR_SPREAD_MS);
}

void gr_round_was_hit(gr_round *r, int signal_number)
{
    gr_round_stop(r, signal_number);
    if (r->untold == 0)
        return; /* too late to spare them a second one, or they were killed */
    r->untold = 0;
    r->next = gr_deadline_in_ms(r->config->shutdown_ms);
    tell_all(r, SIGCONT); /* a stopped process would never notice */
}

void gr_round_signal(gr_round *r, int signal_number)
{
    for (int i = 0; i < r->config->n_local; i++)
        if (!r->workers[i].has_ended)
            (void)kill(-r->workers[i].pid, signal_number);
}

static void note_end(gr_round *r, worker *w, const siginfo_t *info)
{
    bool killed = info->si_code != CLD_EXITED;

    w->has_ended = true;
    w->order = r->n_ended++;
    w->ended_ns = gr_now_ns();
    w->signal = killed ? info->si_status : 0;
    w->exit_code = killed ? -1 : info->si_status;
    if (r->is_ending || (!killed && w->exit_code == 0))
        return;
    if (w->exit_code == GR_EXIT_PEER || gr_report_was_asked(w)) {
        if (!r->is_lingering)
            r->next = gr_deadline_in_ms(w->exit_code == GR_EXIT_PEER ? LINGER_MS : GR_SPREAD_MS);
        r->is_lingering = true;
        return;
    }
    gr_round_end(r, SIGTERM);
}

void gr_round_look(gr_round *r)
{
    for (int i = 0; i < r->config->n_local; i++) {
        worker *w = &r->workers[i];
        siginfo_t info = { 0 };

        /* WNOWAIT: it stays a zombie. */
        if (!w->has_ended && waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == w->pid)
            note_end(r, w, &info);
    }
    if (r->n_ended < r->config->n_local)
        gr_guard_reap_strays(r->pids, r->config->n_local + 1);
}

static void say_waiting(gr_round *r)
{
    int n_left = r->config->n_local - r->n_ended;

    r->says_waiting = false;
    if (n_left > 0)
        gr_log(
            LAUNCH, INFO,
            "SIG%s: waiting for %d of %d rank%s to end; SIGKILL in %d s, or with the next signal",
            sigabbrev_np(r->stop_signal), n_left, r->config->n_local, gr_plural(r->config->n_local),
            (gr_deadline_left_ms(r->next) + 999) / 1000);
}

/* What is due now. */
static void act(gr_round *r)
{
    if (r->untold != 0) {
        r->next = gr_deadline_in_ms(r->config->shutdown_ms);
        tell_all(r, r->untold);
        r->untold = 0;
    } else if (r->is_ending) {
        gr_round_kill(r);
    } else {
        gr_round_end(r, SIGTERM);
    }
}

int gr_round_tick(gr_round *r)
{
    int64_t same_ms = GR_SAME_STOP_MS - (gr_now_ns() - r->ending_ns) / 1000000;
    int left;

    if (r->is_killed || !(r->is_lingering || r->is_ending))
        return -1;
    if (gr_deadline_passed(r->next)) {
        act(r);
        return gr_round_tick(r);
    }
    left = gr_deadline_left_ms(r->next);
    if (!r->says_waiting || !r->is_ending)
        return left;
    if (same_ms <= 0)
        say_waiting(r);
    return same_ms > 0 && same_ms < left ? (int)same_ms : left;
}

bool gr_round_is_over(const gr_round *r)
{
    return r->n_ended == r->config->n_local;
}

bool gr_round_looks_stopped(const gr_round *r)
{
    for (int i = 0; i < r->config->n_local; i++)
        if (r->workers[i].has_ended && !r->workers[i].was_told &&
            gr_report_was_asked(&r->workers[i]))
            return true;
    return false;
}

gr_status gr_round_start(gr_round *r, const gr_launch_config *c, const gr_place *p,
                         const gr_logs *logs)
{
    size_t n = (size_t)c->n_local;

    *r = (gr_round){ .config = c, .start_ns = gr_now_ns(), .witness = { .fd = -1 } };
    r->workers = (worker *)gr_calloc(n, sizeof(*r->workers));
    r->pids = (pid_t *)gr_calloc(n + 1, sizeof(*r->pids));
    if (!r->workers || !r->pids)
        return GR_ERR_NOMEM;
    GR_TRY(gr_witness_start(&r->witness, &c->endings, c->argv));
    r->pids[n] = r->witness.pid;
    GR_TRY(gr_workers_start(r->workers, c, p, logs));
    for (size_t i = 0; i < n; i++)
        r->pids[i] = r->workers[i].pid;
    return relay_start(&r->output, r->workers, c, logs);
}

void gr_round_finish(gr_round *r)
{
    bool ended_well = gr_round_is_over(r) && !r->is_ending;
    int grace = r->config->shutdown_ms < STRAY_MS ? r->config->shutdown_ms : STRAY_MS;

    gr_witness_end(&r->witness);
    for (int i = 0; i < r->config->n_local; i++)
        gr_worker_signal(&r->workers[i], ended_well ? SIGTERM : SIGKILL);
    gr_guard_end_descendants(ended_well ? grace : 0);
    relay_finish(r->output, gr_deadline_in_ms(DRAIN_MS));
    r->output = NULL;
    /* A rank 0 that was killed may have left half a line on its terminal. */
    if (r->workers[0].signal && isatty(STDOUT_FILENO))
        (void)!write(STDOUT_FILENO, "\n", 1);
}

void gr_round_fini(gr_round *r)
{
    relay_finish(r->output, gr_deadline_in_ms(0));
    gr_witness_end(&r->witness);
    gr_free(r->workers);
    gr_free(r->pids);
    *r = GR_ROUND_INIT;
}

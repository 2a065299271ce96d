/* One round on this host. */
#include "launch/round.h"

#include "base/alloc.h"
#include "launch/guard.h"

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

static void kill_all(gr_round *r)
{
    r->is_killed = true;
    tell_all(r, SIGKILL);
}

void gr_round_end(gr_round *r, int signal_number)
{
    if (r->is_ending) {
        kill_all(r);
        return;
    }
    r->is_ending = true;
    r->next = gr_deadline_in_ms(r->config->shutdown_ms);
    tell_all(r, signal_number);
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
    if (!killed && w->exit_code == GR_EXIT_PEER) {
        if (!r->is_lingering)
            r->next = gr_deadline_in_ms(LINGER_MS);
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
        gr_guard_reap_strays(r->pids, r->config->n_local);
}

int gr_round_tick(gr_round *r)
{
    if (r->is_killed || !(r->is_lingering || r->is_ending))
        return -1;
    if (!gr_deadline_passed(r->next))
        return gr_deadline_left_ms(r->next);
    if (r->is_ending)
        kill_all(r);
    else
        gr_round_end(r, SIGTERM);
    return gr_round_tick(r);
}

bool gr_round_is_over(const gr_round *r)
{
    return r->n_ended == r->config->n_local;
}

bool gr_round_has_failed(const gr_round *r)
{
    return r->is_ending || r->is_lingering;
}

gr_status gr_round_start(gr_round *r, const gr_launch_config *c, const gr_place *p,
                         const gr_logs *logs)
{
    size_t n = (size_t)c->n_local;

    *r = (gr_round){ .config = c, .start_ns = gr_now_ns() };
    r->workers = (worker *)gr_calloc(n, sizeof(*r->workers));
    r->pids = (pid_t *)gr_calloc(n, sizeof(*r->pids));
    if (!r->workers || !r->pids)
        return GR_ERR_NOMEM;
    GR_TRY(gr_workers_start(r->workers, c, p, logs));
    for (size_t i = 0; i < n; i++)
        r->pids[i] = r->workers[i].pid;
    return relay_start(&r->output, r->workers, c, logs);
}

void gr_round_finish(gr_round *r)
{
    bool ended_well = gr_round_is_over(r) && !r->is_ending;
    int grace = r->config->shutdown_ms < STRAY_MS ? r->config->shutdown_ms : STRAY_MS;

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
    gr_free(r->workers);
    gr_free(r->pids);
    *r = (gr_round){ 0 };
}

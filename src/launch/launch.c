/*
 * Watching a job.
 *
 *     running --a rank fails by itself--------------------> ending: SIGTERM to all
 *        |  \--a rank fails because of another (PEER)--> lingering: the culprit may be
 *        |                                               about to say why; then ending
 *        |---we get a signal: it goes to all ----------> ending
 *     ending --shutdown_ms pass, or a second signal----> SIGKILL to all
 *
 * A rank that has ended stays a zombie until the job is over: its number cannot be given
 * to a stranger, so signals to its group are safe. At the end the groups get SIGKILL:
 * nothing that a rank started in its session survives.
 */
#include "launch/launch.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "launch/relay.h"
#include "launch/report.h"
#include "launch/worker.h"
#include "net/store_server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINGER_MS 1000
#define DRAIN_MS  1000

typedef struct job {
    const gr_launch_config *config;
    worker *workers;
    int n_ended;
    int signals; /* signalfd */
    bool is_lingering, is_ending, is_killed;
    gr_deadline next; /* of lingering, or from ending to SIGKILL */
    int64_t start_ns;
} job;

static void tell_all(job *j, int signal_number)
{
    for (int r = 0; r < j->config->n_ranks; r++)
        if (!j->workers[r].has_ended) {
            j->workers[r].was_told = true;
            gr_worker_signal(&j->workers[r], signal_number);
        }
}

static void end_all(job *j, int signal_number)
{
    j->is_ending = true;
    j->next = gr_deadline_in_ms(j->config->shutdown_ms);
    tell_all(j, signal_number);
}

static void kill_all(job *j)
{
    j->is_killed = true;
    tell_all(j, SIGKILL);
}

static void note_end(job *j, worker *w, const siginfo_t *info)
{
    bool killed = info->si_code != CLD_EXITED;

    w->has_ended = true;
    w->order = j->n_ended++;
    w->ended_ns = gr_now_ns();
    w->signal = killed ? info->si_status : 0;
    w->exit_code = killed ? -1 : info->si_status;
    if (j->is_ending || (!killed && w->exit_code == 0))
        return;
    if (!killed && w->exit_code == GR_EXIT_PEER) {
        if (!j->is_lingering)
            j->next = gr_deadline_in_ms(LINGER_MS);
        j->is_lingering = true;
        return;
    }
    end_all(j, SIGTERM);
}

static void look_at_workers(job *j)
{
    for (int r = 0; r < j->config->n_ranks; r++) {
        worker *w = &j->workers[r];
        siginfo_t info = { 0 };

        /* WNOWAIT: it stays a zombie. */
        if (!w->has_ended && waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == w->pid)
            note_end(j, w, &info);
    }
}

static void take_signals(job *j)
{
    struct signalfd_siginfo s;

    while (read(j->signals, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
        if (s.ssi_signo == SIGCHLD)
            look_at_workers(j);
        else if (j->is_ending)
            kill_all(j);
        else
            end_all(j, (int)s.ssi_signo);
    }
}

static gr_status watch(job *j)
{
    while (j->n_ended < j->config->n_ranks) {
        struct pollfd p = { .fd = j->signals, .events = POLLIN };
        bool timed = (j->is_lingering || j->is_ending) && !j->is_killed;

        if (poll(&p, 1, timed ? gr_deadline_left_ms(j->next) : -1) < 0 && errno != EINTR)
            return gr_fail(GR_ERR_IO, "poll: %s", strerror(errno));
        take_signals(j);
        if (!timed || !gr_deadline_passed(j->next))
            continue;
        if (j->is_ending)
            kill_all(j);
        else
            end_all(j, SIGTERM);
    }
    return GR_OK;
}

/* Also when watching failed: then the ranks are still there. */
static void bury(job *j)
{
    for (int r = 0; r < j->config->n_ranks; r++) {
        gr_worker_signal(&j->workers[r], SIGKILL);
        while (waitpid(j->workers[r].pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
}

static gr_status run(job *j, gr_store_server *server)
{
    relay *output = NULL;
    gr_status st;

    GR_TRY(gr_workers_start(j->workers, j->config, gr_store_server_port(server)));
    /* Threads come after the last fork(). */
    st = relay_start(&output, j->workers, j->config->n_ranks);
    if (st == GR_OK)
        st = gr_store_server_start(server);
    if (st == GR_OK)
        st = watch(j);
    bury(j);
    relay_finish(output, gr_deadline_in_ms(DRAIN_MS));
    /* A rank 0 that was killed may have left half a line on its terminal. */
    if (j->workers[0].signal && isatty(STDOUT_FILENO))
        (void)!write(STDOUT_FILENO, "\n", 1);
    return st;
}

static bool is_ignored(int signal_number)
{
    struct sigaction now;

    return sigaction(signal_number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static gr_status open_signals(int *fd, sigset_t *old)
{
    static const int watched[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
        if (watched[i] != SIGHUP || !is_ignored(SIGHUP)) /* nohup: the ranks inherit it */
            sigaddset(&set, watched[i]);
    *fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (*fd < 0)
        return gr_fail(GR_ERR_IO, "signalfd: %s", strerror(errno));
    sigprocmask(SIG_BLOCK, &set, old);
    signal(SIGPIPE, SIG_IGN); /* whoever reads our output may leave */
    return GR_OK;
}

gr_status gr_launch(const gr_launch_config *config, int *exit_code, gr_text *report)
{
    job j = { .config = config, .signals = -1, .start_ns = gr_now_ns() };
    gr_store_server *server = NULL;
    sigset_t old;
    gr_status st;

    j.workers = (worker *)gr_calloc((size_t)config->n_ranks, sizeof(*j.workers));
    if (!j.workers)
        return GR_ERR_NOMEM;
    st = open_signals(&j.signals, &old);
    if (st == GR_OK) {
        st = gr_store_server_create(&server, "127.0.0.1", config->port);
        if (st == GR_OK)
            st = run(&j, server);
        gr_store_server_destroy(server);
        close(j.signals);
        sigprocmask(SIG_SETMASK, &old, NULL);
    }
    if (st == GR_OK) {
        *exit_code = gr_report_exit_code(gr_report_root(j.workers, config->n_ranks));
        gr_report_write(report, j.workers, config->n_ranks, j.start_ns);
    }
    gr_free(j.workers);
    return st;
}

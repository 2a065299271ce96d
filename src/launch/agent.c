/* What all agents do: signals, the front, waiting. */
#include "launch/agent.h"

#include "base/alloc.h"
#include "launch/limits.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Signals that are handed to the ranks and change nothing else, unless the user lists them
 * among those that end the job. */
static const int passed_on[] = { SIGUSR1, SIGUSR2 };

static gr_status open_signals(gr_agent *a)
{
    sigset_t set = a->config->endings;

    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        sigaddset(&set, passed_on[i]);
    a->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (a->signals < 0)
        return gr_fail(GR_ERR_IO, "signalfd: %s", strerror(errno));
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN); /* whoever reads our output may leave */
    return GR_OK;
}

gr_status gr_agent_init(gr_agent *a, const gr_launch_config *c, int front, gr_logs *logs)
{
    *a = (gr_agent){ .config = c, .signals = -1, .front = front, .logs = logs };
    gr_limits_raise();
    return open_signals(a);
}

void gr_agent_fini(gr_agent *a)
{
    if (a->signals >= 0)
        close(a->signals);
}

bool gr_agent_must_stop(const gr_agent *a)
{
    return a->stop_signal != 0 || a->is_orphan;
}

static void take_ending(gr_agent *a, int number)
{
    if (a->stop_signal == 0)
        a->stop_signal = number;
    if (a->round)
        gr_round_stop(a->round, number);
}

static void ask_witness(gr_agent *a)
{
    int number = a->round ? gr_witness_heard(&a->round->witness) : 0;

    if (number == 0)
        return;
    if (a->stop_signal == 0)
        a->stop_signal = number;
    gr_round_was_hit(a->round, number);
}

static void take_signals(gr_agent *a)
{
    struct signalfd_siginfo s;

    while (read(a->signals, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
        int number = (int)s.ssi_signo;

        if (number == SIGCHLD) {
            if (a->round)
                gr_round_look(a->round);
        } else if (sigismember(&a->config->endings, number) == 1) {
            take_ending(a, number);
        } else if (a->round) {
            gr_round_signal(a->round, number);
        }
    }
}

/* Nobody can be told any more; the ranks end now. */
static void become_orphan(gr_agent *a)
{
    a->is_orphan = true;
    a->front = -1;
    if (a->round)
        gr_round_kill(a->round);
}

gr_status gr_agent_wait(gr_agent *a, int fd, int ms)
{
    struct pollfd p[4] = { { .fd = a->signals, .events = POLLIN },
                           { .fd = a->front, .events = POLLIN },
                           { .fd = fd, .events = POLLIN },
                           { .fd = a->round ? a->round->witness.fd : -1, .events = POLLIN } };
    int left = a->round ? gr_round_tick(a->round) : -1;

    if (left >= 0 && (ms < 0 || left < ms))
        ms = left;
    if (poll(p, 4, ms) < 0 && errno != EINTR)
        return gr_fail(GR_ERR_IO, "poll: %s", strerror(errno));
    if (p[1].revents)
        become_orphan(a);
    ask_witness(a); /* first: ranks that have had the signal are not told, nor blamed */
    take_signals(a);
    return GR_OK;
}

gr_status gr_agent_settle(gr_agent *a)
{
    gr_deadline d = gr_deadline_in_ms(gr_round_looks_stopped(a->round) ? GR_SPREAD_MS : 0);

    do
        GR_TRY(gr_agent_wait(a, -1, gr_deadline_left_ms(d)));
    while (!gr_agent_must_stop(a) && !gr_deadline_passed(d));
    return GR_OK;
}

gr_status gr_token_make(char out[GR_TOKEN_TEXT])
{
    unsigned char bits[(GR_TOKEN_TEXT - 1) / 4];

    if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
        return gr_fail(GR_ERR_IO, "getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof(bits); i++)
        snprintf(out + 2 * i, 3, "%02x", bits[i]);
    return GR_OK;
}

/*
 * Signals. One request may come more than once: a service manager or a batch system signals every
 * process of a job, and the launcher passes its own on; timeout(1) signals its child and then the
 * group; people press Ctrl-C twice. What follows the first one closely is the same request.
 *
 * The handler is the only code that runs asynchronously. It touches static variables, which
 * is why there is one watch per process.
 */
#include "train/stop.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* How late an echo may come. Who sends it has 2 s, and it may take its way by the launchers of two
 * hosts; they have the same time (launch/round.h). */
#define SAME_REQUEST_NS 3000000000

static const int watched[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
#define N_WATCHED ((int)(sizeof(watched) / sizeof(watched[0])))

static volatile sig_atomic_t stop_signal;
static int64_t stopped_at_ns; /* used by the handler only; all of them are blocked in it */
static struct sigaction before[N_WATCHED];
static bool is_watching;

static void note(int number)
{
    struct timespec now;
    int64_t now_ns;

    clock_gettime(CLOCK_MONOTONIC, &now); /* async-signal-safe */
    now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (stop_signal == 0) {
        stopped_at_ns = now_ns;
        stop_signal = number;
    } else if (now_ns - stopped_at_ns > SAME_REQUEST_NS) {
        signal(number, SIG_DFL);
        raise(number); /* delivered when the handler returns */
    }
}

void gr_stop_watch(void)
{
    struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESTART };

    stop_signal = 0;
    is_watching = true;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < N_WATCHED; i++)
        sigaddset(&action.sa_mask, watched[i]);
    for (int i = 0; i < N_WATCHED; i++) {
        sigaction(watched[i], NULL, &before[i]);
        if (watched[i] != SIGHUP || before[i].sa_handler != SIG_IGN)
            sigaction(watched[i], &action, NULL);
    }
}

int gr_stop_signal(void)
{
    return stop_signal;
}

void gr_stop_unwatch(void)
{
    for (int i = 0; is_watching && i < N_WATCHED; i++)
        sigaction(watched[i], &before[i], NULL);
    is_watching = false;
}

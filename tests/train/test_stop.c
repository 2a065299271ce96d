/* Signals: the first is noted, its echo too, a later one ends the process. */
#include "train/stop.h"

#include "check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* SIGTERM, and after each of the pauses another signal. */
static int end_of_child(const unsigned *pauses_us, int n)
{
    pid_t pid = fork();
    int status;

    GR_CHECK(pid >= 0);
    if (pid == 0) {
        gr_stop_watch();
        raise(SIGTERM);
        for (int i = 0; i < n; i++) {
            if (gr_stop_signal() != SIGTERM)
                _exit(3);
            usleep(pauses_us[i]);
            raise(i % 2 ? SIGTERM : SIGINT);
        }
        _exit(7); /* lived through it */
    }
    GR_CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

int main(void)
{
    /* 2 s are promised to who sends them; the last takes its way by the launchers of two hosts. */
    static const unsigned echoes[] = { 0, 5000, 200000, 2100000 }, later[] = { 3100000 };
    int status = end_of_child(echoes, 4);

    /* A busy machine may hold the child up in between for longer. */
    for (int i = 0; i < 5 && !WIFEXITED(status); i++)
        status = end_of_child(echoes, 4);
    GR_CHECK(WIFEXITED(status));
    GR_CHECK_EQ(WEXITSTATUS(status), 7);
    status = end_of_child(later, 1);
    GR_CHECK(WIFSIGNALED(status));
    GR_CHECK_EQ(WTERMSIG(status), SIGINT);

    signal(SIGHUP, SIG_DFL); /* whatever this test was started under */
    for (int i = 0; i < 2; i++) {
        gr_stop_watch();
        GR_CHECK_EQ(gr_stop_signal(), 0);
        raise(i ? SIGHUP : SIGINT);
        GR_CHECK_EQ(gr_stop_signal(), i ? SIGHUP : SIGINT);
        gr_stop_unwatch();
    }
    signal(SIGHUP, SIG_IGN); /* as under nohup */
    gr_stop_watch();
    raise(SIGHUP);
    GR_CHECK_EQ(gr_stop_signal(), 0);
    gr_stop_unwatch();
    GR_CHECK(signal(SIGHUP, SIG_DFL) == SIG_IGN);
    return 0;
}

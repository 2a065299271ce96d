/* Signals: the first is noted, its echo too, a later one ends the process. */
#include "train/stop.h"

#include "check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int end_of_child(bool has_launcher, unsigned pause_us)
{
    pid_t pid = fork();
    int status;

    GR_CHECK(pid >= 0);
    if (pid == 0) {
        gr_stop_watch(has_launcher);
        raise(SIGTERM);
        if (gr_stop_signal() != SIGTERM)
            _exit(3);
        usleep(pause_us);
        raise(SIGTERM);
        _exit(7); /* lived through it */
    }
    GR_CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

int main(void)
{
    /* An echo comes within a second, or 0.1 s; a busy machine may hold the child up in between for
     * longer. */
    for (int launched = 0; launched < 2; launched++) {
        int status = end_of_child(launched, launched ? 300000 : 100);

        for (int i = 0; i < 5 && !WIFEXITED(status); i++)
            status = end_of_child(launched, launched ? 300000 : 100);
        GR_CHECK(WIFEXITED(status));
        GR_CHECK_EQ(WEXITSTATUS(status), 7);
        status = end_of_child(launched, launched ? 1100000 : 150000);
        GR_CHECK(WIFSIGNALED(status));
        GR_CHECK_EQ(WTERMSIG(status), SIGTERM);
    }

    signal(SIGHUP, SIG_DFL); /* whatever this test was started under */
    for (int i = 0; i < 2; i++) {
        gr_stop_watch(false);
        GR_CHECK_EQ(gr_stop_signal(), 0);
        raise(i ? SIGHUP : SIGINT);
        GR_CHECK_EQ(gr_stop_signal(), i ? SIGHUP : SIGINT);
        gr_stop_unwatch();
    }
    signal(SIGHUP, SIG_IGN); /* as under nohup */
    gr_stop_watch(false);
    raise(SIGHUP);
    GR_CHECK_EQ(gr_stop_signal(), 0);
    gr_stop_unwatch();
    GR_CHECK(signal(SIGHUP, SIG_DFL) == SIG_IGN);
    return 0;
}

/* Front and agent. */
#include "launch/guard.h"

#include "base/clock.h"
#include "launch/round.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_CHILDREN 8192

/* ---- who is below us ---- */

/* The text of a small file of /proc; false when there is none. */
static bool read_small(const char *path, char *text, size_t text_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = 1;

    if (fd < 0)
        return false;
    while (n > 0 && len + 1 < text_bytes) {
        n = read(fd, text + len, text_bytes - 1 - len);
        len += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    text[len] = '\0';
    return true;
}

/* Children of one of our threads; the kernel lists them. Returns how many there are now. */
static int add_children_of(const char *thread, pid_t *out, int n)
{
    static char text[MAX_CHILDREN * 8]; /* one caller: the main thread */
    char path[64], *at = text, *end;

    snprintf(path, sizeof(path), "/proc/self/task/%.20s/children", thread);
    if (!read_small(path, text, sizeof(text)))
        return -1;
    while (n < MAX_CHILDREN) {
        long pid = strtol(at, &end, 10);

        if (end == at || pid <= 0)
            break;
        out[n++] = (pid_t)pid;
        at = end;
    }
    return n;
}

/* "pid (name) state parent ..."; the name may have anything in it. */
static pid_t parent_of(const char *pid)
{
    char path[64], text[512];
    const char *at;

    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    if (!read_small(path, text, sizeof(text)))
        return 0;
    at = strrchr(text, ')');
    return at && strlen(at) > 4 ? (pid_t)strtol(at + 4, NULL, 10) : 0;
}

/* For kernels that do not list children: everybody's parent is asked for. */
static int scan_all(pid_t *out)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    int n = 0;

    while (d && n < MAX_CHILDREN && (e = readdir(d)) != NULL)
        if (isdigit((unsigned char)e->d_name[0]) && parent_of(e->d_name) == getpid())
            out[n++] = (pid_t)strtol(e->d_name, NULL, 10);
    if (d)
        closedir(d);
    return n;
}

static int children(pid_t *out)
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    int n = d ? 0 : -1;

    while (n >= 0 && (e = readdir(d)) != NULL)
        if (e->d_name[0] != '.')
            n = add_children_of(e->d_name, out, n);
    if (d)
        closedir(d);
    return n < 0 ? scan_all(out) : n;
}

/* True when nobody is left. */
static bool reap_all(void)
{
    pid_t pid;

    do
        pid = waitpid(-1, NULL, WNOHANG);
    while (pid > 0 || (pid < 0 && errno == EINTR));
    return pid < 0;
}

void gr_guard_end_descendants(int grace_ms)
{
    static pid_t list[MAX_CHILDREN]; /* one caller: the main thread */
    const struct timespec pause = { .tv_nsec = 2000000 };
    gr_deadline grace = gr_deadline_in_ms(grace_ms);
    bool was_told = false;

    /* Each death may hand its children to us, so this goes down the tree level by level. */
    while (!reap_all()) {
        bool patient = grace_ms > 0 && !gr_deadline_passed(grace);
        int n = patient && was_told ? 0 : children(list);

        for (int i = 0; i < n; i++) {
            kill(list[i], patient ? SIGTERM : SIGKILL);
            if (patient)
                kill(list[i], SIGCONT);
        }
        was_told = true;
        nanosleep(&pause, NULL);
    }
}

void gr_guard_reap_strays(const pid_t *ours, int n_ours)
{
    static pid_t list[MAX_CHILDREN];
    int n = children(list);

    for (int i = 0; i < n; i++) {
        bool is_ours = false;

        for (int k = 0; k < n_ours && !is_ours; k++)
            is_ours = ours[k] == list[i];
        if (!is_ours)
            (void)waitpid(list[i], NULL, WNOHANG);
    }
}

/* ---- the front ---- */

/* The stop as the front has seen it. */
typedef struct front_stop {
    int signal; /* the first one; 0: none */
    int64_t ns;
} front_stop;

/* Those who signal twice in short time (timeout(1): its child, then the group) mean one stop. The
 * agent would know, too; but it may be busy, and the second one would reach it late. */
static bool is_new(front_stop *s, int number)
{
    if (s->signal != 0)
        return gr_now_ns() - s->ns >= GR_SAME_STOP_MS * (int64_t)1000000;
    *s = (front_stop){ number, gr_now_ns() };
    return true;
}

static void tell_end(gr_guard *g, pid_t agent, int status, const front_stop *stop, gr_text *report)
{
    g->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (WIFSIGNALED(status))
        gr_text_addf(report,
                     "the process that watches the ranks (%d) was killed by signal %d (SIG%s); all "
                     "ranks were ended\n",
                     (int)agent, WTERMSIG(status), sigabbrev_np(WTERMSIG(status)));
    /* Whether the ranks had it from somebody else and stopped, nobody knows. */
    if (g->exit_code == 0 && stop->signal != 0) {
        g->exit_code = 128 + stop->signal;
        gr_text_addf(report,
                     "stopped by SIG%s; it came when all ranks had ended with exit code 0\n",
                     sigabbrev_np(stop->signal));
    }
}

static void front_wait(gr_guard *g, pid_t agent, const sigset_t *waited, gr_text *report)
{
    front_stop stop = { 0, 0 };
    int status = 0;

    for (;;) {
        siginfo_t info;
        pid_t ended = waitpid(agent, &status, WNOHANG);

        if (ended == agent || (ended < 0 && errno == ECHILD))
            break;
        if (sigwaitinfo(waited, &info) > 0 && info.si_signo != SIGCHLD &&
            (sigismember(&g->endings, info.si_signo) != 1 || is_new(&stop, info.si_signo)))
            kill(agent, info.si_signo);
    }
    /* Usually there is nobody: the agent has seen to that. */
    gr_guard_end_descendants(0);
    tell_end(g, agent, status, &stop, report);
}

static void be_agent(gr_guard *g, int front)
{
    setsid();
    prctl(PR_SET_NAME, "gradrun-agent");
    g->is_front = false;
    g->front = front;
}

gr_status gr_guard_start(gr_guard *g, const sigset_t *signals, gr_text *report)
{
    int ends[2];
    pid_t agent;

    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return gr_fail(GR_ERR_IO, "prctl: %s", strerror(errno));
    if (pipe2(ends, O_CLOEXEC) != 0)
        return gr_fail(GR_ERR_IO, "pipe: %s", strerror(errno));
    agent = fork();
    if (agent == 0) {
        close(ends[1]);
        prctl(PR_SET_CHILD_SUBREAPER, 1); /* not inherited by fork */
        be_agent(g, ends[0]);
        return GR_OK;
    }
    close(ends[0]);
    if (agent < 0) {
        close(ends[1]);
        return gr_fail(GR_ERR_IO, "fork: %s", strerror(errno));
    }
    g->is_front = true;
    front_wait(g, agent, signals, report); /* the pipe's other end stays open meanwhile */
    close(ends[1]);
    return GR_OK;
}

/*
 * Starting processes.
 *
 * Environment and words are made before fork(): the child calls only functions that are safe
 * after it, because other threads of ours may run. Each child is a session of its own, so a
 * signal to its group reaches what it started too, and it dies with us (PR_SET_PDEATHSIG).
 */
#include "launch/worker.h"

#include "base/alloc.h"
#include "launch/bind.h"
#include "launch/command.h"
#include "launch/environ.h"
#include "launch/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child needs; everything is ready before fork(). */
typedef struct start {
    gr_command command;
    gr_environ environment;
    gr_binding *binding; /* NULL: none */
    pid_t parent;
    int local_rank;
    int in, out, err; /* to become 0, 1, 2; -1: as they are */
    int fault;        /* close-on-exec: errno goes here when exec fails */
} start;

static void be_child(const start *s) __attribute__((noreturn));
static void be_child(const start *s)
{
    const int streams[3] = { s->in, s->out, s->err };
    sigset_t none;
    ssize_t n;
    int error;

    setsid();
    sigemptyset(&none);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() != s->parent)
        _exit(1); /* the launcher died before it could be heard */
    for (int i = 0; i < 3; i++)
        if (streams[i] >= 0 && dup2(streams[i], i) < 0)
            goto fail;
    gr_binding_apply(s->binding, s->local_rank);
    gr_limits_restore();
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL); /* ignored in a shell's background, but we hand them on */
    signal(SIGQUIT, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(s->command.path, s->command.words, s->environment.words);

fail:
    error = errno;
    do
        n = write(s->fault, &error, sizeof(error));
    while (n < 0 && errno == EINTR);
    _exit(127);
}

static gr_status fork_child(worker *w, const start *s)
{
    w->pid = fork();
    if (w->pid == 0)
        be_child(s);
    if (w->pid < 0) {
        w->pid = 0;
        return gr_fail(GR_ERR_IO, "fork: %s%s", strerror(errno),
                       errno == EAGAIN ? " (raise the limit on processes: ulimit -u)" : "");
    }
    return GR_OK;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static const char *what_to_do(const char *program, int error)
{
    struct stat st;
    bool is_there = stat(program, &st) == 0;

    if (error == ENOEXEC)
        return " (a script begins with #!)";
    if (error == EACCES && is_there && S_ISDIR(st.st_mode))
        return " (it is a folder)";
    if (error == EACCES && is_there)
        return " (chmod +x makes it a program; a Python script ends in .py)";
    if (error == ENOENT && is_there)
        return " (the file is there: the interpreter that its first line names is not)";
    if (error == ENOENT && !strchr(program, '/'))
        return " (it is neither in PATH nor beside gradrun)";
    return "";
}

/* The pipe closes by itself when exec works, and nothing is read; when it fails the child
 * sends errno. Either way we know, and the child is in its own session by then. */
static gr_status wait_for_exec(int fd, const char *program)
{
    int error = 0;
    ssize_t n;

    do
        n = read(fd, &error, sizeof(error));
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return GR_OK;
    return gr_fail(GR_ERR_IO, "cannot execute '%s': %s%s", program, strerror(error),
                   what_to_do(program, error));
}

static gr_status make_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) == 0)
        return GR_OK;
    return gr_fail(GR_ERR_IO, "pipe: %s%s", strerror(errno),
                   errno == EMFILE ? " (raise the limit: ulimit -n)" : "");
}

/* Where a stream goes: into a pipe of ours, a file, or nowhere. *theirs: the child's end. */
static gr_status open_stream(worker_stream *s, const gr_launch_config *c, const gr_logs *logs,
                             const worker *w, int bit, int *theirs)
{
    const char *name = bit == GR_STD_OUT ? "stdout.log" : "stderr.log";
    bool filed = (gr_std_mode(c->redirects, w->local_rank) & bit) != 0;
    int pipes[2];

    s->is_tee = (gr_std_mode(c->tee, w->local_rank) & bit) != 0;
    s->is_shown = gr_list_has(c->ranks_filter, w->local_rank) && (s->is_tee || !filed);
    if (filed && !s->is_tee)
        return gr_logs_open(logs, w->local_rank, name, theirs);
    if (s->is_tee)
        GR_TRY(gr_logs_open(logs, w->local_rank, name, &s->file));
    if (bit == GR_STD_OUT && w->local_rank == 0 && s->is_shown && !s->is_tee && !c->prefix &&
        !c->out_filters && isatty(STDOUT_FILENO))
        return GR_OK; /* the terminal itself: *theirs stays -1 */
    GR_TRY(make_pipe(pipes));
    s->pipe = pipes[0];
    *theirs = pipes[1];
    return GR_OK;
}

static gr_status fork_one(worker *w, start *s)
{
    int fault[2];
    gr_status st;

    GR_TRY(make_pipe(fault));
    s->fault = fault[1];
    st = fork_child(w, s);
    close(fault[1]);
    if (st == GR_OK)
        st = wait_for_exec(fault[0], s->command.path);
    close(fault[0]);
    return st;
}

static gr_status start_one(worker *w, start *s, const gr_launch_config *c, const gr_place *p,
                           const gr_logs *logs)
{
    gr_text error_file = GR_TEXT_INIT;
    gr_status st;

    gr_logs_path(logs, w->local_rank, "error.json", &error_file);
    st = gr_text_status(&error_file);
    if (st == GR_OK)
        st = gr_environ_rank(&s->environment, c, p, w->local_rank, gr_text_str(&error_file));
    gr_text_fini(&error_file);
    gr_command_set_rank(&s->command, w->local_rank);
    s->local_rank = w->local_rank;
    s->out = s->err = -1;
    if (st == GR_OK)
        st = open_stream(&w->out, c, logs, w, GR_STD_OUT, &s->out);
    if (st == GR_OK)
        st = open_stream(&w->err, c, logs, w, GR_STD_ERR, &s->err);
    w->has_terminal = s->out < 0;
    if (st == GR_OK)
        st = fork_one(w, s);
    close_fd(&s->out);
    close_fd(&s->err);
    return gr_wrap(st, "rank %d did not start", w->rank);
}

static void kill_all(worker *workers, int n)
{
    for (int r = 0; r < n; r++) {
        worker_stream *streams[2] = { &workers[r].out, &workers[r].err };

        if (workers[r].pid > 0) {
            gr_worker_signal(&workers[r], SIGKILL);
            kill(workers[r].pid, SIGKILL); /* it may not have got to its own session */
            waitpid(workers[r].pid, NULL, 0);
            workers[r].pid = 0;
        }
        for (int i = 0; i < 2; i++) {
            close_fd(&streams[i]->pipe);
            close_fd(&streams[i]->file);
        }
    }
}

static gr_status start_all(worker *workers, const gr_launch_config *c, const gr_place *p,
                           const gr_logs *logs, start *s)
{
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    gr_status st = GR_OK;

    for (int r = 0; r < c->n_local && st == GR_OK; r++) {
        s->in = workers[r].rank == 0 ? -1 : null_fd; /* only rank 0 may read what the user types */
        st = start_one(&workers[r], s, c, p, logs);
    }
    close_fd(&null_fd);
    return st;
}

gr_status gr_workers_start(worker *workers, const gr_launch_config *c, const gr_place *p,
                           const gr_logs *logs)
{
    start s = { .parent = getpid(), .in = -1 };
    gr_status st;

    for (int r = 0; r < c->n_local; r++)
        workers[r] = (worker){ .rank = p->first_rank + r,
                               .local_rank = r,
                               .out = { -1, -1, false, false },
                               .err = { -1, -1, false, false } };
    st = gr_environ_init(&s.environment, c, p);
    if (st == GR_OK)
        st = gr_command_init(&s.command, c);
    if (st == GR_OK && c->bind != GR_BIND_NONE)
        st = gr_binding_create(&s.binding, c->bind, c->n_local);
    if (st == GR_OK)
        st = start_all(workers, c, p, logs, &s);
    if (st != GR_OK)
        kill_all(workers, c->n_local);
    gr_binding_destroy(s.binding);
    gr_command_fini(&s.command);
    gr_environ_fini(&s.environment);
    return st;
}

void gr_worker_signal(const worker *w, int signal_number)
{
    if (w->pid <= 0)
        return;
    /* No such group: all of it has ended, which is what signals to a job are for. */
    (void)kill(-w->pid, signal_number);
    if (signal_number != SIGKILL)
        (void)kill(-w->pid, SIGCONT); /* a stopped process would never notice */
}

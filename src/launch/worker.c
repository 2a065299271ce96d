/*
 * Starting processes.
 *
 * The environment is made before fork(): the child calls only functions that are safe
 * after it. Each child is a session of its own, so a signal to its group reaches what it
 * started too, and it dies with the launcher (PR_SET_PDEATHSIG).
 */
#include "launch/worker.h"

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- environment ---- */

/* A list of "NAME=value" that owns its words. */
typedef struct env {
    char **words; /* ended by NULL */
    int n, cap;
} env;

static void env_fini(env *e)
{
    for (int i = 0; i < e->n; i++)
        gr_free(e->words[i]);
    gr_free(e->words);
    *e = (env){ 0 };
}

static gr_status env_put(env *e, const char *word)
{
    size_t name_len = strcspn(word, "=") + 1;
    char *copy = gr_strdup(word);

    if (!copy)
        return GR_ERR_NOMEM;
    for (int i = 0; i < e->n; i++)
        if (strncmp(e->words[i], word, name_len) == 0) {
            gr_free(e->words[i]);
            e->words[i] = copy;
            return GR_OK;
        }
    if (gr_grow((void **)&e->words, &e->cap, e->n + 2, sizeof(char *)) != GR_OK) {
        gr_free(copy);
        return GR_ERR_NOMEM;
    }
    e->words[e->n++] = copy;
    e->words[e->n] = NULL;
    return GR_OK;
}

static gr_status env_put_int(env *e, const char *name, int value)
{
    char word[80];

    snprintf(word, sizeof(word), "%s=%d", name, value);
    return env_put(e, word);
}

static gr_status put_threads(env *e, int n_ranks)
{
    int n = gr_cpu_count() / n_ranks;

    if (getenv("OMP_NUM_THREADS") || n_ranks == 1)
        return GR_OK;
    n = n > 0 ? n : 1;
    gr_log(LAUNCH, DEBUG, "OMP_NUM_THREADS is not set: %d for each of %d ranks (cores / ranks)", n,
           n_ranks);
    return env_put_int(e, "OMP_NUM_THREADS", n);
}

/* What all ranks have in common: torchrun's variables for one host. */
static gr_status env_common(env *e, const gr_launch_config *c, int port)
{
    static const char *const fixed[] = {
        "GROUP_RANK=0",
        "GROUP_WORLD_SIZE=1",
        "ROLE_NAME=default",
        "MASTER_ADDR=127.0.0.1",
        "TORCHELASTIC_RESTART_COUNT=0",
        "TORCHELASTIC_MAX_RESTARTS=0",
        "TORCHELASTIC_RUN_ID=none",
        "TORCHELASTIC_USE_AGENT_STORE=True",
        "TORCHELASTIC_ERROR_FILE=",
        "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT",
    };
    static const char *const sizes[] = { "LOCAL_WORLD_SIZE", "WORLD_SIZE", "ROLE_WORLD_SIZE" };

    for (char **word = environ; *word; word++)
        GR_TRY(env_put(e, *word));
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        GR_TRY(env_put(e, fixed[i]));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        GR_TRY(env_put_int(e, sizes[i], c->n_ranks));
    if (!getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING"))
        GR_TRY(env_put(e, "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"));
    GR_TRY(put_threads(e, c->n_ranks));
    return env_put_int(e, "MASTER_PORT", port);
}

static gr_status env_of_rank(env *e, int rank)
{
    GR_TRY(env_put_int(e, "RANK", rank));
    GR_TRY(env_put_int(e, "LOCAL_RANK", rank));
    return env_put_int(e, "ROLE_RANK", rank);
}

/* ---- one process ---- */

static bool is_program(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

static bool is_in_path(const char *name)
{
    const char *path = getenv("PATH");
    gr_text file = GR_TEXT_INIT;
    bool found = false;

    while (path && *path && !found) {
        size_t len = strcspn(path, ":");

        file.len = 0;
        gr_text_addf(&file, "%.*s/%s", (int)len, len > 0 ? path : ".", name);
        found = is_program(gr_text_str(&file));
        path += len + (path[len] == ':');
    }
    gr_text_fini(&file);
    return found;
}

/* Our programs lie in one folder, which need not be in PATH: "gradus" is then found beside
 * this program. Owned by the caller; NULL: the word is to be taken as it is. */
static char *find_beside(const char *name)
{
    char self[4096];
    gr_text file = GR_TEXT_INIT;
    ssize_t n;

    if (strchr(name, '/') || is_in_path(name))
        return NULL;
    n = readlink("/proc/self/exe", self, sizeof(self));
    while (n > 0 && self[n - 1] != '/')
        n--;
    gr_text_addn(&file, self, n > 0 ? (size_t)n : 0);
    gr_text_add(&file, name);
    if (n > 0 && gr_text_status(&file) == GR_OK && is_program(file.str))
        return file.str;
    gr_text_fini(&file);
    return NULL;
}

/* The words to execute: ".py" programs run under python3, unbuffered. `found` stands for
 * the first word unless it is NULL. */
static gr_status command(char ***out, const gr_launch_config *c, char *found)
{
    const char *program = c->argv[0], *python = getenv("PYTHON_EXEC");
    size_t len = strlen(program), n = 0, at = 0;
    bool is_python = !c->no_python && len > 3 && strcmp(program + len - 3, ".py") == 0;
    char **words;

    while (c->argv[n])
        n++;
    words = (char **)gr_calloc(n + 3, sizeof(*words));
    if (!words)
        return GR_ERR_NOMEM;
    if (is_python) {
        static char unbuffered[] = "-u";
        static char python3[] = "python3";

        words[at++] = python ? getenv("PYTHON_EXEC") : python3;
        words[at++] = unbuffered;
    }
    memcpy(words + at, c->argv, n * sizeof(*words));
    if (found && !is_python)
        words[at] = found;
    *out = words;
    return GR_OK;
}

/* What the child needs; everything is ready before fork(). */
typedef struct start {
    char **words, **environment;
    pid_t parent;
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
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(s->words[0], s->words, s->environment);

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
        return gr_fail(GR_ERR_IO, "fork: %s", strerror(errno));
    }
    return GR_OK;
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
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
    return gr_fail(GR_ERR_IO, "cannot execute '%s': %s", program, strerror(error));
}

static gr_status start_one(worker *w, start *s)
{
    int out[2] = { -1, -1 }, err[2] = { -1, -1 }, fault[2] = { -1, -1 };
    bool own_terminal = w->rank == 0 && isatty(STDOUT_FILENO);
    gr_status st = GR_OK;

    if ((!own_terminal && pipe2(out, O_CLOEXEC) != 0) || pipe2(err, O_CLOEXEC) != 0 ||
        pipe2(fault, O_CLOEXEC) != 0) {
        st = gr_fail(GR_ERR_IO, "pipe: %s", strerror(errno));
    } else {
        s->out = out[1];
        s->err = err[1];
        s->fault = fault[1];
        st = fork_child(w, s);
    }
    if (st == GR_OK) {
        close(fault[1]);
        fault[1] = -1;
        st = wait_for_exec(fault[0], s->words[0]);
    }
    close_pair(fault);
    if (st == GR_OK) {
        w->out = out[0];
        w->err = err[0];
        out[0] = err[0] = -1;
    }
    close_pair(out);
    close_pair(err);
    return gr_wrap(st, "rank %d did not start", w->rank);
}

static void kill_all(worker *workers, int n)
{
    for (int r = 0; r < n; r++)
        if (workers[r].pid > 0) {
            gr_worker_signal(&workers[r], SIGKILL);
            kill(workers[r].pid, SIGKILL); /* it may not have got to its own session */
            waitpid(workers[r].pid, NULL, 0);
        }
}

static gr_status start_all(worker *workers, const gr_launch_config *c, int port, env *e)
{
    start s = { .parent = getpid(), .in = -1 };
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    gr_status st = env_common(e, c, port);
    char *found = NULL;

    if (st == GR_OK)
        found = find_beside(c->argv[0]);
    if (st == GR_OK)
        st = command(&s.words, c, found);
    for (int r = 0; r < c->n_ranks && st == GR_OK; r++) {
        st = env_of_rank(e, r);
        s.environment = e->words;
        s.in = r == 0 ? -1 : null_fd; /* only rank 0 may read what the user types */
        if (st == GR_OK)
            st = start_one(&workers[r], &s);
    }
    if (null_fd >= 0)
        close(null_fd);
    gr_free(s.words);
    gr_free(found);
    return st;
}

gr_status gr_workers_start(worker *workers, const gr_launch_config *config, int port)
{
    env e = { 0 };
    gr_status st;

    for (int r = 0; r < config->n_ranks; r++)
        workers[r] = (worker){ .rank = r, .out = -1, .err = -1 };
    st = start_all(workers, config, port, &e);
    if (st != GR_OK)
        kill_all(workers, config->n_ranks);
    env_fini(&e);
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

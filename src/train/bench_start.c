/*
 * Times a whole start: exec, dynamic linking, opening the device, tracing, passes, plan.
 * Only another process can see that from the outside, so the program starts itself.
 */
#include "train/bench.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENV_BORN  "GR_BENCH_BORN_NS"
#define MAX_TRIES 32
#define MAX_MS    120000
#define REPORT    "start_ns %" PRId64 " %" PRId64 "\n"

extern char **environ;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

double gr_median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof(*x), compare);
    return 0.5 * (x[(n - 1) / 2] + x[n / 2]);
}

int64_t gr_start_born_ns(void)
{
    const char *text = getenv(ENV_BORN);

    return text ? strtoll(text, NULL, 10) : 0;
}

void gr_start_report(FILE *out, int64_t born_ns, int64_t kernel_ns, int64_t step_ns)
{
    fprintf(out, REPORT, kernel_ns - born_ns, step_ns - born_ns);
    fflush(out);
}

/* All that comes from fd until it closes; GR_ERR_TIMEOUT after MAX_MS. */
static gr_status read_all(int fd, char *text, size_t n_bytes)
{
    gr_deadline deadline = gr_deadline_in_ms(MAX_MS);
    size_t len = 0;

    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        ssize_t n;

        if (poll(&p, 1, gr_deadline_left_ms(deadline)) == 0)
            return gr_fail(GR_ERR_TIMEOUT, "the started program said nothing for %d ms", MAX_MS);
        n = read(fd, text + len, n_bytes - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || len + (size_t)n == n_bytes - 1) {
            text[len] = '\0';
            return n < 0 ? gr_fail(GR_ERR_IO, "read: %s", strerror(errno)) : GR_OK;
        }
        len += (size_t)n;
    }
}

static gr_status spawn(char *const *argv, int out, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    char born[64];
    int err;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    snprintf(born, sizeof(born), "%" PRId64, gr_now_ns());
    setenv(ENV_BORN, born, 1);
    err = posix_spawn(pid, "/proc/self/exe", &actions, NULL, argv, environ);
    unsetenv(ENV_BORN);
    posix_spawn_file_actions_destroy(&actions);
    if (err)
        return gr_fail(GR_ERR_IO, "cannot start this program again: %s", strerror(err));
    return GR_OK;
}

/* "start_ns A B" */
static bool parse_report(const char *text, int64_t *kernel_ns, int64_t *step_ns)
{
    static const char head[] = "start_ns ";
    char *end;

    if (strncmp(text, head, strlen(head)) != 0)
        return false;
    *kernel_ns = strtoll(text + strlen(head), &end, 10);
    if (*end != ' ')
        return false;
    *step_ns = strtoll(end, &end, 10);
    return *end == '\n';
}

static gr_status measure_once(char *const *argv, int64_t *kernel_ns, int64_t *step_ns)
{
    char text[256];
    int fd[2], code = 0;
    pid_t pid;
    gr_status st;

    if (pipe2(fd, O_CLOEXEC) != 0)
        return gr_fail(GR_ERR_IO, "pipe: %s", strerror(errno));
    st = spawn(argv, fd[1], &pid);
    close(fd[1]);
    if (st == GR_OK) {
        st = read_all(fd[0], text, sizeof(text));
        if (st != GR_OK)
            kill(pid, SIGKILL);
        waitpid(pid, &code, 0);
    }
    close(fd[0]);
    if (st == GR_OK && (code != 0 || !parse_report(text, kernel_ns, step_ns)))
        st = gr_fail(GR_ERR_IO, "the started program ended with status %d and said '%s'", code,
                     text);
    return st;
}

static gr_status measure(char *const *argv, int n, gr_start_times *out)
{
    double kernel_ms[MAX_TRIES], step_ms[MAX_TRIES];

    for (int i = 0; i < n; i++) {
        int64_t kernel_ns = 0, step_ns = 0;

        GR_TRY(measure_once(argv, &kernel_ns, &step_ns));
        kernel_ms[i] = (double)kernel_ns * 1e-6;
        step_ms[i] = (double)step_ns * 1e-6;
    }
    out->first_kernel_ms = gr_median(kernel_ms, n);
    out->first_step_ms = gr_median(step_ms, n);
    return GR_OK;
}

gr_status gr_start_measure(const gr_command *c, int n, gr_start_times *out)
{
    char **argv = gr_calloc((size_t)c->argc + 3, sizeof(*argv));
    gr_status st;

    GR_BUG_IF(n < 1 || n > MAX_TRIES);
    if (!argv)
        return GR_ERR_NOMEM;
    argv[0] = (char *)(uintptr_t)c->program;
    argv[1] = (char *)(uintptr_t) "bench";
    for (int i = 0; i < c->argc; i++)
        argv[i + 2] = c->argv[i];
    st = measure(argv, n, out);
    gr_free(argv);
    return gr_wrap(st, "timing a start");
}

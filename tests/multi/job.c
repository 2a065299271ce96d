/* Processes under test. */
#include "multi/job.h"

#include "base/clock.h"
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_MS 120000

void job_start(job *j, char *const *words, char *const *env)
{
    int pipes[2];

    *j = (job){ .output = GR_TEXT_INIT };
    GR_CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    j->pid = fork();
    GR_CHECK(j->pid >= 0);
    if (j->pid == 0) {
        dup2(pipes[1], 1);
        dup2(pipes[1], 2);
        while (env && *env)
            if (putenv(*env++) != 0)
                _exit(126);
        execv(words[0], words);
        _exit(127);
    }
    close(pipes[1]);
    j->fd = pipes[0];
}

/* False at the end of the output. */
static bool read_some(job *j, gr_deadline d)
{
    struct pollfd p = { .fd = j->fd, .events = POLLIN };
    char mem[4096];
    ssize_t n;

    if (poll(&p, 1, gr_deadline_left_ms(d)) == 0) {
        fprintf(stderr, "no end in time; so far:\n%s\n", gr_text_str(&j->output));
        kill(j->pid, SIGKILL);
        exit(1);
    }
    n = read(j->fd, mem, sizeof(mem));
    if (n <= 0)
        return false;
    gr_text_addn(&j->output, mem, (size_t)n);
    return true;
}

void job_expect(job *j, const char *part)
{
    gr_deadline d = gr_deadline_in_ms(LIMIT_MS);

    while (!strstr(gr_text_str(&j->output), part))
        if (!read_some(j, d)) {
            fprintf(stderr, "'%s' did not come:\n%s\n", part, gr_text_str(&j->output));
            exit(1);
        }
}

void job_finish(job *j)
{
    gr_deadline d = gr_deadline_in_ms(LIMIT_MS);
    int status;

    while (read_some(j, d))
        ;
    close(j->fd);
    while (waitpid(j->pid, &status, 0) < 0)
        GR_CHECK_EQ(errno, EINTR);
    j->exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void job_gradrun(job *j, const char *self, int n_ranks, const char *mode)
{
    job_gradrun_grace(j, self, n_ranks, mode, 60);
}

void job_gradrun_grace(job *j, const char *self, int n_ranks, const char *mode, int grace_s)
{
    char n[16], program[1024], word[32], grace[40];
    static char gradrun[] = GR_BIN_DIR "/gradrun";
    static char option[] = "--nproc-per-node";
    char *words[] = { gradrun, option, n, grace, program, word, NULL };

    snprintf(n, sizeof(n), "%d", n_ranks);
    snprintf(grace, sizeof(grace), "--shutdown-timeout=%d", grace_s);
    snprintf(program, sizeof(program), "%s", self);
    snprintf(word, sizeof(word), "%s", mode);
    job_start(j, words, NULL);
}

void job_fini(job *j)
{
    gr_text_fini(&j->output);
}

/* A zombie counts as gone: an orphan's remains are its new parent's business. */
static bool is_running(pid_t pid)
{
    char path[32], stat[512];
    const char *name_end;
    FILE *f;
    size_t n;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return false;
    n = fread(stat, 1, sizeof(stat) - 1, f);
    fclose(f);
    stat[n] = '\0';
    name_end = strrchr(stat, ')');
    return name_end && strncmp(name_end, ") Z", 3) != 0 && strncmp(name_end, ") X", 3) != 0;
}

void job_check_gone(pid_t pid)
{
    gr_deadline d = gr_deadline_in_ms(LIMIT_MS / 2);

    GR_CHECK(pid > 0);
    while (is_running(pid)) {
        if (gr_deadline_passed(d)) {
            fprintf(stderr, "process %d is still there\n", (int)pid);
            exit(1);
        }
        usleep(5000);
    }
}

pid_t job_number(const job *j, const char *name)
{
    const char *at = strstr(gr_text_str(&j->output), name);

    if (!at) {
        fprintf(stderr, "no '%s' in:\n%s\n", name, gr_text_str(&j->output));
        exit(1);
    }
    return (pid_t)strtol(at + strlen(name), NULL, 10);
}

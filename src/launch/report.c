/* The report of a failed job. */
#include "launch/report.h"

#include "base/log.h"
#include "launch/error_file.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define TAIL_LINES    10
#define MAX_FOLLOWERS 16

static bool has_failed(const worker *w)
{
    return w->signal != 0 || w->exit_code != 0;
}

bool gr_report_was_asked(const worker *w)
{
    static const int requests[] = { SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGTERM };

    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        if (w->signal == requests[i] || (w->signal == 0 && w->exit_code == 128 + requests[i]))
            return true;
    return false;
}

/* It was asked to stop and ended in order: our programs, and shells, end with 128 plus the signal
 * then. A rank that a signal killed did not: who kills one rank from outside (an OOM killer, a
 * colleague) makes a failure, whatever the signal. */
static bool was_stopped(const worker *w)
{
    return w->signal == 0 && w->exit_code != 128 + SIGQUIT && gr_report_was_asked(w);
}

int gr_report_blame(const worker *w)
{
    bool is_peer = w && w->signal == 0 && w->exit_code == GR_EXIT_PEER;

    if (!w || !has_failed(w))
        return GR_BLAME_NONE;
    if (w->was_told)
        return is_peer || gr_report_was_asked(w) ? GR_BLAME_TOLD : GR_BLAME_BAD;
    if (was_stopped(w))
        return GR_BLAME_STOP;
    return is_peer ? GR_BLAME_PEER : GR_BLAME_OWN;
}

const worker *gr_report_root(const worker *workers, int n_workers)
{
    const worker *root = NULL;

    for (int i = 0; i < n_workers; i++) {
        const worker *w = &workers[i];

        if (has_failed(w) &&
            (!root || gr_report_blame(w) < gr_report_blame(root) ||
             (gr_report_blame(w) == gr_report_blame(root) && w->order < root->order)))
            root = w;
    }
    return root;
}

int gr_report_exit_code(const worker *root, int stop)
{
    int blame = gr_report_blame(root);

    if (stop != 0 && (blame == GR_BLAME_NONE || blame == GR_BLAME_TOLD || blame == GR_BLAME_STOP))
        return 128 + stop;
    if (!root)
        return 0;
    return root->signal ? 128 + root->signal : root->exit_code;
}

static void write_end(gr_text *out, const worker *w, int64_t start_ns)
{
    if (w->signal) {
        const char *name = sigabbrev_np(w->signal);

        gr_text_addf(out, "killed by signal %d (SIG%s)", w->signal, name ? name : "?");
    } else {
        gr_text_addf(out, "exit code %d", w->exit_code);
    }
    if (w->was_told)
        gr_text_add(out, " when told to end");
    else if (!w->signal && w->exit_code == GR_EXIT_PEER)
        gr_text_add(out, " because of another rank");
    gr_text_addf(out, ", process %d, after %.1f s", (int)w->pid,
                 (double)(w->ended_ns - start_ns) * 1e-9);
}

/* Where the last TAIL_LINES lines begin; a first line that is cut is left out. */
static const char *last_lines(const worker_tail *t)
{
    const char *end = t->mem + t->len, *at = end;

    if (at > t->mem && at[-1] == '\n')
        at--;
    for (int n = 0; at > t->mem; at--)
        if (at[-1] == '\n' && ++n == TAIL_LINES)
            return at;
    if (t->len == TAIL_BYTES) {
        const char *line = (const char *)memchr(t->mem, '\n', t->len);

        return line ? line + 1 : t->mem;
    }
    return t->mem;
}

static void write_lines(gr_text *out, const char *at, const char *end)
{
    while (at < end) {
        const char *line_end = (const char *)memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((line_end ? line_end : end) - at);

        gr_text_add(out, "    ");
        gr_text_addn(out, at, len);
        gr_text_add(out, "\n");
        at += len + (line_end != NULL);
    }
}

/* A stderr that went straight into a file was not seen by us; its end is read now. */
static void read_tail(worker_tail *t, const gr_logs *logs, int local_rank)
{
    gr_text path = GR_TEXT_INIT;
    int fd = -1;
    off_t size;
    ssize_t n;

    gr_logs_path(logs, local_rank, "stderr.log", &path);
    if (path.len > 0)
        fd = open(gr_text_str(&path), O_RDONLY | O_CLOEXEC);
    gr_text_fini(&path);
    if (fd < 0)
        return;
    size = lseek(fd, 0, SEEK_END);
    n = pread(fd, t->mem, TAIL_BYTES, size > TAIL_BYTES ? size - TAIL_BYTES : 0);
    t->len = n > 0 ? (size_t)n : 0;
    close(fd);
}

static void write_tail(gr_text *out, const worker *w, const gr_logs *logs)
{
    worker_tail t = w->tail;

    if (t.len == 0)
        read_tail(&t, logs, w->local_rank);
    if (last_lines(&t) == t.mem + t.len)
        return;
    gr_text_add(out, "its last lines on stderr:\n");
    write_lines(out, last_lines(&t), t.mem + t.len);
}

/* Our own programs write the same text to both. */
static bool is_in_tail(const worker *w, const char *text)
{
    return memmem(w->tail.mem, w->tail.len, text, strlen(text)) != NULL;
}

static void write_error_file(gr_text *out, const worker *w, const gr_logs *logs)
{
    gr_text path = GR_TEXT_INIT, text = GR_TEXT_INIT;

    gr_logs_path(logs, w->local_rank, "error.json", &path);
    if (path.len > 0 && gr_error_file_read(gr_text_str(&path), &text) && text.len > 0 &&
        !is_in_tail(w, gr_text_str(&text))) {
        gr_text_add(out, "its error file says:\n");
        write_lines(out, text.str, text.str + text.len);
    }
    gr_text_fini(&path);
    gr_text_fini(&text);
}

void gr_report_log(const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");

        gr_log(LAUNCH, INFO, "%.*s", (int)len, text);
        text += len + (text[len] == '\n');
    }
}

void gr_report_host(char *out, size_t out_bytes)
{
    if (gethostname(out, out_bytes) != 0)
        out[0] = '?';
    out[out_bytes - 1] = '\0';
}

void gr_report_line(gr_text *out, const worker *w, int64_t start_ns)
{
    if (!w)
        return;
    gr_text_addf(out, "rank %d: ", w->rank);
    write_end(out, w, start_ns);
}

static void write_followers(gr_text *out, const worker *workers, int n_workers, const worker *root,
                            int64_t start_ns)
{
    int n = 0;

    for (int order = 0; order < n_workers; order++)
        for (int i = 0; i < n_workers; i++) {
            const worker *w = &workers[i];

            if (w == root || w->order != order || !has_failed(w) || ++n > MAX_FOLLOWERS)
                continue;
            gr_text_addf(out, "  then rank %d: ", w->rank);
            write_end(out, w, start_ns);
            gr_text_add(out, "\n");
        }
    if (n > MAX_FOLLOWERS)
        gr_text_addf(out, "  and %d more\n", n - MAX_FOLLOWERS);
}

/* Everybody complains of another rank, and none has failed: one that ended well did so too early
 * for the others. In which order we came to know of ends says nothing: those who complain may be
 * gone before the one who left. */
static void write_leavers(gr_text *out, const worker *workers, int n_workers, const worker *root,
                          int64_t start_ns)
{
    int n = 0;

    for (int i = 0; i < n_workers && gr_report_blame(root) == GR_BLAME_PEER; i++) {
        const worker *w = &workers[i];

        if (!w->has_ended || has_failed(w) || w->was_told || ++n > MAX_FOLLOWERS)
            continue;
        gr_text_addf(out, "  rank %d ended without a failure, perhaps too early: ", w->rank);
        write_end(out, w, start_ns);
        gr_text_add(out, "\n");
    }
    if (n > MAX_FOLLOWERS)
        gr_text_addf(out, "  and %d more\n", n - MAX_FOLLOWERS);
}

/* Nobody failed of itself: somebody stopped the job, and that is no failure to report. */
static void write_stopped(gr_text *out, const worker *root, int n_workers, int stop)
{
    gr_text_add(out, "stopped");
    if (stop != 0)
        gr_text_addf(out, " by SIG%s", sigabbrev_np(stop));
    if (root)
        gr_text_addf(out, "; rank %d: ", root->rank);
    else
        gr_text_addf(out, "; %d rank%s ended with exit code 0 when told to end\n", n_workers,
                     gr_plural(n_workers));
}

void gr_report_write(gr_text *out, const worker *workers, int n_workers, int stop, int64_t start_ns,
                     const gr_logs *logs)
{
    const worker *root = gr_report_root(workers, n_workers);
    int blame = gr_report_blame(root);
    bool stopped = blame == GR_BLAME_STOP || blame == GR_BLAME_TOLD || blame == GR_BLAME_BAD;
    char host[256];

    if (stopped || (!root && stop != 0))
        write_stopped(out, root, n_workers, stop);
    if (!root)
        return;
    gr_report_host(host, sizeof(host));
    if (!stopped)
        gr_text_addf(out, "rank %d on host '%s' failed first: ", root->rank, host);
    write_end(out, root, start_ns);
    gr_text_add(out, "\n");
    if (!stopped) {
        write_error_file(out, root, logs);
        write_tail(out, root, logs);
    }
    write_leavers(out, workers, n_workers, root, start_ns);
    write_followers(out, workers, n_workers, root, start_ns);
}

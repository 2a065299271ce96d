/* The report of a failed job. */
#include "launch/report.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define TAIL_LINES    10
#define MAX_FOLLOWERS 16

static bool has_failed(const worker *w)
{
    return w->signal != 0 || w->exit_code != 0;
}

/* It was asked to end, by us or by a signal of its own, and ended in order. */
static bool was_stopped(const worker *w)
{
    return w->was_told || w->exit_code == 128 + SIGINT || w->exit_code == 128 + SIGTERM ||
           w->exit_code == 128 + SIGHUP;
}

static bool all_stopped(const worker *workers, int n_workers)
{
    for (int i = 0; i < n_workers; i++)
        if (has_failed(&workers[i]) && !was_stopped(&workers[i]))
            return false;
    return true;
}

/* Lower is more to blame. */
static int excuse(const worker *w)
{
    if (w->was_told)
        return 2;
    return w->signal == 0 && w->exit_code == GR_EXIT_PEER;
}

const worker *gr_report_root(const worker *workers, int n_workers)
{
    const worker *root = NULL;

    for (int i = 0; i < n_workers; i++) {
        const worker *w = &workers[i];

        if (has_failed(w) && (!root || excuse(w) < excuse(root) ||
                              (excuse(w) == excuse(root) && w->order < root->order)))
            root = w;
    }
    return root;
}

int gr_report_exit_code(const worker *root)
{
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

static void write_tail(gr_text *out, const worker_tail *t)
{
    const char *at = last_lines(t), *end = t->mem + t->len;

    if (at == end)
        return;
    gr_text_add(out, "its last lines on stderr:\n");
    while (at < end) {
        const char *line_end = (const char *)memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((line_end ? line_end : end) - at);

        gr_text_add(out, "    ");
        gr_text_addn(out, at, len);
        gr_text_add(out, "\n");
        at += len + (line_end != NULL);
    }
}

void gr_report_write(gr_text *out, const worker *workers, int n_workers, int64_t start_ns)
{
    const worker *root = gr_report_root(workers, n_workers);
    bool stopped = all_stopped(workers, n_workers);
    char host[256] = "?";
    int n = 0;

    if (!root)
        return;
    if (gethostname(host, sizeof(host)) != 0)
        memcpy(host, "?", 2);
    host[sizeof(host) - 1] = '\0';
    /* Nobody failed of itself: somebody stopped the job, and that is no failure to report. */
    if (stopped)
        gr_text_addf(out, "stopped; rank %d: ", root->rank);
    else
        gr_text_addf(out, "rank %d on host '%s' failed first: ", root->rank, host);
    write_end(out, root, start_ns);
    gr_text_add(out, "\n");
    if (!stopped)
        write_tail(out, &root->tail);
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

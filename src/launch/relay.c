/*
 * One poll() over all pipes. A stream's bytes are kept until a line is whole; a line that
 * is longer than the buffer goes out in pieces.
 *
 * On a terminal rank 0 has it as its own stdout and may be drawing a line there; lines of
 * others first clear what stands in theirs.
 */
#include "launch/relay.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/streams.h"
#include "base/thread.h"
#include "launch/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES ((size_t)16 << 10)
#define CLEAR_LINE "\r\033[K"
#define TEE_PREFIX "[${role_name}${local_rank}]:"

typedef struct stream {
    int in;            /* -1: ended */
    int out;           /* stdout or stderr */
    int file;          /* for a copy, or -1; owned */
    bool is_shown;     /* on `out` */
    bool in_line;      /* the last piece did not end its line */
    worker_tail *tail; /* NULL: stdout */
    gr_text prefix;    /* before each line that is shown */
    size_t len;
    char *mem; /* LINE_BYTES; made when the first byte comes */
} stream;

/* Lines of all ranks that have one of some texts. */
typedef struct filtered {
    const char *filters; /* NULL: none */
    int file;
} filtered;

struct relay {
    pthread_t thread;
    int stop[2]; /* closing the second end tells the thread to end */
    bool clears; /* rank 0 draws on the terminal */
    bool broken; /* our stdout could not be written once; that was said */
    atomic_bool has_ended;
    filtered filter[2]; /* of stdout and stderr */
    gr_text scratch;    /* lines with their prefixes; only the thread */
    int n_streams;
    stream *streams;
    struct pollfd *polls; /* one per stream, then the stop pipe */
};

/* 0 or errno. */
static int write_all(int fd, const char *mem, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, mem, n);

        if (k < 0 && errno == EAGAIN) {
            struct pollfd p = { .fd = fd, .events = POLLOUT };

            (void)poll(&p, 1, -1);
        } else if (k < 0 && errno != EINTR) {
            return errno;
        } else if (k > 0) {
            mem += k;
            n -= (size_t)k;
        }
    }
    return 0;
}

/* Whoever read our output may be gone, or there may be no room for it: the ranks go on all the
 * same, and it is said once. */
static void pass_on(relay *r, int fd, const char *mem, size_t n)
{
    int error = write_all(fd, mem, n);

    if (error == 0 || r->broken || fd == STDERR_FILENO)
        return;
    r->broken = true;
    if (error == EPIPE)
        gr_log(LAUNCH, WARN, "nobody reads the ranks' output any more; they go on without it");
    else
        gr_log(LAUNCH, WARN, "cannot write the ranks' output: %s; they go on without it",
               strerror(error));
}

static void remember(worker_tail *t, const char *mem, size_t n)
{
    if (n >= TAIL_BYTES) {
        mem += n - TAIL_BYTES;
        n = TAIL_BYTES;
        t->len = 0;
    }
    if (t->len + n > TAIL_BYTES) {
        size_t drop = t->len + n - TAIL_BYTES;

        memmove(t->mem, t->mem + drop, t->len - drop);
        t->len -= drop;
    }
    memcpy(t->mem + t->len, mem, n);
    t->len += n;
}

/* Lines with their prefix, in one write. Without memory for that, without prefix. */
static void show(relay *r, stream *s, size_t n)
{
    r->scratch.len = 0;
    if (r->clears && isatty(s->out))
        gr_text_add(&r->scratch, CLEAR_LINE);
    for (size_t at = 0; at < n;) {
        const char *end = (const char *)memchr(s->mem + at, '\n', n - at);
        size_t len = end ? (size_t)(end - s->mem) + 1 - at : n - at;

        if (!s->in_line)
            gr_text_addn(&r->scratch, gr_text_str(&s->prefix), s->prefix.len);
        gr_text_addn(&r->scratch, s->mem + at, len);
        s->in_line = end == NULL;
        at += len;
    }
    if (gr_text_status(&r->scratch) == GR_OK)
        pass_on(r, s->out, r->scratch.str, r->scratch.len);
    else
        pass_on(r, s->out, s->mem, n);
}

static void copy_matches(relay *r, const filtered *f, const char *mem, size_t n)
{
    for (size_t at = 0; at < n;) {
        const char *end = (const char *)memchr(mem + at, '\n', n - at);
        size_t len = end ? (size_t)(end - mem) + 1 - at : n - at;

        if (gr_filter_matches(f->filters, mem + at, len))
            pass_on(r, f->file, mem + at, len);
        at += len;
    }
}

static void put(relay *r, stream *s, size_t n)
{
    const filtered *f = &r->filter[s->out == STDERR_FILENO];

    if (n == 0)
        return;
    if (s->file >= 0)
        pass_on(r, s->file, s->mem, n);
    if (f->filters)
        copy_matches(r, f, s->mem, n);
    if (s->is_shown)
        show(r, s, n);
    memmove(s->mem, s->mem + n, s->len - n);
    s->len -= n;
}

static void end_stream(relay *r, stream *s)
{
    if (s->len > 0 && s->mem[s->len - 1] != '\n' && s->len < LINE_BYTES)
        s->mem[s->len++] = '\n'; /* the next rank's line must not join this one */
    put(r, s, s->len);
    close(s->in);
    s->in = -1;
    gr_free(s->mem);
    s->mem = NULL;
}

/* One read; false when nothing was there. */
static bool pump(relay *r, stream *s)
{
    const char *last;
    ssize_t n;

    if (!s->mem)
        s->mem = (char *)gr_malloc(LINE_BYTES);
    if (!s->mem) { /* the rank must not block on a full pipe for ever */
        gr_log(LAUNCH, WARN, "no memory for the output of a rank: it is lost");
        close(s->in);
        s->in = -1;
        return false;
    }
    n = read(s->in, s->mem + s->len, LINE_BYTES - s->len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        end_stream(r, s);
        return false;
    }
    if (s->tail)
        remember(s->tail, s->mem + s->len, (size_t)n);
    s->len += (size_t)n;
    last = (const char *)memrchr(s->mem, '\n', s->len);
    put(r, s, last ? (size_t)(last - s->mem) + 1 : s->len == LINE_BYTES ? s->len : 0);
    return true;
}

static void *run(void *arg)
{
    relay *r = (relay *)arg;
    bool stopping = false;
    int n_open = 1;

    while (n_open > 0 && !stopping) {
        n_open = 0;
        for (int i = 0; i < r->n_streams; i++) {
            r->polls[i] = (struct pollfd){ .fd = r->streams[i].in, .events = POLLIN };
            n_open += r->streams[i].in >= 0;
        }
        r->polls[r->n_streams] = (struct pollfd){ .fd = r->stop[0], .events = POLLIN };
        if (n_open == 0 || (poll(r->polls, (nfds_t)r->n_streams + 1, -1) < 0 && errno != EINTR))
            break;
        stopping = r->polls[r->n_streams].revents != 0;
        for (int i = 0; i < r->n_streams; i++)
            if (r->polls[i].revents)
                pump(r, &r->streams[i]);
    }
    for (int i = 0; i < r->n_streams; i++) { /* told to stop: what is there, and no more */
        while (r->streams[i].in >= 0 && pump(r, &r->streams[i]))
            ;
        if (r->streams[i].in >= 0)
            end_stream(r, &r->streams[i]);
    }
    atomic_store(&r->has_ended, true);
    return NULL;
}

static gr_status add_stream(relay *r, worker_stream *from, int out, const gr_launch_config *c,
                            worker *w)
{
    stream *s = &r->streams[r->n_streams];
    const char *format = c->prefix ? c->prefix : from->is_tee ? TEE_PREFIX : NULL;

    if (from->pipe < 0)
        return GR_OK;
    r->n_streams++;
    /* Cannot fail on a pipe of ours; if it did, only the order of output would suffer. */
    (void)fcntl(from->pipe, F_SETFL, O_NONBLOCK);
    *s = (stream){ .in = from->pipe,
                   .out = out,
                   .file = from->file,
                   .is_shown = from->is_shown,
                   .tail = out == STDERR_FILENO ? &w->tail : NULL };
    from->pipe = from->file = -1;
    if (format)
        gr_prefix_expand(&s->prefix, format, c, w);
    return gr_text_status(&s->prefix);
}

static void release(relay *r)
{
    for (int i = 0; i < r->n_streams; i++) {
        stream *s = &r->streams[i];

        if (s->in >= 0)
            close(s->in);
        if (s->file >= 0)
            close(s->file);
        gr_text_fini(&s->prefix);
        gr_free(s->mem);
    }
    for (int i = 0; i < 2; i++) {
        if (r->stop[i] >= 0)
            close(r->stop[i]);
        if (r->filter[i].file >= 0)
            close(r->filter[i].file);
    }
    gr_text_fini(&r->scratch);
    gr_free(r->streams);
    gr_free(r->polls);
    gr_free(r);
}

static gr_status start_thread(relay *r)
{
    int rc;

    rc = gr_thread_start(&r->thread, run, r);
    if (rc != 0)
        return gr_fail(GR_ERR_IO, "no thread for the output of the ranks: %s", strerror(rc));
    return GR_OK;
}

static gr_status open_filters(relay *r, const gr_launch_config *c, const gr_logs *logs)
{
    r->filter[0].filters = c->out_filters;
    r->filter[1].filters = c->err_filters;
    if (c->out_filters)
        GR_TRY(gr_logs_open(logs, -1, "filtered_stdout.log", &r->filter[0].file));
    if (c->err_filters)
        GR_TRY(gr_logs_open(logs, -1, "filtered_stderr.log", &r->filter[1].file));
    return GR_OK;
}

static gr_status prepare(relay *r, worker *workers, const gr_launch_config *c, const gr_logs *logs)
{
    size_t n = 2 * (size_t)c->n_local;

    r->streams = (stream *)gr_calloc(n, sizeof(*r->streams));
    r->polls = (struct pollfd *)gr_calloc(n + 1, sizeof(*r->polls));
    if (!r->streams || !r->polls)
        return GR_ERR_NOMEM;
    if (pipe2(r->stop, O_CLOEXEC) != 0)
        return gr_fail(GR_ERR_IO, "pipe: %s", strerror(errno));
    r->clears = workers[0].has_terminal && gr_terminal_redraws(STDOUT_FILENO);
    GR_TRY(open_filters(r, c, logs));
    for (int i = 0; i < c->n_local; i++) {
        GR_TRY(add_stream(r, &workers[i].out, STDOUT_FILENO, c, &workers[i]));
        GR_TRY(add_stream(r, &workers[i].err, STDERR_FILENO, c, &workers[i]));
    }
    return start_thread(r);
}

gr_status relay_start(relay **out, worker *workers, const gr_launch_config *c, const gr_logs *logs)
{
    relay *r = (relay *)gr_calloc(1, sizeof(*r));
    gr_status st;

    if (!r)
        return GR_ERR_NOMEM;
    for (int i = 0; i < 2; i++)
        r->stop[i] = r->filter[i].file = -1;
    st = prepare(r, workers, c, logs);
    if (st != GR_OK) {
        release(r);
        return st;
    }
    *out = r;
    return GR_OK;
}

void relay_finish(relay *r, gr_deadline d)
{
    const struct timespec pause = { .tv_nsec = 1000000 };

    if (!r)
        return;
    /* Ended ranks leave closed pipes, unless something they started holds them open. */
    while (!atomic_load(&r->has_ended) && !gr_deadline_passed(d))
        nanosleep(&pause, NULL);
    close(r->stop[1]);
    r->stop[1] = -1;
    pthread_join(r->thread, NULL);
    release(r);
}

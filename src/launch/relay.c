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

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES ((size_t)16 << 10)
#define CLEAR_LINE "\r\033[K"

typedef struct stream {
    int in;            /* -1: ended */
    int out;           /* stdout or stderr */
    worker_tail *tail; /* NULL: stdout */
    size_t len;
    char mem[LINE_BYTES];
} stream;

struct relay {
    pthread_t thread;
    int stop[2]; /* closing the second end tells the thread to end */
    bool clears; /* rank 0 draws on the terminal */
    bool broken; /* our stdout could not be written once; that was said */
    atomic_bool has_ended;
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

/* Whoever read our output may be gone, which is no news, or there may be no room for it; the
 * ranks go on all the same. */
static void pass_on(relay *r, int fd, const char *mem, size_t n)
{
    int error = write_all(fd, mem, n);

    if (error == 0 || error == EPIPE || r->broken || fd != STDOUT_FILENO)
        return;
    r->broken = true;
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

static void put(relay *r, stream *s, size_t n)
{
    if (n == 0)
        return;
    if (r->clears && isatty(s->out))
        pass_on(r, s->out, CLEAR_LINE, sizeof(CLEAR_LINE) - 1);
    pass_on(r, s->out, s->mem, n);
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
}

/* One read; false when nothing was there. */
static bool pump(relay *r, stream *s)
{
    ssize_t n = read(s->in, s->mem + s->len, LINE_BYTES - s->len);
    const char *last;

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

static void add_stream(relay *r, int in, int out, worker_tail *tail)
{
    stream *s = &r->streams[r->n_streams];

    if (in < 0)
        return;
    /* Cannot fail on a pipe of ours; if it did, only the order of output would suffer. */
    (void)fcntl(in, F_SETFL, O_NONBLOCK);
    s->in = in;
    s->out = out;
    s->tail = tail;
    r->n_streams++;
}

static void release(relay *r)
{
    for (int i = 0; i < r->n_streams; i++)
        if (r->streams[i].in >= 0)
            close(r->streams[i].in);
    for (int i = 0; i < 2; i++)
        if (r->stop[i] >= 0)
            close(r->stop[i]);
    gr_free(r->streams);
    gr_free(r->polls);
    gr_free(r);
}

static gr_status start_thread(relay *r)
{
    sigset_t all, old;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&r->thread, NULL, run, r);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return gr_fail(GR_ERR_IO, "no thread for the output of the ranks: %s", strerror(rc));
    return GR_OK;
}

gr_status relay_start(relay **out, worker *workers, int n_workers)
{
    relay *r = (relay *)gr_calloc(1, sizeof(*r));
    size_t n = 2 * (size_t)n_workers;
    gr_status st = GR_OK;

    if (!r)
        return GR_ERR_NOMEM;
    r->stop[0] = r->stop[1] = -1;
    r->streams = (stream *)gr_calloc(n, sizeof(*r->streams));
    r->polls = (struct pollfd *)gr_calloc(n + 1, sizeof(*r->polls));
    if (!r->streams || !r->polls)
        st = GR_ERR_NOMEM;
    else if (pipe2(r->stop, O_CLOEXEC) != 0)
        st = gr_fail(GR_ERR_IO, "pipe: %s", strerror(errno));
    if (st == GR_OK) {
        r->clears = workers[0].out < 0 && gr_terminal_redraws(STDOUT_FILENO);
        for (int i = 0; i < n_workers; i++) {
            add_stream(r, workers[i].out, STDOUT_FILENO, NULL);
            add_stream(r, workers[i].err, STDERR_FILENO, &workers[i].tail);
            workers[i].out = workers[i].err = -1;
        }
        st = start_thread(r);
    }
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

/*
 * A thread that writes. Copying into the system's buffers is half of a rank's work: where there is
 * a core to spare, the sender does it while the group's thread reads and sums.
 *
 * (1) The out side of a data stream belongs to the group's thread until a long message comes,
 *     and then to the sender until everything has gone: is_lent says to whom. Only the group's
 *     thread lends, only the sender gives back. So a small message on a stream that is not lent
 *     is written without anybody being woken.
 * (2) Messages that come while a stream is lent are posted to it; the sender takes them when it
 *     has written all others, so their order stays.
 * (3) Who is about to sleep says so and then looks a last time; who has something new says so
 *     and then looks whether the other sleeps.
 * (4) A lent stream whose connection fails stays lent, and out_error tells the group's thread.
 *     That one does not close descriptors of lent streams: it shuts the connection down.
 * (5) Once halted, no message is touched any more.
 */
#include "comm/tcp/mesh.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct mesh_sender {
    mesh *mesh;
    pthread_t thread;
    bool is_running;
    pthread_mutex_t lock;       /* over `lent`, and is_lent and `posted` of all streams */
    mesh_stream *lent;          /* those that the thread has not seen yet */
    atom32 is_asleep, is_ended; /* 0 or 1 */
    int wake_fd;
    /* The thread's own: */
    mesh_stream **open; /* streams lent to it */
    int n_open;
    struct pollfd *polls; /* wake_fd and the full ones of `open` */
};

/* ---- the thread ---- */

static bool take_lent(mesh_sender *x)
{
    mesh_stream *s;
    int n_before = x->n_open;

    pthread_mutex_lock(&x->lock);
    s = x->lent;
    x->lent = NULL;
    pthread_mutex_unlock(&x->lock);
    for (; s; s = s->next_lent)
        x->open[x->n_open++] = s;
    return x->n_open > n_before;
}

/* Nothing is left of what the thread knows of: takes what was posted, or gives back. */
static bool refill(mesh_sender *x, mesh_stream *s)
{
    bool is_more;

    pthread_mutex_lock(&x->lock);
    s->stream.first = s->posted;
    s->stream.last = s->posted_last;
    s->posted = s->posted_last = NULL;
    is_more = s->stream.first != NULL;
    if (!is_more)
        atom32_set(&s->is_lent, 0);
    pthread_mutex_unlock(&x->lock);
    return is_more;
}

static ssize_t lent_write(void *arg, const struct iovec *parts, int n_parts)
{
    mesh_stream *s = (mesh_stream *)arg;
    ssize_t n = mesh_socket_write(s->out_fd, parts, n_parts, &s->is_full);

    if (n < 0)
        atom32_set(&s->out_error, (uint32_t)-n);
    return n;
}

/* One message of a stream; false when the stream is done with. */
static bool write_next(mesh_sender *x, mesh_stream *s, bool *moved)
{
    const gr_msg *before = s->stream.first;
    gr_pipe p = { s, lent_write, NULL };
    bool was_moved = false, is_open = gr_stream_out_one(&s->stream, &p, &was_moved) == GR_OK;

    if (!is_open || s->stream.first != before)
        mesh_wake(&x->mesh->wire);
    else if (was_moved)
        atom32_add(&x->mesh->n_news, 1);
    *moved = *moved || was_moved;
    return is_open && (s->stream.first || refill(x, s));
}

static bool write_round(mesh_sender *x)
{
    bool moved = false;
    int n = 0;

    for (int i = 0; i < x->n_open; i++) { /* in turn, not all to one rank first */
        mesh_stream *s = x->open[i];

        if (s->is_full || write_next(x, s, &moved))
            x->open[n++] = s;
    }
    x->n_open = n;
    return moved;
}

/* Which full streams have room again? At most ms; -1: until one has, or somebody wakes. */
static void look(mesh_sender *x, int ms)
{
    int n = 1;

    x->polls[0] = (struct pollfd){ .fd = x->wake_fd, .events = POLLIN };
    for (int i = 0; i < x->n_open; i++)
        if (x->open[i]->is_full)
            x->polls[n++] = (struct pollfd){ .fd = x->open[i]->out_fd, .events = POLLOUT };
    if ((ms == 0 && n == 1) || poll(x->polls, (nfds_t)n, ms) <= 0)
        return;
    n = 1;
    for (int i = 0; i < x->n_open; i++)
        if (x->open[i]->is_full)
            x->open[i]->is_full = x->polls[n++].revents == 0;
    if (x->polls[0].revents)
        mesh_drain(x->wake_fd);
}

static void rest(mesh_sender *x)
{
    atom32_set(&x->is_asleep, 1);
    if (!take_lent(x) && !atom32_get(&x->is_ended))
        look(x, -1);
    atom32_set(&x->is_asleep, 0);
}

/* Sleeps at once: spinning before it gained nothing, even with a core for every thread. */
static void *sender_main(void *arg)
{
    mesh_sender *x = (mesh_sender *)arg;

    while (!atom32_get(&x->is_ended)) {
        take_lent(x);
        if (write_round(x))
            look(x, 0);
        else
            rest(x);
    }
    return NULL;
}

/* ---- the group's thread ---- */

void mesh_sender_send(mesh *m, mesh_stream *s, gr_msg *msg, bool is_long)
{
    mesh_sender *x = m->sender;
    bool is_new = false;

    pthread_mutex_lock(&x->lock);
    if (atom32_get(&s->is_lent)) {
        msg->next = NULL;
        *(s->posted ? &s->posted_last->next : &s->posted) = msg;
        s->posted_last = msg;
    } else {
        gr_stream_send(&s->stream, msg);
        is_new = is_long && s->fd >= 0;
    }
    if (is_new) {
        s->out_fd = s->fd;
        s->next_lent = x->lent;
        x->lent = s;
        atom32_set(&s->is_lent, 1);
    }
    pthread_mutex_unlock(&x->lock);
    if (is_new)
        mesh_wake_by(&x->is_asleep, x->wake_fd);
}

static gr_status start(mesh_sender *x)
{
    size_t n = (size_t)x->mesh->wire.size * (size_t)x->mesh->n_streams;
    int rc;

    x->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (x->wake_fd < 0)
        return gr_fail(GR_ERR_IO, "eventfd: %s", strerror(errno));
    x->open = (mesh_stream **)gr_calloc(n, sizeof(*x->open));
    x->polls = (struct pollfd *)gr_calloc(n + 1, sizeof(*x->polls));
    if (!x->open || !x->polls)
        return GR_ERR_NOMEM;
    rc = gr_thread_start(&x->thread, sender_main, x);
    if (rc != 0)
        return gr_fail(GR_ERR_NOMEM, "pthread_create: %s", strerror(rc));
    x->is_running = true;
    pthread_setname_np(x->thread, "gradus-sender"); /* for top and debuggers */
    return GR_OK;
}

/* Without a sender everything goes as well, only slower. */
void mesh_sender_start(mesh *m)
{
    m->wants_sender = 0; /* tried once */
    m->sender = (mesh_sender *)gr_calloc(1, sizeof(*m->sender));
    if (!m->sender)
        return;
    m->sender->mesh = m;
    m->sender->wake_fd = -1;
    pthread_mutex_init(&m->sender->lock, NULL);
    if (start(m->sender) == GR_OK)
        return;
    gr_log(COMM, INFO, "no thread for sending: %s", gr_error_message());
    mesh_sender_end(m);
}

void mesh_sender_halt(mesh *m)
{
    mesh_sender *x = m->sender;

    if (!x || !x->is_running)
        return;
    atom32_set(&x->is_ended, 1);
    mesh_wake_by(&x->is_asleep, x->wake_fd);
    pthread_join(x->thread, NULL);
    x->is_running = false;
}

void mesh_sender_end(mesh *m)
{
    mesh_sender *x = m->sender;

    if (!x)
        return;
    mesh_sender_halt(m);
    if (x->wake_fd >= 0)
        close(x->wake_fd);
    gr_free(x->open);
    gr_free(x->polls);
    pthread_mutex_destroy(&x->lock);
    gr_free(x);
    m->sender = NULL;
}

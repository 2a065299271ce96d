/* Groups on a GPU: joining, looking after peers, passing on to the host group. */
#include "comm/ipc/over.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS 200000
#define NAP_NS  20000

/* What ranks tell each other; compared byte by byte, so there is no padding. */
typedef struct card {
    char boot_id[40];   /* of the running system: one per host and start */
    uint64_t pid_space; /* namespace of process numbers */
    int64_t pid;
} card;

/* Without these files every rank looks like a host of its own, and is not watched. */
static void fill_card(card *c)
{
    struct stat info;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    memset(c, 0, sizeof(*c));
    c->pid = getpid();
    if (fd >= 0) {
        ssize_t n = read(fd, c->boot_id, sizeof(c->boot_id) - 1);

        if (n < 0)
            c->boot_id[0] = '\0';
        close(fd);
    }
    if (stat("/proc/self/ns/pid", &info) == 0)
        c->pid_space = info.st_ino;
}

static bool is_here(const card *mine, const card *theirs)
{
    return mine->boot_id[0] && memcmp(mine->boot_id, theirs->boot_id, sizeof(mine->boot_id)) == 0 &&
           mine->pid_space == theirs->pid_space;
}

static gr_status watch_peers(gr_over *o, const card *mine, char *const *cards)
{
    o->is_one_host = true;
    for (int r = 0; r < o->pg.size; r++) {
        card c;

        memcpy(&c, cards[r], sizeof(c));
        o->pids[r] = (int)c.pid;
        if (!is_here(mine, &c)) {
            o->is_one_host = false;
            continue;
        }
        if (c.pid == mine->pid)
            continue;
        o->pid_fds[r] = (int)syscall(SYS_pidfd_open, o->pids[r], 0);
        if (o->pid_fds[r] < 0 && errno == ESRCH)
            return gr_fail(GR_ERR_PEER, "rank %d (process %d) died", r, o->pids[r]);
    }
    return GR_OK;
}

gr_status gr_over_init(gr_over *o, const gr_pg_ops *ops, gr_pg *host, gr_device *dev)
{
    size_t n = (size_t)host->size;
    card mine;
    char **cards;
    gr_status st;

    o->pg = (gr_pg){ .ops = ops,
                     .rank = host->rank,
                     .size = host->size,
                     .local_rank = host->local_rank,
                     .timeout_ms = host->timeout_ms };
    o->host = host;
    o->dev = (gr_cuda_device *)dev;
    o->pids = (int *)gr_calloc(n, sizeof(*o->pids));
    o->pid_fds = (int *)gr_calloc(n, sizeof(*o->pid_fds));
    if (!o->pids || !o->pid_fds)
        return GR_ERR_NOMEM;
    for (size_t r = 0; r < n; r++)
        o->pid_fds[r] = -1;
    fill_card(&mine);
    GR_TRY(gr_pg_gather_bytes(host, &mine, sizeof(mine), &cards, NULL));
    st = watch_peers(o, &mine, cards);
    free(cards);
    return st;
}

void gr_over_fini(gr_over *o)
{
    for (int r = 0; r < o->pg.size && o->pid_fds; r++)
        if (o->pid_fds[r] >= 0)
            close(o->pid_fds[r]);
    gr_free(o->pid_fds);
    gr_free(o->pids);
}

gr_status gr_over_check(gr_over *o)
{
    GR_TRY(gr_pg_poll(o->host));
    for (int r = 0; r < o->pg.size; r++) {
        struct pollfd p = { .fd = o->pid_fds[r], .events = POLLIN };

        if (p.fd >= 0 && poll(&p, 1, 0) == 1)
            return gr_fail(GR_ERR_PEER, "rank %d (process %d) died", r, o->pids[r]);
    }
    return GR_OK;
}

gr_status gr_over_poll(gr_pg *pg)
{
    return gr_pg_poll(((gr_over *)pg)->host);
}

gr_status gr_over_gather_bytes(gr_pg *pg, const void *src, size_t n_bytes, char ***out,
                               size_t *sizes)
{
    return gr_pg_gather_bytes(((gr_over *)pg)->host, src, n_bytes, out, sizes);
}

gr_status gr_over_run(gr_pg *pg, const gr_pg_call *c)
{
    return gr_pg_run(((gr_over *)pg)->host, c);
}

gr_status gr_over_begin(gr_pg *pg, const gr_pg_call *c, gr_work **out)
{
    return gr_pg_begin(out, ((gr_over *)pg)->host, c);
}

/* A part of the ranks, on the host: who wants it on the device makes that over it. */
gr_status gr_over_split(gr_pg *pg, const gr_part *part, gr_pg **out)
{
    gr_pg *host = ((gr_over *)pg)->host;

    return host->ops->split(host, part, out);
}

void gr_over_describe(const gr_pg *pg, gr_text *text)
{
    gr_pg *host = ((const gr_over *)pg)->host;

    gr_text_add(text, "reductions in the exchange space on the device; everything else:\n");
    host->ops->describe(host, text);
}

void gr_over_abort(gr_pg *pg, const char *why)
{
    gr_pg_abort(((gr_over *)pg)->host, why);
}

void gr_over_pause(int64_t waited_ns)
{
    struct timespec t = { 0, NAP_NS };

    if (waited_ns < SPIN_NS)
        sched_yield();
    else
        nanosleep(&t, NULL);
}

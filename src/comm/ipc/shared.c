/* The shared mapping of an ipc group: a memfd of rank 0, opened through /proc by the rest. */
#include "comm/ipc/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static gr_status map(ipc_shared *s)
{
    void *mem = mmap(NULL, s->n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);

    if (mem == MAP_FAILED)
        return gr_fail(GR_ERR_NOMEM, "cannot map %zu bytes of shared memory: %s", s->n_bytes,
                       strerror(errno));
    s->boards = (ipc_board *)mem;
    return GR_OK;
}

static gr_status create(ipc_shared *s)
{
    s->fd = memfd_create("gradus-ipc", MFD_CLOEXEC);
    if (s->fd < 0)
        return gr_fail(GR_ERR_IO, "memfd_create: %s", strerror(errno));
    if (ftruncate(s->fd, (off_t)s->n_bytes) != 0)
        return gr_fail(GR_ERR_NOMEM, "cannot make %zu bytes of shared memory: %s", s->n_bytes,
                       strerror(errno));
    return map(s);
}

static gr_status open_of(ipc_shared *s, int pid, int fd)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
    s->fd = open(path, O_RDWR | O_CLOEXEC);
    if (s->fd < 0)
        return gr_fail(GR_ERR_IO, "cannot open the shared memory of rank 0 at %s: %s", path,
                       strerror(errno));
    return map(s);
}

gr_status ipc_shared_open(ipc_shared *s, gr_over *o)
{
    bool is_first = o->pg.rank == 0;
    char **cards;
    int fd;

    *s = (ipc_shared){ NULL, (size_t)o->pg.size * sizeof(ipc_board), -1 };
    if (is_first)
        GR_TRY(create(s));
    GR_TRY(gr_pg_gather_bytes(o->host, &s->fd, sizeof(s->fd), &cards, NULL));
    memcpy(&fd, cards[0], sizeof(fd));
    free(cards);
    if (!is_first)
        GR_TRY(open_of(s, o->pids[0], fd));
    return gr_pg_barrier(o->host);
}

void ipc_shared_close(ipc_shared *s)
{
    if (s->boards)
        munmap(s->boards, s->n_bytes);
    if (s->fd >= 0)
        close(s->fd);
    *s = (ipc_shared){ NULL, 0, -1 };
}

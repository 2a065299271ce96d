/* Shared memory: making, opening, mapping. */
#include "comm/shm/segment.h"

#include "base/pages.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Linux 5.14 and 6.1; older C libraries do not name them. */
#define POPULATE_WRITE 23
#define COLLAPSE       25

static bool is_large(const shm_segment *s)
{
    return s->pages == SHM_LARGE_PAGES && s->n_bytes >= GR_LARGE_PAGE_BYTES;
}

/* Only advice: systems without large pages for shared memory refuse it. */
static void advise(const shm_segment *s, void *mem)
{
    (void)madvise(mem, s->n_bytes, is_large(s) ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

static gr_status map(shm_segment *s, int flags)
{
    void *at = is_large(s) ? gr_pages_map(s->n_bytes, PROT_NONE) : NULL;
    void *mem =
        mmap(at, s->n_bytes, PROT_READ | PROT_WRITE, flags | (at ? MAP_FIXED : 0), s->fd, 0);

    if (mem == MAP_FAILED) {
        gr_status st = gr_fail(GR_ERR_NOMEM, "cannot map %zu bytes of shared memory: %s",
                               s->n_bytes, strerror(errno));

        if (at)
            munmap(at, s->n_bytes);
        return st;
    }
    s->mem = mem;
    advise(s, mem);
    return GR_OK;
}

gr_status shm_segment_anonymous(shm_segment *s, size_t n_bytes)
{
    *s = (shm_segment){ .n_bytes = n_bytes, .fd = -1, .pages = SHM_LARGE_PAGES };
    return map(s, MAP_SHARED | MAP_ANONYMOUS);
}

gr_status shm_segment_create(shm_segment *s, size_t n_bytes, shm_pages pages)
{
    gr_status st;

    *s = (shm_segment){ .n_bytes = n_bytes, .pages = pages };
    s->fd = memfd_create("gradus", MFD_CLOEXEC);
    if (s->fd < 0)
        return gr_fail(GR_ERR_IO, "memfd_create: %s", strerror(errno));
    if (ftruncate(s->fd, (off_t)n_bytes) != 0)
        st = gr_fail(GR_ERR_NOMEM, "cannot make %zu bytes of shared memory: %s", n_bytes,
                     strerror(errno));
    else
        st = map(s, MAP_SHARED);
    if (st != GR_OK)
        shm_segment_close(s);
    return st;
}

gr_status shm_segment_map_over(const shm_segment *s, void *at)
{
    if (mmap(at, s->n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, s->fd, 0) ==
        MAP_FAILED)
        return gr_fail(GR_ERR_NOMEM, "cannot map %zu bytes of shared memory: %s", s->n_bytes,
                       strerror(errno));
    advise(s, at);
    return GR_OK;
}

gr_status shm_segment_open(shm_segment *s, int pid, int fd, size_t n_bytes, shm_pages pages)
{
    gr_status st = GR_OK;
    struct stat info;
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
    *s = (shm_segment){ .n_bytes = n_bytes, .pages = pages };
    s->fd = open(path, O_RDWR | O_CLOEXEC);
    if (s->fd < 0)
        return gr_fail(
            GR_ERR_IO,
            "cannot open the shared memory of rank 0 at %s: %s (ranks of a host must run "
            "as the same user and see each other's processes)",
            path, strerror(errno));
    if (fstat(s->fd, &info) != 0)
        st = gr_fail(GR_ERR_IO, "fstat %s: %s", path, strerror(errno));
    else if (info.st_size < 0 || (uint64_t)info.st_size < n_bytes)
        st = gr_fail(GR_ERR_FORMAT,
                     "%s holds %lld bytes, expected %zu: not the shared memory of "
                     "this job",
                     path, (long long)info.st_size, n_bytes);
    else
        st = map(s, MAP_SHARED);
    if (st != GR_OK)
        shm_segment_close(s);
    return st;
}

void shm_segment_hide(shm_segment *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

void shm_segment_close(shm_segment *s)
{
    if (s->mem)
        munmap(s->mem, s->n_bytes);
    shm_segment_hide(s);
    *s = (shm_segment)SHM_SEGMENT_NONE;
}

/* Asks for large pages in [lo, hi) of the segment. Most systems give none to shared memory unasked,
 * and join the small ones of a stretch in which there are any: one is made by reading. A step reads
 * and writes such memory a third faster. */
static void join_pages(const shm_segment *s, size_t lo, size_t hi)
{
    const volatile char *mem = (const volatile char *)s->mem;

    lo = gr_round_up(lo, GR_LARGE_PAGE_BYTES);
    hi = hi / GR_LARGE_PAGE_BYTES * GR_LARGE_PAGE_BYTES;
    if (!is_large(s) || lo >= hi)
        return;
    for (size_t at = lo; at < hi; at += GR_LARGE_PAGE_BYTES)
        (void)mem[at];
    (void)madvise((char *)s->mem + lo, hi - lo, COLLAPSE);
}

gr_status shm_segment_populate(const shm_segment *s, size_t first, size_t n_bytes)
{
    size_t lo = first & ~(GR_PAGE_BYTES - 1);
    volatile char *mem = (volatile char *)s->mem;

    if (n_bytes == 0)
        return GR_OK;
    join_pages(s, lo, first + n_bytes);
    if (madvise((char *)s->mem + lo, first + n_bytes - lo, POPULATE_WRITE) == 0)
        return GR_OK;
    if (errno != EINVAL)
        return gr_fail(GR_ERR_NOMEM, "no memory for %zu bytes that ranks share: %s", n_bytes,
                       strerror(errno));
    for (size_t at = lo; at < first + n_bytes; at += GR_PAGE_BYTES)
        (void)mem[at]; /* an older kernel: a read is enough to give shared memory its page */
    return GR_OK;
}

/*
 * Host memory as device memory.
 *
 * A step arena is touched from end to end, so large blocks ask for large pages
 * (base/pages.h). Small ones come from the heap, where ASan sees their ends.
 *
 *     raw ─► [ ...... | block * | mem, 256-byte aligned ...... ]
 *
 * (1) In front of every block lies a pointer to its record, so that freeing needs no
 *     table and no lock.
 * (2) The record comes from gr_malloc(), for mapped blocks too: a test that counts
 *     allocations or makes them fail meets every one.
 */
#include "backend/host.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/pages.h"
#include "base/size.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN_BYTES   ((size_t)256)
#define MIN_MAP_BYTES (2 * GR_LARGE_PAGE_BYTES)

typedef struct block {
    void *raw;        /* owned: from mmap or from gr_malloc */
    size_t map_bytes; /* 0: from gr_malloc */
} block;

static size_t step_to_border(const void *p, size_t border)
{
    return (size_t)(-(uintptr_t)p & (border - 1));
}

static gr_status map_block(block *b, size_t n_bytes)
{
    b->raw = gr_pages_map(n_bytes, PROT_READ | PROT_WRITE);
    if (!b->raw)
        return gr_fail(GR_ERR_NOMEM, "no memory for %zu bytes: %s", n_bytes, strerror(errno));
    b->map_bytes = n_bytes;
    madvise(b->raw, n_bytes, MADV_HUGEPAGE); /* advice: without it all works, slower */
    return GR_OK;
}

static gr_status heap_block(block *b, size_t n_bytes)
{
    b->raw = gr_calloc(n_bytes, 1);
    b->map_bytes = 0;
    return b->raw ? GR_OK : GR_ERR_NOMEM;
}

gr_status gr_host_alloc(gr_device *d, size_t n_bytes, void **out)
{
    block *b;
    gr_status st;
    char *mem;

    (void)d;
    if (n_bytes > SIZE_MAX / 2)
        return gr_fail(GR_ERR_NOMEM, "no memory for %zu bytes", n_bytes);
    b = (block *)gr_malloc(sizeof(*b));
    if (!b)
        return GR_ERR_NOMEM;
    if (n_bytes >= MIN_MAP_BYTES)
        st = map_block(b, gr_round_up(n_bytes + ALIGN_BYTES, GR_LARGE_PAGE_BYTES));
    else
        st = heap_block(b, n_bytes + 2 * ALIGN_BYTES);
    if (st != GR_OK) {
        gr_free(b);
        return st;
    }
    mem = (char *)b->raw + sizeof(block *);
    mem += step_to_border(mem, ALIGN_BYTES);
    memcpy(mem - sizeof(block *), &b, sizeof(block *));
    *out = mem;
    return GR_OK;
}

void gr_host_free(gr_device *d, void *mem)
{
    block *b;

    (void)d;
    if (!mem)
        return;
    memcpy(&b, (char *)mem - sizeof(block *), sizeof(block *));
    if (b->map_bytes > 0)
        munmap(b->raw, b->map_bytes);
    else
        gr_free(b->raw);
    gr_free(b);
}

gr_status gr_host_copy(gr_device *d, void *dst, const void *src, size_t n_bytes)
{
    (void)d;
    if (n_bytes > 0)
        memcpy(dst, src, n_bytes);
    return GR_OK;
}

gr_status gr_host_zero(gr_device *d, void *dst, size_t n_bytes)
{
    (void)d;
    if (n_bytes > 0)
        memset(dst, 0, n_bytes);
    return GR_OK;
}

gr_status gr_host_sync(gr_device *d)
{
    (void)d;
    return GR_OK;
}

gr_status gr_host_slot(gr_device *d, int slot)
{
    (void)d;
    GR_BUG_IF(slot < 0 || slot >= GR_N_SLOTS);
    return GR_OK;
}

gr_status gr_host_mark(gr_device *d, int slot, gr_stream_kind stream)
{
    (void)stream;
    return gr_host_slot(d, slot);
}

void *gr_host_stream(gr_device *d, gr_stream_kind stream)
{
    (void)d;
    (void)stream;
    return NULL;
}

gr_status gr_host_event_create(gr_device *d, void **out)
{
    (void)d;
    *out = NULL;
    return GR_OK;
}

void gr_host_event_destroy(gr_device *d, void *event)
{
    (void)d;
    GR_BUG_IF(event != NULL); /* none was made */
}

gr_status gr_host_event(gr_device *d, void *event, gr_stream_kind stream)
{
    (void)d;
    (void)event;
    (void)stream;
    return GR_OK;
}

gr_status gr_host_capture_begin(gr_device *d)
{
    return gr_fail(GR_ERR_DEVICE, "device '%s' cannot record work", d->ops->name);
}

gr_status gr_host_capture_end(gr_device *d, void **recorded)
{
    *recorded = NULL;
    return gr_host_capture_begin(d);
}

gr_status gr_host_capture_launch(gr_device *d, void *recorded)
{
    (void)recorded;
    return gr_host_capture_begin(d);
}

void gr_host_capture_free(gr_device *d, void *recorded)
{
    (void)d;
    GR_BUG_IF(recorded != NULL); /* nothing was ever recorded */
}

/* ---- time ---- */

typedef struct host_device {
    gr_device base;
    int64_t began_ns;
} host_device;

gr_status gr_host_timer_begin(gr_device *d)
{
    ((host_device *)d)->began_ns = gr_now_ns();
    return GR_OK;
}

gr_status gr_host_timer_end(gr_device *d, double *seconds)
{
    *seconds = (double)(gr_now_ns() - ((host_device *)d)->began_ns) * 1e-9;
    return GR_OK;
}

/* ---- how much there is ---- */

/* The number behind `key` in a file; 0: there is none ("max"). */
static uint64_t number_in(const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    unsigned long long n = 0;
    char line[256];

    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, key, strlen(key)) == 0) {
            n = strtoull(line + strlen(key), NULL, 10);
            break;
        }
    if (f)
        fclose(f);
    return n;
}

gr_status gr_host_memory(gr_device *d, size_t *n_free, size_t *n_all)
{
    uint64_t available = number_in("/proc/meminfo", "MemAvailable:") * 1024;
    uint64_t all = number_in("/proc/meminfo", "MemTotal:") * 1024;
    uint64_t limit = number_in("/sys/fs/cgroup/memory.max", "");
    uint64_t used = number_in("/sys/fs/cgroup/memory.current", "");
    uint64_t cached = number_in("/sys/fs/cgroup/memory.stat", "file ");

    (void)d;
    used = used > cached ? used - cached : 0; /* the cache gives way */
    if (limit > 0 && limit < all) {
        all = limit;
        limit = limit > used ? limit - used : 0;
        available = limit < available ? limit : available;
    }
    *n_free = (size_t)available;
    *n_all = (size_t)all;
    return GR_OK;
}

bool gr_host_has_bf16(gr_device *d)
{
    (void)d;
    return true;
}

gr_status gr_host_open(const gr_backend_ops *ops, int index, gr_device **out)
{
    host_device *d;

    if (index < 0)
        return gr_fail(GR_ERR_ARG, "there is no device '%s:%d'", ops->name, index);
    d = (host_device *)gr_malloc(sizeof(*d));
    if (!d)
        return GR_ERR_NOMEM;
    *d = (host_device){ .base = { .ops = ops, .index = index } };
    *out = &d->base;
    return GR_OK;
}

void gr_host_close(gr_device *d)
{
    gr_free(d);
}

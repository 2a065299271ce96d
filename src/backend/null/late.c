/*
 * The CPU as a device whose results are late: kernels run when they are called, but what is
 * downloaded reaches the host only when the host waits for it, and never sooner than it must.
 * So a host that looks without waiting sees old numbers, as it may on a GPU. For tests.
 */
#include "backend/host.h"

#include "base/alloc.h"

#include <string.h>

typedef struct copy {
    struct copy *next;
    void *dst;
    size_t n_bytes;
    uint64_t number; /* of all that was queued, from 1 */
    char bytes[];
} copy;

typedef struct late_device {
    gr_device base;
    copy *first, **end; /* under way, oldest first */
    uint64_t n_queued;  /* so far */
    uint64_t marked_at[GR_N_SLOTS];
} late_device;

static late_device *late_of(gr_device *d)
{
    return (late_device *)d;
}

static gr_status late_open(gr_device **out, int index)
{
    late_device *d;

    if (index != 0)
        return gr_fail(GR_ERR_ARG, "there is no device 'cpu:late' %d", index);
    d = (late_device *)gr_calloc(1, sizeof(*d));
    if (!d)
        return GR_ERR_NOMEM;
    d->base = (gr_device){ .ops = &gr_backend_late, .index = 0 };
    d->end = &d->first;
    *out = &d->base;
    return GR_OK;
}

/* Hands out what was queued up to `number`. */
static void arrive(late_device *d, uint64_t number)
{
    while (d->first && d->first->number <= number) {
        copy *c = d->first;

        memcpy(c->dst, c->bytes, c->n_bytes);
        d->first = c->next;
        gr_free(c);
    }
    if (!d->first)
        d->end = &d->first;
}

static void late_close(gr_device *d)
{
    if (!d)
        return;
    while (late_of(d)->first) { /* nobody waited for these: their memory may be gone */
        copy *c = late_of(d)->first;

        late_of(d)->first = c->next;
        gr_free(c);
    }
    gr_free(d);
}

static int late_count(void)
{
    return 1;
}

static void late_describe(gr_device *d, gr_text *out)
{
    (void)d;
    gr_text_add(out, "CPU, results seen late");
}

static gr_status late_download(gr_device *d, void *dst, const void *src, size_t n_bytes)
{
    late_device *late = late_of(d);
    copy *c;

    if (n_bytes == 0)
        return GR_OK;
    c = (copy *)gr_malloc(sizeof(*c) + n_bytes);
    if (!c)
        return GR_ERR_NOMEM;
    *c = (copy){ .dst = dst, .n_bytes = n_bytes, .number = ++late->n_queued };
    memcpy(c->bytes, src, n_bytes);
    *late->end = c;
    late->end = &c->next;
    return GR_OK;
}

static gr_status late_sync(gr_device *d)
{
    arrive(late_of(d), UINT64_MAX);
    return GR_OK;
}

static gr_status late_mark(gr_device *d, int slot, gr_stream_kind stream)
{
    (void)stream; /* all are one */
    GR_BUG_IF(slot < 0 || slot >= GR_N_SLOTS);
    late_of(d)->marked_at[slot] = late_of(d)->n_queued;
    return GR_OK;
}

static gr_status late_wait(gr_device *d, int slot)
{
    GR_BUG_IF(slot < 0 || slot >= GR_N_SLOTS);
    arrive(late_of(d), late_of(d)->marked_at[slot]);
    return GR_OK;
}

const gr_backend_ops gr_backend_late = {
    .name = "late",
    .align = 64,
    .has_host_memory = true,
    .needs_copies = true,
    .runs_at_once = false,
    .can_poll = true,
    .has_streams = false,
    .can_capture = false,
    .shares_memory = true,
    .keeps_low = true,
    .open = late_open,
    .close = late_close,
    .count = late_count,
    .describe = late_describe,
    .alloc = gr_host_alloc,
    .free = gr_host_free,
    .host_alloc = gr_host_alloc,
    .host_free = gr_host_free,
    .upload = gr_host_copy,
    .download = late_download,
    .copy = gr_host_copy,
    .zero = gr_host_zero,
    .upload_ahead = gr_host_copy,
    .sync = late_sync,
    .stream = gr_host_stream,
    .event_create = gr_host_event_create,
    .event_destroy = gr_host_event_destroy,
    .event_record = gr_host_event,
    .event_wait = gr_host_event,
    .slot_mark = late_mark,
    .slot_wait = late_wait,
    .capture_begin = gr_host_capture_begin,
    .capture_end = gr_host_capture_end,
    .capture_launch = gr_host_capture_launch,
    .capture_free = gr_host_capture_free,
    .timer_begin = gr_host_timer_begin,
    .timer_end = gr_host_timer_end,
    .memory = gr_host_memory,
    .has_bf16 = gr_host_has_bf16,
};

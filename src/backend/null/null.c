/*
 * The device that is none: gives memory, so that addresses can be planned and data
 * carried through, and has no hardware behind it. Tests use it as it is, or copy its
 * table and replace single slots to watch or to fail.
 */
#include "backend/host.h"

static gr_status null_open(gr_device **out, int index)
{
    return gr_host_open(&gr_backend_null, index, out);
}

static int null_count(void)
{
    return 1;
}

static void null_describe(gr_device *d, gr_text *out)
{
    (void)d;
    gr_text_add(out, "no device");
}

const gr_backend_ops gr_backend_null = {
    .name = "null",
    .align = 64, /* a cache line, and what vector code likes */
    .has_host_memory = true,
    .needs_copies = false,
    .runs_at_once = true,
    .can_poll = true,
    .has_streams = false,
    .can_capture = false,
    .shares_memory = true,
    .keeps_low = true,
    .open = null_open,
    .close = gr_host_close,
    .count = null_count,
    .describe = null_describe,
    .alloc = gr_host_alloc,
    .free = gr_host_free,
    .host_alloc = gr_host_alloc,
    .host_free = gr_host_free,
    .upload = gr_host_copy,
    .download = gr_host_copy,
    .copy = gr_host_copy,
    .zero = gr_host_zero,
    .upload_ahead = gr_host_copy,
    .sync = gr_host_sync,
    .stream = gr_host_stream,
    .event_create = gr_host_event_create,
    .event_destroy = gr_host_event_destroy,
    .event_record = gr_host_event,
    .event_wait = gr_host_event,
    .slot_mark = gr_host_mark,
    .slot_wait = gr_host_slot,
    .capture_begin = gr_host_capture_begin,
    .capture_end = gr_host_capture_end,
    .capture_launch = gr_host_capture_launch,
    .capture_free = gr_host_capture_free,
    .timer_begin = gr_host_timer_begin,
    .timer_end = gr_host_timer_end,
    .memory = gr_host_memory,
    .has_bf16 = gr_host_has_bf16,
};

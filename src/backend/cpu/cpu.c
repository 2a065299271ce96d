/*
 * The CPU as a device. Kernels run in the calling thread and its pool, so work is done
 * when its call returns. One process per core is the usual way to use it: every index
 * opens the same memory, and count() says how many processes find a core.
 */
#include "backend/host.h"

#include <sched.h>
#include <unistd.h>

static gr_status cpu_open(gr_device **out, int index)
{
    return gr_host_open(&gr_backend_cpu, index, out);
}

/* Cores this process may use: a container or a launcher may have given it fewer. */
static int cpu_count(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    return 1; /* more cores than the set holds: at least the one we run on */
}

static void cpu_describe(gr_device *d, gr_text *out)
{
    long page_bytes = sysconf(_SC_PAGESIZE);
    long n_pages = sysconf(_SC_PHYS_PAGES);
    int n_cores = cpu_count();

    (void)d;
    gr_text_addf(out, "CPU, %d core%s", n_cores, gr_plural(n_cores));
    if (page_bytes > 0 && n_pages > 0)
        gr_text_addf(out, ", %.0f GiB", (double)page_bytes * (double)n_pages / 0x1p30);
}

const gr_backend_ops gr_backend_cpu = {
    .name = "cpu",
    .align = 64, /* a cache line, and what vector code likes */
    .has_host_memory = true,
    .needs_copies = false,
    .runs_at_once = true,
    .can_poll = true,
    .has_streams = false,
    .can_capture = false,
    .shares_memory = true,
    .keeps_low = true,
    .open = cpu_open,
    .close = gr_host_close,
    .count = cpu_count,
    .describe = cpu_describe,
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

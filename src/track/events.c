/*
 * TensorBoard's event file. A record is
 *
 *     u64 length, u32 masked crc32c of the length, bytes, u32 masked crc32c of the bytes
 *
 * little-endian; its bytes are an Event, packed by protobuf-c. The first one names the version.
 */
#include "track/events.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "track/events.pb-c.h"
#include "track/events_impl.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* The generated initialisers cast a const away. */
#pragma GCC diagnostic ignored "-Wcast-qual"

#define FLUSH_NS INT64_C(2000000000)

const char *gr_events_path(const gr_events *e)
{
    return e->sink.path;
}

static void put_u32(uint8_t *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

/* Checksums of data that itself holds checksums are weak; so they are stored turned. */
uint32_t gr_events_masked(const void *src, size_t n_bytes)
{
    uint32_t crc = gr_crc32c(0, src, n_bytes);

    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

gr_status gr_events_add(gr_events *e, const GrTb__Event *event)
{
    size_t n = gr_tb__event__get_packed_size(event);
    uint8_t head[12], tail[4];
    uint8_t *bytes = gr_malloc(n);

    if (!bytes)
        return GR_ERR_NOMEM;
    gr_tb__event__pack(event, bytes);
    put_u32(head, (uint32_t)n);
    put_u32(head + 4, (uint32_t)((uint64_t)n >> 32));
    put_u32(head + 8, gr_events_masked(head, 8));
    put_u32(tail, gr_events_masked(bytes, n));
    gr_sink_add(&e->sink, head, sizeof(head));
    gr_sink_add(&e->sink, bytes, n);
    gr_sink_add(&e->sink, tail, sizeof(tail));
    gr_free(bytes);
    return gr_events_flush(e, false);
}

gr_status gr_events_add_value(gr_events *e, const gr_event_at *at, GrTb__Value *value)
{
    GrTb__Event event = GR_TB__EVENT__INIT;
    GrTb__Summary summary = GR_TB__SUMMARY__INIT;
    gr_text tag = GR_TEXT_INIT;
    gr_status st;

    gr_utf8_add(&tag, at->tag);
    GR_TRY_GOTO(st, gr_text_status(&tag), out);
    if (tag.len > 0)
        value->tag = tag.str;
    summary.n_value = 1;
    summary.value = &value;
    event.wall_time = at->wall_time;
    event.step = at->step;
    event.what_case = GR_TB__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    st = gr_events_add(e, &event);

out:
    gr_text_fini(&tag);
    return st;
}

gr_status gr_events_flush(gr_events *e, bool now)
{
    return gr_sink_flush(&e->sink, now ? 0 : FLUSH_NS);
}

/* The name holds seconds, host, process and a count: no two writers meet in one file. */
static gr_status create_file(gr_events *e, const char *folder, double wall_time)
{
    static atomic_int n_made;
    gr_text path = GR_TEXT_INIT;
    char host[256];
    gr_status st;

    gr_host_name(host, sizeof(host));
    gr_text_addf(&path, "%s/events.out.tfevents.%010lld.%s.%ld.%d", folder, (long long)wall_time,
                 host, (long)getpid(), atomic_fetch_add(&n_made, 1));
    st = gr_text_status(&path);
    if (st == GR_OK)
        st = gr_sink_create(&e->sink, path.str);
    gr_text_fini(&path);
    return st;
}

gr_status gr_events_sync(gr_events *e)
{
    return gr_sink_sync(&e->sink);
}

gr_status gr_events_restarted(gr_events *e, int64_t step)
{
    GrTb__Event event = GR_TB__EVENT__INIT;
    GrTb__SessionLog log = GR_TB__SESSION_LOG__INIT;

    log.status = 1;
    event.wall_time = gr_wall_time();
    event.step = step;
    event.what_case = GR_TB__EVENT__WHAT_SESSION_LOG;
    event.session_log = &log;
    GR_TRY(gr_events_add(e, &event));
    return gr_events_flush(e, true);
}

static gr_status start_file(gr_events *e, const char *folder)
{
    static char version[] = "brain.Event:2", writer[] = GR_EVENTS_WRITER;
    GrTb__Event event = GR_TB__EVENT__INIT;
    GrTb__SourceMetadata source = GR_TB__SOURCE_METADATA__INIT;

    source.writer = writer;
    event.source_metadata = &source;
    event.wall_time = gr_wall_time();
    event.what_case = GR_TB__EVENT__WHAT_FILE_VERSION;
    event.file_version = version;
    GR_TRY(gr_make_folders(folder));
    GR_TRY(create_file(e, folder, event.wall_time));
    GR_TRY(gr_events_add(e, &event));
    return gr_events_flush(e, true);
}

gr_status gr_events_open(gr_events **out, const char *folder, gr_scalar_form form)
{
    gr_events *e = gr_calloc(1, sizeof(*e));
    gr_status st;

    if (!e)
        return GR_ERR_NOMEM;
    e->form = form;
    st = start_file(e, folder);
    if (st != GR_OK) {
        GR_IGNORE(gr_events_close(e)); /* the first failure is the one to tell */
        return st;
    }
    *out = e;
    return GR_OK;
}

gr_status gr_events_close(gr_events *e)
{
    gr_status st;

    if (!e)
        return GR_OK;
    st = gr_sink_close(&e->sink);
    gr_free(e);
    return st;
}

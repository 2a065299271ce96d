/* What the files of the event writer share. The records are declared by the generated
 * events.pb-c.h, which only the C files include: the name of that file is the build's. */
#ifndef GR_TRACK_EVENTS_IMPL_H
#define GR_TRACK_EVENTS_IMPL_H

#include "track/events.h"
#include "track/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

struct GrTb__Event;
struct GrTb__Value;

struct gr_events {
    gr_sink sink;
    gr_scalar_form form;
};

/* In the first record of each file: ours are cut when a run goes on, others are left alone. */
#define GR_EVENTS_WRITER "gradus"

/* The checksum that stands behind lengths and bytes. */
uint32_t gr_events_masked(const void *src, size_t n_bytes);
/* One record. */
gr_status gr_events_add(gr_events *e, const struct GrTb__Event *event) GR_MUST_CHECK;
/* One record with one value, whose tag is set here. */
gr_status gr_events_add_value(gr_events *e, const gr_event_at *at,
                              struct GrTb__Value *value) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

/*
 * A file that is only appended to, through a buffer: what the record files stand on. The first
 * failure sticks, and everything after it does nothing, so a writer checks once, at flush. A
 * sink belongs to one thread at a time.
 */
#ifndef GR_TRACK_SINK_H
#define GR_TRACK_SINK_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_sink {
    int fd;         /* -1 when closed */
    char *path;     /* owned */
    gr_text buffer; /* not yet written */
    int64_t n_bytes;
    int64_t flushed_at_ns;
    gr_error failure;
} gr_sink;

/* A new file; one that exists already is a failure: records of two runs never mix. */
gr_status gr_sink_create(gr_sink *s, const char *path) GR_MUST_CHECK;
void gr_sink_add(gr_sink *s, const void *src, size_t n_bytes);
/* Writes the buffer out. `after_ns`: only if the last time was so long ago, or if the buffer
 * has grown large; 0 always. Returns the failure that sticks, if there is one. */
gr_status gr_sink_flush(gr_sink *s, int64_t after_ns) GR_MUST_CHECK;
/* Flushes, and waits until the disk has everything. */
gr_status gr_sink_sync(gr_sink *s) GR_MUST_CHECK;
/* Flushes and closes; a zeroed or failed sink is fine. */
gr_status gr_sink_close(gr_sink *s) GR_MUST_CHECK;

/* fsync() of a file of records; one that has no disk (a pipe, a terminal) is as safe as it gets. */
gr_status gr_sync_records(int fd, const char *path) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

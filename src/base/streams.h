/*
 * The three standard streams. A program may be started with one of them closed; the first
 * file it opens would then take that number, and text for people would land in it.
 */
#ifndef GR_BASE_STREAMS_H
#define GR_BASE_STREAMS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens /dev/null where descriptor 0, 1 or 2 is closed. The first call of a main(). */
gr_status gr_streams_open(void) GR_MUST_CHECK;

/* Flushes `out`; GR_ERR_IO when something that was written to it got lost, now or before. */
gr_status gr_stream_flush(FILE *out) GR_MUST_CHECK;

/* Text in one piece, past the buffer: a reader that leaves early (`| grep -q`) has it all. */
gr_status gr_stream_write(FILE *out, const char *text, size_t n) GR_MUST_CHECK;

/* A terminal on which a line can be drawn over; not one that is called dumb (TERM). */
bool gr_terminal_redraws(int fd);

#ifdef __cplusplus
}
#endif

#endif

/*
 * Frames: what launchers on several hosts say to each other.
 *
 *     u32   length of what follows, little-endian, at most GR_FRAME_MAX
 *     text  KIND\n  key=value\n ...  \n  body (the rest, any bytes)
 *
 * A connection begins with the four letters of GR_FRAME_HELLO. The parser takes bytes from
 * strangers: it looks at nothing beyond what it is given.
 */
#ifndef GR_NET_FRAME_H
#define GR_NET_FRAME_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_FRAME_HELLO "GRL1"
#define GR_FRAME_MAX   ((size_t)256 << 10)
#define GR_FRAME_KIND  16

typedef struct gr_frame {
    char kind[GR_FRAME_KIND];
    const char *fields; /* "key=value\n" lines, not ended by NUL; borrowed */
    size_t n_fields;
    const char *body;
    size_t n_body;
} gr_frame;

/* Reads one frame from the front. *n_used 0: it is not whole yet. GR_ERR_FORMAT: it cannot be
 * one, which is noticed before its bytes are there. The frame borrows `mem`. */
gr_status gr_frame_parse(const char *mem, size_t n_bytes, gr_frame *out,
                         size_t *n_used) GR_MUST_CHECK;
/* A field as text, cut to fit; "" when it is not there. */
void gr_frame_text(const gr_frame *f, const char *key, char *out, size_t out_bytes);
/* A field as a number in a range; GR_ERR_FORMAT names it. */
gr_status gr_frame_int(const gr_frame *f, const char *key, int min, int max,
                       int *out) GR_MUST_CHECK;

/* Writing into an empty text: begin, fields, end. A failed append sticks in `t`. Line ends in
 * values become spaces; a body that is too long is cut. */
void gr_frame_begin(gr_text *t, const char *kind);
void gr_frame_put(gr_text *t, const char *key, const char *value);
void gr_frame_put_int(gr_text *t, const char *key, int value);
void gr_frame_end(gr_text *t, const char *body);

#ifdef __cplusplus
}
#endif

#endif

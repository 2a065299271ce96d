/* Memory for files that are read and decoded over and over: taken, used, given back. */
#ifndef GR_DATA_BUFFERS_H
#define GR_DATA_BUFFERS_H

#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_buffer {
    char *mem;
    size_t cap;
    size_t n_bytes; /* of the file that was read last */
} gr_buffer;

/* A store of buffers that all threads of a data set share. */
typedef struct gr_buffers gr_buffers;

gr_status gr_buffers_create(gr_buffers **out) GR_MUST_CHECK;
void gr_buffers_destroy(gr_buffers *b); /* all must have been given back; NULL is fine */

/* Any thread. An empty buffer when there is none in store: it grows when it is read into. */
gr_buffer gr_buffers_take(gr_buffers *b);
void gr_buffers_give(gr_buffers *b, gr_buffer buffer);

/* The whole of a file; GR_ERR_IO with path and reason. */
gr_status gr_buffer_read(gr_buffer *b, const char *path) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

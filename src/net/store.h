/*
 * A client of a TCPStore-compatible store: gradrun's, torchrun's, or rank 0's own.
 *
 * Each call is one request and its answer, and ends at the deadline. After a failure
 * other than a wait that timed out, the connection is no longer usable. One thread.
 */
#ifndef GR_NET_STORE_H
#define GR_NET_STORE_H

#include "base/clock.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_store gr_store;

/* Connects, trying until the deadline, and makes sure that a store answers there. */
gr_status gr_store_connect(gr_store **out, const char *host, int port, gr_deadline d) GR_MUST_CHECK;
void gr_store_close(gr_store *s);

gr_status gr_store_set(gr_store *s, const char *key, const void *value, size_t n_bytes,
                       gr_deadline d) GR_MUST_CHECK;
/* *now: the counter after adding; a missing one starts at 0. */
gr_status gr_store_add(gr_store *s, const char *key, int64_t by, int64_t *now,
                       gr_deadline d) GR_MUST_CHECK;
/* Until all keys are there; GR_ERR_TIMEOUT names one that is not. */
gr_status gr_store_wait(gr_store *s, const char *const *keys, int n_keys,
                        gr_deadline d) GR_MUST_CHECK;
/* Waits for the key, then copies its value, NUL-terminated, from gr_malloc(). */
gr_status gr_store_get(gr_store *s, const char *key, char **out, size_t *n_bytes,
                       gr_deadline d) GR_MUST_CHECK;
/* The same for many keys with one request; out[i] is to be freed one by one. */
gr_status gr_store_get_many(gr_store *s, const char *const *keys, int n_keys, char **out,
                            gr_deadline d) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

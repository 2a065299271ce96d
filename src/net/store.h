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

#include <stdbool.h>
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
/* All of them at once: nobody sees some of the keys without the others. */
gr_status gr_store_set_many(gr_store *s, const char *const *keys, const char *const *values,
                            int n_keys, gr_deadline d) GR_MUST_CHECK;

/* Sets the key to `desired` if its value is `expected`, or if it is missing and `expected` is
 * empty. *now is the value afterwards, from gr_malloc(); `expected` when the key is missing. */
gr_status gr_store_compare_set(gr_store *s, const char *key, const char *expected,
                               const char *desired, char **now, gr_deadline d) GR_MUST_CHECK;
gr_status gr_store_append(gr_store *s, const char *key, const void *value, size_t n_bytes,
                          gr_deadline d) GR_MUST_CHECK;
/* Whether all keys are there now. */
gr_status gr_store_check(gr_store *s, const char *const *keys, int n_keys, bool *all,
                         gr_deadline d) GR_MUST_CHECK;
gr_status gr_store_delete(gr_store *s, const char *key, bool *was_there,
                          gr_deadline d) GR_MUST_CHECK;
gr_status gr_store_count(gr_store *s, int64_t *n_keys, gr_deadline d) GR_MUST_CHECK;

/* Queues: first in, first out. pop() waits until one has something. */
gr_status gr_store_push(gr_store *s, const char *key, const void *value, size_t n_bytes,
                        gr_deadline d) GR_MUST_CHECK;
gr_status gr_store_pop(gr_store *s, const char *key, char **out, size_t *n_bytes,
                       gr_deadline d) GR_MUST_CHECK;
gr_status gr_store_queued(gr_store *s, const char *key, int64_t *n, gr_deadline d) GR_MUST_CHECK;

/* Names of all keys, each from gr_malloc(), in a list from gr_malloc(), without the slash that
 * clients put before theirs. */
gr_status gr_store_list(gr_store *s, char ***out, int *n_keys, gr_deadline d) GR_MUST_CHECK;
/* Until n ranks have come to this barrier. After a timeout the store is no longer usable. */
gr_status gr_store_barrier(gr_store *s, const char *key, int64_t n, gr_deadline d) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

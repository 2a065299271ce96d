/*
 * The store without sockets: sessions feed bytes in and find bytes to send. The server
 * puts a socket on each session; tests and the fuzzer put nothing.
 *
 * A session in a WAIT or BARRIER is answered when another one brings what it waits for,
 * so feeding one session may give others something to send. One thread.
 */
#ifndef GR_NET_STORE_HUB_H
#define GR_NET_STORE_HUB_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_store_hub gr_store_hub;
typedef struct gr_store_session gr_store_session;

gr_status gr_store_hub_create(gr_store_hub **out) GR_MUST_CHECK;
void gr_store_hub_destroy(gr_store_hub *h); /* and all sessions */

gr_status gr_store_session_open(gr_store_session **out, gr_store_hub *h) GR_MUST_CHECK;
void gr_store_session_close(gr_store_session *s);

/* Takes bytes from the client. A failure means: close this session. */
gr_status gr_store_session_feed(gr_store_session *s, const void *src, size_t n_bytes) GR_MUST_CHECK;

/* What waits to be sent, and that its first n bytes were. Requests that were held back
 * because too much waited are then handled: a failure means close. */
const uint8_t *gr_store_session_pending(const gr_store_session *s, size_t *n_bytes);
gr_status gr_store_session_sent(gr_store_session *s, size_t n_bytes) GR_MUST_CHECK;
/* False: so much waits to be sent that nothing should be read. */
bool gr_store_session_wants_input(const gr_store_session *s);

#ifdef __cplusplus
}
#endif

#endif

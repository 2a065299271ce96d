/*
 * The store's server: a thread that answers TCPStore clients. It is hosted by gradrun, or
 * by rank 0 when no launcher does. Bound to one address, listening from creation on;
 * clients that come before start() wait in the system's queue.
 */
#ifndef GR_NET_STORE_SERVER_H
#define GR_NET_STORE_SERVER_H

#include "base/clock.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_store_server gr_store_server;

/* Port 0 takes a free one. */
gr_status gr_store_server_create(gr_store_server **out, const char *host, int port) GR_MUST_CHECK;
int gr_store_server_port(const gr_store_server *s);
gr_status gr_store_server_start(gr_store_server *s) GR_MUST_CHECK;
/* Waits until all clients have closed their connections, at most until the deadline. */
void gr_store_server_drain(gr_store_server *s, gr_deadline d);
/* Ends the thread and all connections. NULL is fine. */
void gr_store_server_destroy(gr_store_server *s);

#ifdef __cplusplus
}
#endif

#endif

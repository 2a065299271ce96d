/*
 * The store's server: a thread that answers TCPStore clients. It is hosted by gradrun, or
 * by rank 0 when no launcher does. It listens from creation on;
 * clients that come before start() wait in the system's queue.
 */
#ifndef GR_NET_STORE_SERVER_H
#define GR_NET_STORE_SERVER_H

#include "base/clock.h"
#include "base/status.h"
#include "net/ports.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_store_server gr_store_server;

typedef struct gr_store_server_config {
    const char *host; /* to listen on; NULL: all addresses of this host */
    int port;         /* 0: a free one of the range */
    gr_port_range ports;
    bool is_guarded; /* serve only addresses that gr_store_server_allow() named */
    /* One port may serve another protocol too, whose first byte is GR_STORE_OTHER: such
     * connections are handed over, unread, from the server's thread. NULL: there is none. */
    void (*other)(void *arg, int fd);
    void *arg;
} gr_store_server_config;

#define GR_STORE_OTHER 'G'

/* Port 0 takes a free one. */
gr_status gr_store_server_create(gr_store_server **out, const char *host, int port) GR_MUST_CHECK;
gr_status gr_store_server_create_with(gr_store_server **out,
                                      const gr_store_server_config *config) GR_MUST_CHECK;
/* A guarded server serves this address, a number, from now on; or no longer, if that was said
 * as often. Any thread. */
gr_status gr_store_server_allow(gr_store_server *s, const char *address) GR_MUST_CHECK;
void gr_store_server_forbid(gr_store_server *s, const char *address);
/* Forgets all keys and closes all connections; returns when that is done. After start(), one
 * thread at a time. */
void gr_store_server_clear(gr_store_server *s);
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

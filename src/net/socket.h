/*
 * TCP sockets with deadlines. All are close-on-exec, non-blocking and without Nagle's
 * delay; the functions here wait with poll() and never longer than told. No reverse
 * look-ups. Any thread; a socket belongs to one thread at a time.
 */
#ifndef GR_NET_SOCKET_H
#define GR_NET_SOCKET_H

#include "base/clock.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Listens on an address of this host, NULL for all of them; port 0 takes a free one. *real_port
 * says which. A port that is taken is a failure that names the owner and a free one. */
gr_status gr_socket_listen(int *fd, const char *host, int port, int *real_port) GR_MUST_CHECK;
/* The same without a message: 0, or -1 with errno (0 when the host does not resolve). */
int gr_socket_try_listen(int *fd, const char *host, int port);
/* The port of this side; 0 when it has none. */
int gr_socket_port(int fd);

/* Tries until somebody listens there or the deadline passes; names that do not resolve
 * yet are tried again too. */
gr_status gr_socket_connect(int *fd, const char *host, int port, gr_deadline d) GR_MUST_CHECK;
/* The same to a program on this machine: see gr_socket_near(). */
gr_status gr_socket_connect_near(int *fd, const char *host, int port, gr_deadline d) GR_MUST_CHECK;

/* One try at each address of the host. *is_refused: its system says that nobody listens there. */
gr_status gr_socket_knock(int *fd, const char *host, int port, gr_deadline d,
                          bool *is_refused) GR_MUST_CHECK;

/* Both ends are on one machine: no network whose rate is to be found out, so the plainest
 * congestion control. One that paces (bbr, where the system is set so) spends a timer and an
 * interrupt on every 64 KiB: 1.5 times the processor time. Before the connection is made, as
 * a pacing socket stays one: of a listener, its connections inherit it. */
void gr_socket_near(int fd);
/* A connection from elsewhere to such a listener: what the system is set to. */
void gr_socket_far(int fd);

/* All of it, or a failure: GR_ERR_TIMEOUT, or GR_ERR_IO when the other side is gone. */
gr_status gr_socket_send(int fd, const void *src, size_t n_bytes, gr_deadline d) GR_MUST_CHECK;
gr_status gr_socket_recv(int fd, void *dst, size_t n_bytes, gr_deadline d) GR_MUST_CHECK;

/* What accept() gave: sets the same properties. */
gr_status gr_socket_prepare(int fd) GR_MUST_CHECK;

/* For connections on which one waits for long: a host that does not answer for silence_ms is
 * given up, whether there are bytes for it or not, and not earlier. Its system answers for a
 * process that is busy or stopped. But a stopped one takes no bytes when there are many: such
 * connections (is_bulk) live longer, and another one must tell of a silent host.
 *
 * Bytes that got lost are sent again every sixth of that time at the latest, and at least every
 * 2 s: then the connection goes on after an outage. Linux before 6.15 doubles its pauses instead,
 * so there that takes up to as long again as the outage did. */
void gr_socket_endure(int fd, int silence_ms, bool is_bulk);

#ifdef __cplusplus
}
#endif

#endif

/* Addresses of this host and of peers, as numbers: nothing is looked up backwards. Any thread. */
#ifndef GR_NET_INTERFACE_H
#define GR_NET_INTERFACE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_ADDRESS_TEXT 64

/*
 * The address of the network interface that GR_SOCKET_IFNAME, else NCCL_SOCKET_IFNAME, names:
 * beginnings of names separated by commas; '=' before the list asks for whole names, '^' for
 * interfaces that do not match. "" in `out` when neither is set; GR_ERR_ARG lists the interfaces
 * when none fits.
 */
gr_status gr_interface_address(char out[GR_ADDRESS_TEXT]) GR_MUST_CHECK;

/* Whether a name or number means this host; names that do not resolve do not. */
bool gr_interface_is_local(const char *host);
/* Whether this address, a number, is one of those that a name or number has. */
bool gr_interface_is_one_of(const char *address, const char *host);
/* Whether a name has an address at all, now. */
bool gr_interface_resolves(const char *host);
/* 127.0.0.0/8, ::1 and names that resolve to nothing else. */
bool gr_interface_is_loopback(const char *host);

/* The number of an address; IPv4 in IPv6's clothing is written as IPv4. */
void gr_address_text(const struct sockaddr *a, char out[GR_ADDRESS_TEXT]);
/* Of the other side of a connection, and of this side; "?" when there is none. */
void gr_address_of_peer(int fd, char out[GR_ADDRESS_TEXT]);
void gr_address_of_self(int fd, char out[GR_ADDRESS_TEXT]);

#ifdef __cplusplus
}
#endif

#endif

/* Groups over TCP, and over TCP between hosts with shared memory inside them. */
#ifndef GR_COMM_TCP_TCP_H
#define GR_COMM_TCP_TCP_H

#include "comm/wired.h"

extern const gr_wired_kind gr_wired_tcp, gr_wired_hosts;

/* What tells a host: GR_HOSTID if set, else boot id, name and process namespace. */
GR_API void gr_host_identity(char *id, size_t id_bytes, char *name, size_t name_bytes);

#endif

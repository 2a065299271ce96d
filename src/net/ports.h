/* Ports: ranges to stay in, and who has one that is taken. Any thread. */
#ifndef GR_NET_PORTS_H
#define GR_NET_PORTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_port_range {
    int first, last; /* both 0: any port */
} gr_port_range;

/* "A:B" or "A-B", 1 to 65535. */
gr_status gr_port_range_parse(gr_port_range *out, const char *text) GR_MUST_CHECK;
/* GR_PORT_RANGE: gradrun --port-range hands it to its ranks. Not set: any port. */
gr_status gr_port_range_from_env(gr_port_range *out) GR_MUST_CHECK;

/* Listens as gr_socket_listen() does. Port 0: the first one of the range that is free. */
gr_status gr_port_listen(int *fd, const char *host, int port, gr_port_range range,
                         int *real_port) GR_MUST_CHECK;

/* "'python3' (process 4711)": who listens on a TCP port of this host. False when that cannot
 * be seen: another user's processes are hidden from us. */
bool gr_port_owner(int port, char *out, size_t out_bytes);
/* A port that nobody had a moment ago; 0 when there is none. */
int gr_port_free(void);

#ifdef __cplusplus
}
#endif

#endif

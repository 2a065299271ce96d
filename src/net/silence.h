/*
 * How long a host may be silent before it is given up: its system acknowledges nothing, because it
 * is gone or the network between is. A process that is busy or stopped is not silent: its system
 * answers for it.
 */
#ifndef GR_NET_SILENCE_H
#define GR_NET_SILENCE_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Between ranks that wait timeout_ms for each other. GR_HEARTBEAT_TIMEOUT (seconds; gradrun sets it
 * to its heartbeat_timeout) makes it shorter. In both cases 2 s more: whoever set that time is to
 * be the first to give up, so that all tell one story. GR_ERR_ARG for what is no number. */
gr_status gr_silence_limit(int timeout_ms, int *limit_ms) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

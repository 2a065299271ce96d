/* How long ranks wait for each other. */
#ifndef GR_COMM_TIMEOUT_H
#define GR_COMM_TIMEOUT_H

#include "base/status.h"

/* From GR_TIMEOUT, else NCCL_TIMEOUT, else TORCH_DISTRIBUTED_TIMEOUT (all in seconds; the
 * last two with a line in the log), else 300 s. GR_ERR_ARG for what is no number. */
gr_status gr_timeout_from_env(int *timeout_ms) GR_MUST_CHECK;

#endif

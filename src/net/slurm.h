/* Slurm's own notations: lists of hosts and of tasks per node. */
#ifndef GR_NET_SLURM_H
#define GR_NET_SLURM_H

#include "base/status.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first host of "node[05-09,12],login1": "node05". GR_ERR_FORMAT when it is no such list. */
gr_status gr_slurm_first_host(const char *list, char *out, size_t out_bytes) GR_MUST_CHECK;

/* Tasks on node `node` of "4(x2),3". GR_ERR_FORMAT when the text does not say. */
gr_status gr_slurm_tasks_on(const char *text, int node, int *out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

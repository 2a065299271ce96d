/* Ranks of one host, on one GPU or on GPUs that reach each other's memory. */
#ifndef GR_COMM_IPC_IPC_H
#define GR_COMM_IPC_IPC_H

#include "comm/pg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* gr_pg_factory.create of "ipc". */
gr_status gr_ipc_create(gr_pg **out, gr_pg *host, gr_device *dev) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

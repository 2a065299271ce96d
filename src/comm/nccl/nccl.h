/* NCCL: ranks with a GPU each, on one or many hosts. */
#ifndef GR_COMM_NCCL_NCCL_H
#define GR_COMM_NCCL_NCCL_H

#include "comm/pg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* gr_pg_factory.create of "nccl". */
gr_status gr_nccl_create(gr_pg **out, gr_pg *host, gr_device *dev) GR_MUST_CHECK;

/* 22703 for 2.27.3; 0: NCCL is not there. */
int gr_nccl_version(void);

#ifdef __cplusplus
}
#endif

#endif

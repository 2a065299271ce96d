/*
 * Rank discovery: what the launcher said about this process, from the environment.
 * gradrun and torchrun set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and
 * MASTER_PORT; LOCAL_* may be missing. Without any of the first four: a job of one.
 */
#ifndef GR_NET_ENV_H
#define GR_NET_ENV_H

#include "base/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_HOST_TEXT 256

typedef struct gr_job {
    int rank, n_ranks;
    int local_rank, n_local; /* n_local 0: not said */
    char store_host[GR_HOST_TEXT];
    int store_port;
    bool agent_store; /* the launcher hosts the store; else rank 0 does */
    int restart;      /* how often the launcher has restarted the job */
} gr_job;

/* GR_ERR_ARG names the variable that is missing or wrong and says what to do. */
gr_status gr_job_from_env(gr_job *out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

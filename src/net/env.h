/*
 * Rank discovery: what the launcher said about this process, from the environment.
 *
 * Families of variables are tried in this order, and the first that is there counts:
 * torchrun's and gradrun's (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE), Open MPI, MVAPICH,
 * PMI (MPICH, Intel MPI), PMIx, LSF, Flux, Slurm inside a step of several tasks, Kubernetes with a
 * process in each pod. Rank and size come from the same family, and half a family is refused.
 * Without any: a job of one.
 *
 * MASTER_ADDR and MASTER_PORT say where the store is. Where ranks of one host, or Slurm's list
 * of nodes, make them plain, they may be missing.
 */
#ifndef GR_NET_ENV_H
#define GR_NET_ENV_H

#include "base/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_HOST_TEXT  256
#define GR_TOKEN_TEXT 65

typedef struct gr_job {
    int rank, n_ranks;
    int local_rank, n_local; /* n_local 0: not said */
    char store_host[GR_HOST_TEXT];
    int store_port;
    bool agent_store;          /* the launcher hosts the store; else rank 0 does */
    int restart;               /* how often the launcher has restarted the job */
    char token[GR_TOKEN_TEXT]; /* GR_JOB_TOKEN: what ranks of this job know; "" when not said */
    const char *source;        /* who said it: "torchrun", "Slurm" ...; static */
} gr_job;

/* GR_ERR_ARG names the variable that is missing or wrong and says what to do. GR_INIT_METHOD,
 * if set, is an address for gr_job_from_url(). */
gr_status gr_job_from_env(gr_job *out) GR_MUST_CHECK;
/* Ranks only, not where the store is: all that is known where a group needs no store. */
GR_API gr_status gr_job_ranks_from_env(gr_job *out) GR_MUST_CHECK;

/*
 * "env://" is gr_job_from_env(); "tcp://host:port" takes the store's place from the address.
 * Both may end with "?rank=R&world_size=W"; what they do not say comes from the environment.
 */
gr_status gr_job_from_url(gr_job *out, const char *url) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

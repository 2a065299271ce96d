/* Processes of one host on their way to a group. */
#ifndef GR_COMM_SHM_JOIN_H
#define GR_COMM_SHM_JOIN_H

#include "comm/shm/shm.h"
#include "net/env.h"
#include "net/store.h"

typedef struct shm_joining {
    const gr_job *job;
    const gr_pg_config *config;
    gr_deadline deadline;
    gr_store *store; /* connected */
    const char *key; /* where rank 0 says where its memory is */
    const int *pids; /* of all ranks */
} shm_joining;

gr_status shm_join(gr_pg **out, const shm_joining *j) GR_MUST_CHECK;

/* The control segment of a new world, with a token of its own. */
gr_status shm_make_control(shm_world *w) GR_MUST_CHECK;

#endif

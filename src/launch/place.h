/* The place of this host in one round of a job: what its ranks are told. */
#ifndef GR_LAUNCH_PLACE_H
#define GR_LAUNCH_PLACE_H

#include "net/env.h"

typedef struct gr_place {
    int first_rank, n_ranks; /* of this host's ranks, and of all hosts together */
    int host, n_hosts;
    char master_addr[GR_HOST_TEXT];
    int master_port;
    int restart; /* how many restarts have been used up */
    int attempt; /* how many rounds came before; names the folder of logs */
    char token[GR_TOKEN_TEXT];
} gr_place;

#endif

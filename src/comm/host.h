/* Where a rank runs, as it tells the others: one line of text in the store. */
#ifndef GR_COMM_HOST_H
#define GR_COMM_HOST_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define GR_HOST_LINE      640
#define GR_TRANSPORT_TEXT 32

typedef struct gr_host {
    char boot[64];  /* of this start of the system */
    char name[256]; /* of the host */
    char space[64]; /* in which its processes see each other */
    char id[128];   /* GR_HOSTID: pretends that hosts differ, for tests */
    int pid;
    uint64_t born; /* when the process started, 0: unknown; numbers of processes come again */
    int n_ranks;
    char transport[GR_TRANSPORT_TEXT];
} gr_host;

/* This process; number of ranks and transport (NULL: any) are the caller's. */
void gr_host_describe(gr_host *h, int n_ranks, const char *transport);

void gr_host_write(const gr_host *h, char line[GR_HOST_LINE]);
gr_status gr_host_parse(const char *line, int rank, gr_host *h) GR_MUST_CHECK;

/* They can see each other's processes. */
bool gr_host_sees(const gr_host *a, const gr_host *b);
/* Of a process that this one sees. */
bool gr_host_is_alive(const gr_host *h);

#endif

/*
 * What groups on a GPU share. They reduce on the device; everything else goes to the
 * host group they are made over, which they borrow. Every wait of theirs calls
 * gr_over_check(): the host group tells of ranks that gave up, process descriptors of
 * ranks that were killed.
 */
#ifndef GR_COMM_IPC_OVER_H
#define GR_COMM_IPC_OVER_H

#include "backend/cuda/cuda.h"
#include "comm/pg.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_over {
    gr_pg pg;            /* first: a gr_pg * is a gr_over * */
    gr_pg *host;         /* borrowed */
    gr_cuda_device *dev; /* borrowed */
    bool is_one_host;    /* every rank runs here, and process numbers mean the same */
    int *pids;           /* by rank */
    int *pid_fds;        /* by rank; -1: this process, or not to be watched */
} gr_over;

/* Collective over `host`. */
gr_status gr_over_init(gr_over *o, const gr_pg_ops *ops, gr_pg *host, gr_device *dev) GR_MUST_CHECK;
void gr_over_fini(gr_over *o); /* a half-made one, too */

/* GR_ERR_PEER when the group was aborted or a peer's process has ended. */
gr_status gr_over_check(gr_over *o) GR_MUST_CHECK;

/* The functions that only pass on. */
gr_status gr_over_poll(gr_pg *pg) GR_MUST_CHECK;
gr_status gr_over_gather_bytes(gr_pg *pg, const void *src, size_t n_bytes, char ***out,
                               size_t *sizes) GR_MUST_CHECK;
gr_status gr_over_run(gr_pg *pg, const gr_pg_call *c) GR_MUST_CHECK;
gr_status gr_over_begin(gr_pg *pg, const gr_pg_call *c, gr_work **out) GR_MUST_CHECK;
gr_status gr_over_split(gr_pg *pg, const gr_part *part, gr_pg **out) GR_MUST_CHECK;
void gr_over_describe(const gr_pg *pg, gr_text *text);
void gr_over_abort(gr_pg *pg, const char *why);

/* A short pause of a waiting loop that began waited_ns ago: spins first, then sleeps. */
void gr_over_pause(int64_t waited_ns);

#ifdef __cplusplus
}
#endif

#endif

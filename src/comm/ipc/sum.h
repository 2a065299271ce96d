/* The reduction kernel of ipc: W buffers become their combination, each. */
#ifndef GR_COMM_IPC_SUM_H
#define GR_COMM_IPC_SUM_H

#include "gradus/comm.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GR_IPC_MAX_RANKS 64

/* By the law of comm/reduce.h: in rank order, each product and sum rounded on its own. */
typedef struct gr_ipc_sum {
    void *part[GR_IPC_MAX_RANKS]; /* 64-byte aligned */
    int n_parts;
    size_t first, n_elem; /* the stretch to reduce; first at a multiple of 64 bytes */
    gr_dtype dtype;
    gr_reduce op;
} gr_ipc_sum;

/* Queues it on the stream. GR_ERR_ARG for what has no reduction. */
gr_status gr_ipc_sum_run(const gr_ipc_sum *s, cudaStream_t stream) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

/*
 * How long a kernel takes for a node, measured on memory of its own: what a choice between
 * kernels is taken from. Host devices only.
 */
#ifndef GR_EXEC_TUNE_H
#define GR_EXEC_TUNE_H

#include "backend/backend.h"
#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_TUNE_CANDIDATES 3

/* The first kernels of the list that take the node, without the reference; how many. Nodes
 * whose operator is not worth measuring have none. */
int gr_tune_candidates(const gr_node *n, const gr_kernel *out[GR_TUNE_CANDIDATES]);

typedef struct gr_tune {
    gr_device *device; /* borrowed */
    gr_pool *pool;     /* borrowed; NULL: the caller alone */
    int n_threads;
} gr_tune;

/* Seconds of one run, the best of a few after one to warm up. */
gr_status gr_tune_time(const gr_tune *t, const gr_node *n, const gr_kernel *k,
                       double *seconds) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

/*
 * How long a kernel takes for a node, measured on the device that it will run on: what a
 * choice between kernels, and between the variants of one, is taken from.
 *
 * A candidate is text, "kernel" or "kernel:variant", as gr_kernel_ready() takes it: the
 * library's own identity of an algorithm, which means the same to another process.
 *
 * Everything a measured node touches lies in memory of the caller: the arena, before the
 * first step. A plan that is made with gr_plan_config.reserve has room for that, and for the
 * workspace of whatever is chosen, so what fits before measuring fits after it.
 */
#ifndef GR_EXEC_TUNE_H
#define GR_EXEC_TUNE_H

#include "backend/backend.h"
#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_TUNE_KERNELS  3 /* of a list; on devices, what runs a fusion in pieces comes on top */
#define GR_TUNE_VARIANTS 8 /* of a kernel */

typedef struct gr_tune {
    gr_device *device;            /* borrowed */
    const gr_kernel_set *kernels; /* of the device's module; NULL: CPU kernels */
    gr_pool *pool;                /* borrowed; NULL: the caller alone */
    int n_threads;
    size_t work_limit; /* bytes; 0: usual */
    void *mem;         /* device memory, gr_tune_bytes() of it, aligned like an arena */
} gr_tune;

/* A line for each candidate, best guess first. Nodes whose operator is not worth measuring
 * have none, and one alone is no choice. */
gr_status gr_tune_candidates(const gr_tune *t, const gr_node *n, gr_text *out,
                             int *count) GR_MUST_CHECK;

/* Workspace that any candidate stays within; 0 where there is no choice. */
gr_status gr_tune_reserve(const gr_tune *t, const gr_node *n, size_t *work_bytes) GR_MUST_CHECK;
/* Memory in which all candidates can be measured whose workspace is within work_bytes. */
size_t gr_tune_bytes(const gr_node *n, size_t work_bytes);

/* Seconds of one run, the best of a few after one to warm up. INFINITY when the kernel
 * declines the node or the variant, or asks for more workspace than `work_bytes`. */
gr_status gr_tune_time(const gr_tune *t, const gr_node *n, const char *candidate, size_t work_bytes,
                       double *seconds) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

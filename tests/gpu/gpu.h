/* What tests on a GPU share. Without a GPU they end with 77, which counts as skipped. */
#ifndef GR_TESTS_GPU_GPU_H
#define GR_TESTS_GPU_GPU_H

#include "comm/pg.h"
#include "op/module.h"

#define GPU_SKIP 77

/* The module, loaded; ends the process with GPU_SKIP where it is missing. */
const gr_module *gpu_loaded(void);
/* The same, also where there is no GPU. */
const gr_module *gpu_module(void);
/* GPU 0. */
gr_device *gpu_open(void);

/* The module's group of that name over `host`; ends the process when it has none. */
gr_status gpu_group(gr_pg **out, const char *name, gr_pg *host, gr_device *dev);

typedef gr_status gpu_rank_fn(gr_pg *host, void *arg);

/*
 * Runs fn in n_ranks processes that form a group; each has an NCCL_HOSTID of its own, so
 * that NCCL takes several on one GPU. Call it before anything of CUDA: forked processes
 * cannot use it then. Ends the process with GPU_SKIP when a rank did, and with 1 when a
 * rank failed unless its bit in may_fail is set.
 */
void gpu_ranks(int n_ranks, int timeout_ms, unsigned may_fail, gpu_rank_fn *fn, void *arg);

#endif

/* The host's kernels of the collectives. */
#ifndef GR_OP_COLLECTIVE_COLLECTIVE_CPU_H
#define GR_OP_COLLECTIVE_COLLECTIVE_CPU_H

#include "graph/op.h"

extern const gr_kernel gr_allreduce_start_cpu[], gr_allreduce_finish_cpu[], gr_meet_start_cpu[],
    gr_shard_keep_cpu[], gr_shard_give_cpu[], gr_shard_take_cpu[];

#endif

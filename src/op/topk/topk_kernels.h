/* The CPU kernels of top_k. */
#ifndef GR_OP_TOPK_KERNELS_H
#define GR_OP_TOPK_KERNELS_H

#include "op/topk/topk.h"

gr_status gr_top_k_ref_run(const gr_launch *l) GR_MUST_CHECK;

#endif

/* Every kernel list and group of the CUDA module, for its table (module_cuda.cu). */
#ifndef GR_OP_MODULE_CUDA_H
#define GR_OP_MODULE_CUDA_H

#include "graph/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const gr_kernel gr_map_cuda[], gr_matmul_cuda[], gr_reduce_cuda[], gr_transpose_cuda[],
    gr_gather_cuda[], gr_scatter_add_cuda[], gr_softmax_xent_cuda[], gr_softmax_xent_grad_cuda[],
    gr_accumulate_cuda[], gr_grad_control_cuda[], gr_count_step_cuda[], gr_scale_update_cuda[],
    gr_sgd_cuda[], gr_adamw_cuda[], gr_ema_cuda[], gr_allreduce_start_cuda[],
    gr_allreduce_finish_cuda[], gr_vote_cuda[], gr_verdict_cuda[];

#ifdef __cplusplus
}
#endif

#endif

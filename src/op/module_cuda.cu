/* The CUDA module's table: what gr_module_load("cuda") finds. */
#include "op/module.h"

#include "backend/cuda/cuda.h"
#include "comm/ipc/ipc.h"
#include "comm/nccl/nccl.h"
#include "op/module_cuda.h"

static const gr_kernel_set kernels[] = {
    { "map", gr_map_cuda },
    { "matmul", gr_matmul_cuda },
    { "reduce", gr_reduce_cuda },
    { "transpose", gr_transpose_cuda },
    { "gather", gr_gather_cuda },
    { "scatter_add", gr_scatter_add_cuda },
    { "softmax_xent", gr_softmax_xent_cuda },
    { "softmax_xent_grad", gr_softmax_xent_grad_cuda },
    { "accumulate", gr_accumulate_cuda },
    { "grad_control", gr_grad_control_cuda },
    { "count_step", gr_count_step_cuda },
    { "scale_update", gr_scale_update_cuda },
    { "sgd", gr_sgd_cuda },
    { "adamw", gr_adamw_cuda },
    { "ema", gr_ema_cuda },
    { "allreduce_start", gr_allreduce_start_cuda },
    { "allreduce_finish", gr_allreduce_finish_cuda },
    { NULL, NULL },
};

static const gr_pg_factory groups[] = {
#if GR_HAVE_NCCL
    { "nccl", gr_nccl_create },
#endif
    { "ipc", gr_ipc_create },
    { NULL, NULL },
};

static const gr_module module = { GR_MODULE_ABI, "cuda", &gr_backend_cuda, kernels, groups };

extern "C" GR_API const gr_module *gr_module_get(void)
{
    return &module;
}

/* The CUDA module's table: what gr_module_load("cuda") finds. */
#include "op/module.h"

#include "backend/cuda/cuda.h"
#include "comm/ipc/ipc.h"
#include "comm/nccl/nccl.h"
#include "op/module_cuda.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <nvrtc.h>

static const gr_kernel_set kernels[] = {
    { "batch_norm", gr_map_cuda }, /* both carry a map's program */
    { "channel_map", gr_map_cuda },
#define X(name) { #name, gr_##name##_cuda },
    GR_CUDA_KERNELS(X)
#undef X
        { NULL, NULL },
};

static const gr_pg_factory groups[] = {
#if GR_HAVE_NCCL
    { "nccl", gr_nccl_create },
#endif
    { "ipc", gr_ipc_create },
    { NULL, NULL },
};

static void three_parts(gr_text *out, const char *name, int version, int unit)
{
    gr_text_addf(out, "  %-14s %d.%d.%d\n", name, version / (unit * 100), version / unit % 100,
                 version % unit);
}

static void versions(gr_text *out)
{
    int runtime = 0, driver = 0, major = 0, minor = 0;

    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    nvrtcVersion(&major, &minor);
    gr_text_addf(out, "  %-14s %d.%d\n", "CUDA runtime", runtime / 1000, runtime % 1000 / 10);
    if (driver > 0)
        gr_text_addf(out, "  %-14s for CUDA %d.%d\n", "GPU driver", driver / 1000,
                     driver % 1000 / 10);
    else
        gr_text_addf(out, "  %-14s absent: training is on the CPU\n", "GPU driver");
    three_parts(out, "cuBLASLt", (int)cublasLtGetVersion(), 100);
    gr_text_addf(out, "  %-14s %d.%d\n", "NVRTC", major, minor);
#if GR_HAVE_NCCL
    if (gr_nccl_version() > 0) {
        three_parts(out, "NCCL", gr_nccl_version(), 100);
        return;
    }
#endif
    gr_text_addf(out, "  %-14s absent: GPUs of one host exchange by ipc\n", "NCCL");
}

static const gr_module module = {
    GR_MODULE_ABI, "cuda", &gr_backend_cuda, kernels, groups, versions
};

extern "C" GR_API const gr_module *gr_module_get(void)
{
    return &module;
}

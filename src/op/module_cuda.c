/* The CUDA module's table: what gr_module_load("cuda") finds. */
#include "op/module.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/lib_cublaslt.h"
#include "backend/cuda/lib_cudnn.h"
#include "backend/cuda/lib_nvrtc.h"
#include "comm/ipc/ipc.h"
#include "comm/nccl/nccl.h"
#include "op/module_cuda.h"

#include <cuda_runtime_api.h>

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

static void absent(gr_text *out, const char *name, const char *then)
{
    gr_text_addf(out, "  %-14s absent: %s\n", name, then);
}

static void add_libraries(gr_text *out)
{
    const gr_cublaslt *lt;
    const gr_nvrtc *rtc;
    int major = 0, minor = 0;

    if (gr_cublaslt_load(&lt) == GR_OK)
        three_parts(out, "cuBLASLt", (int)lt->GetVersion(), 100);
    else
        absent(out, "cuBLASLt", "our own kernels serve");
    if (gr_nvrtc_load(&rtc) == GR_OK && rtc->Version(&major, &minor) == NVRTC_SUCCESS)
        gr_text_addf(out, "  %-14s %d.%d\n", "NVRTC", major, minor);
    else
        absent(out, "NVRTC", "needed for training on a GPU");
#if GR_HAVE_CUDNN
    const gr_cudnn *dnn;

    if (gr_cudnn_load(&dnn) == GR_OK) {
        three_parts(out, "cuDNN", (int)dnn->GetVersion(), 100);
        return;
    }
#endif
    absent(out, "cuDNN", "our own kernels serve");
}

static void versions(gr_text *out)
{
    int runtime = 0, driver = 0;

    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    gr_text_addf(out, "  %-14s %d.%d\n", "CUDA runtime", runtime / 1000, runtime % 1000 / 10);
    if (driver > 0)
        gr_text_addf(out, "  %-14s for CUDA %d.%d\n", "GPU driver", driver / 1000,
                     driver % 1000 / 10);
    else
        absent(out, "GPU driver", "training is on the CPU");
    add_libraries(out);
#if GR_HAVE_NCCL
    if (gr_nccl_version() > 0) {
        three_parts(out, "NCCL", gr_nccl_version(), 100);
        return;
    }
#endif
    absent(out, "NCCL", "GPUs of one host exchange by ipc");
}

static const gr_module module = {
    GR_MODULE_ABI, "cuda", &gr_backend_cuda, kernels, groups, versions
};

GR_API const gr_module *gr_module_get(void);

GR_API const gr_module *gr_module_get(void)
{
    return &module;
}

/* Which GPUs this build can use. */
#include "backend/cuda/arch.h"

#include "backend/cuda/cuda.h"

/* Drivers begin to serve a major version of CUDA with these. */
#define DRIVER_FOR(major) ((major) >= 13 ? 580 : 525)

static gr_status driver_too_old(void)
{
    int driver = 0;

    (void)cudaGetLastError();
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return gr_fail(GR_ERR_DEVICE, "there is no NVIDIA driver");
    return gr_fail(GR_ERR_DEVICE,
                   "the GPU driver is too old: it serves CUDA up to %d.%d, this build needs %d.%d; "
                   "install NVIDIA driver %d or newer",
                   driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                   CUDART_VERSION % 1000 / 10, DRIVER_FOR(CUDART_VERSION / 1000));
}

gr_status gr_cuda_count_gpus(int *out)
{
    cudaError_t e = cudaGetDeviceCount(out);

    if (e == cudaErrorInsufficientDriver)
        return driver_too_old();
    return gr_cuda_check(e, "looking for GPUs");
}

static gr_status attribute(int *out, enum cudaDeviceAttr what, int index)
{
    return gr_cuda_check(cudaDeviceGetAttribute(out, what, index), "compute capability");
}

gr_status gr_cuda_gpu_arch(int *out, int index)
{
    int major = 0, minor = 0;

    GR_TRY(attribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    GR_TRY(attribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
    *out = major * 10 + minor;
    if (*out < GR_CUDA_OLDEST)
        return gr_fail(GR_ERR_DEVICE,
                       "compute capability %d.%d is older than what this build has code for, "
                       "%d.%d; build with -DGR_CUDA_ALL=ON for 7.5 and newer",
                       major, minor, GR_CUDA_OLDEST / 10, GR_CUDA_OLDEST % 10);
    return GR_OK;
}

gr_status gr_cuda_arch_cap(int *out)
{
    static const int known[] = { 75, 80, 86, 89, 90 };
    const char *text = getenv("GR_CUDA_ARCH");
    char *end;
    long n;

    *out = 0;
    if (!text || !text[0])
        return GR_OK;
    n = strtol(text, &end, 10);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && *end == '\0'; i++)
        if (n == known[i]) {
            *out = known[i];
            return GR_OK;
        }
    return gr_fail(GR_ERR_ARG, "GR_CUDA_ARCH is '%s', and can be 75, 80, 86, 89 or 90", text);
}

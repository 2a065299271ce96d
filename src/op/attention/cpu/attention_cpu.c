/* The lists of CPU kernels for attention, best first, and why each may decline. */
#include "base/cpu.h"
#include "op/attention/cpu/attention_flash.h"

static const char *amx_reject(const gr_node *n)
{
    const gr_dtype t = n->src[0]->dtype;

    if (!gr_cpu_has_amx())
        return "needs AMX";
    return t == GR_F32 || t == GR_BF16 ? gr_flash_reject(n) : "takes f32 and bf16";
}

static gr_status amx_prepare(gr_prepare *p)
{
    return gr_flash_prepare(p, &gr_flash_amx);
}

static const char *avx512_bf16_reject(const gr_node *n)
{
    if (!gr_cpu_has_avx512_bf16())
        return "needs AVX512_BF16";
    return n->src[0]->dtype == GR_BF16 ? gr_flash_reject(n) : "takes bf16";
}

static gr_status avx512_bf16_prepare(gr_prepare *p)
{
    return gr_flash_prepare(p, &gr_flash_avx512_bf16);
}

static const char *avx512_reject(const gr_node *n)
{
    return gr_cpu_has_avx512() ? gr_flash_reject(n) : "needs AVX-512";
}

static gr_status avx512_prepare(gr_prepare *p)
{
    return gr_flash_prepare(p, &gr_flash_avx512);
}

static const char *avx2_reject(const gr_node *n)
{
    return gr_cpu_has_avx2() ? gr_flash_reject(n) : "needs AVX2, FMA and F16C";
}

static gr_status avx2_prepare(gr_prepare *p)
{
    return gr_flash_prepare(p, &gr_flash_avx2);
}

const gr_kernel gr_attention_cpu[] = {
    {
        .name = "amx",
        .reject = amx_reject,
        .prepare = amx_prepare,
        .workspace = gr_flash_workspace,
        .run = gr_flash_run,
        .release = gr_flash_release,
    },
    {
        .name = "avx512_bf16",
        .reject = avx512_bf16_reject,
        .prepare = avx512_bf16_prepare,
        .workspace = gr_flash_workspace,
        .run = gr_flash_run,
        .release = gr_flash_release,
    },
    {
        .name = "avx512",
        .reject = avx512_reject,
        .prepare = avx512_prepare,
        .workspace = gr_flash_workspace,
        .run = gr_flash_run,
        .release = gr_flash_release,
    },
    {
        .name = "avx2",
        .reject = avx2_reject,
        .prepare = avx2_prepare,
        .workspace = gr_flash_workspace,
        .run = gr_flash_run,
        .release = gr_flash_release,
    },
    {
        .name = "reference",
        .workspace = gr_attention_ref_workspace,
        .run = gr_attention_ref_run,
    },
    { .name = NULL },
};

const gr_kernel gr_attention_grad_cpu[] = {
    {
        .name = "amx",
        .reject = amx_reject,
        .prepare = amx_prepare,
        .workspace = gr_flash_workspace,
        .run = gr_flash_grad_run,
        .release = gr_flash_release,
    },
    {
        .name = "avx512_bf16",
        .reject = avx512_bf16_reject,
        .prepare = avx512_bf16_prepare,
        .workspace = gr_flash_workspace,
        .run = gr_flash_grad_run,
        .release = gr_flash_release,
    },
    {
        .name = "avx512",
        .reject = avx512_reject,
        .prepare = avx512_prepare,
        .workspace = gr_flash_workspace,
        .run = gr_flash_grad_run,
        .release = gr_flash_release,
    },
    {
        .name = "avx2",
        .reject = avx2_reject,
        .prepare = avx2_prepare,
        .workspace = gr_flash_workspace,
        .run = gr_flash_grad_run,
        .release = gr_flash_release,
    },
    {
        .name = "reference",
        .workspace = gr_attention_grad_ref_workspace,
        .run = gr_attention_grad_ref_run,
    },
    { .name = NULL },
};

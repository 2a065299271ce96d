/* The lists of CPU kernels for the three convolutions, best first, and why each may
 * decline. */
#include "base/cpu.h"
#include "op/conv/cpu/conv_depthwise.h"
#include "op/conv/cpu/conv_fold.h"
#include "op/conv/cpu/conv_kernels.h"
#include "op/conv/cpu/conv_sweep.h"

#define FEW_CHANNELS 8 /* of a group: tiles would be mostly empty */

static bool any_f64(const gr_node *n)
{
    return n->src[0]->dtype == GR_F64 || n->src[1]->dtype == GR_F64 || n->out[0].dtype == GR_F64;
}

/* What AMX and AVX512_BF16 leave to others. */
static const char *tiles_reject(const gr_node *n)
{
    const gr_dtype y = n->out[0].dtype;
    gr_conv_dims d;

    if (y != GR_F32 && y != GR_BF16)
        return "gives f32 or bf16";
    gr_conv_get_dims(n, &d);
    if (d.groups > 1 && (d.ci / d.groups < FEW_CHANNELS || d.co / d.groups < FEW_CHANNELS))
        return "groups of too few channels";
    return d.ci > 1 << 16 || d.k[0] * d.k[1] > 1 << 10 ? "more weights than it can count" : NULL;
}

static const char *amx_reject(const gr_node *n)
{
    const gr_dtype a = n->src[0]->dtype, b = n->src[1]->dtype;

    if (!gr_cpu_has_amx())
        return "needs AMX";
    if (a != b || (a != GR_F32 && a != GR_BF16))
        return "takes two f32 or two bf16 tensors to f32 or bf16";
    return tiles_reject(n);
}

static const char *avx512_bf16_reject(const gr_node *n)
{
    if (!gr_cpu_has_avx512_bf16())
        return "needs AVX512_BF16";
    if (n->src[0]->dtype != GR_BF16 || n->src[1]->dtype != GR_BF16)
        return "takes two bf16 tensors to f32 or bf16";
    return tiles_reject(n);
}

static gr_status avx512_bf16_fold_prepare(gr_prepare *p)
{
    return gr_conv_fold_prepare(p, &gr_fold_isa_avx512_bf16, &gr_fold_isa_avx512);
}

static gr_status avx512_bf16_prepare(gr_prepare *p)
{
    return gr_conv_sweep_prepare(p, &gr_conv_isa_avx512_bf16, &gr_conv_isa_avx512);
}

static gr_status amx_fold_prepare(gr_prepare *p)
{
    return gr_conv_fold_prepare(p, &gr_fold_isa_amx, &gr_fold_isa_avx512);
}

static gr_status amx_prepare(gr_prepare *p)
{
    return gr_conv_sweep_prepare(p, &gr_conv_isa_amx, &gr_conv_isa_avx512);
}

static const char *avx512_reject(const gr_node *n)
{
    if (!gr_cpu_has_avx512())
        return "needs AVX-512";
    return any_f64(n) ? "f64 is left to the reference" : NULL;
}

static gr_status avx512_fold_prepare(gr_prepare *p)
{
    return gr_conv_fold_prepare(p, &gr_fold_isa_avx512, NULL);
}

static gr_status avx512_prepare(gr_prepare *p)
{
    return gr_conv_sweep_prepare(p, &gr_conv_isa_avx512, NULL);
}

static const char *avx2_reject(const gr_node *n)
{
    if (!gr_cpu_has_avx2())
        return "needs AVX2 and FMA";
    return any_f64(n) ? "f64 is left to the reference" : NULL;
}

static gr_status avx2_fold_prepare(gr_prepare *p)
{
    return gr_conv_fold_prepare(p, &gr_fold_isa_avx2, NULL);
}

static gr_status avx2_prepare(gr_prepare *p)
{
    return gr_conv_sweep_prepare(p, &gr_conv_isa_avx2, NULL);
}

static const char *depthwise_reject(const gr_node *n)
{
    gr_conv_dims d;

    gr_conv_get_dims(n, &d);
    return d.groups != d.ci || d.ci != d.co ? "not one channel in and out per group" : NULL;
}

static const char *depthwise_avx512_reject(const gr_node *n)
{
    const char *why = avx512_reject(n);

    return why ? why : depthwise_reject(n);
}

static const char *depthwise_avx2_reject(const gr_node *n)
{
    const char *why = avx2_reject(n);

    return why ? why : depthwise_reject(n);
}

static size_t depthwise_workspace(const gr_node *n, const void *data)
{
    gr_conv_dims d;

    (void)data;
    gr_conv_get_dims(n, &d);
    return n->op == &gr_op_conv_weight ? 0 : (size_t)(d.co * d.k[0] * d.k[1]) * sizeof(float);
}

#define DEPTHWISE(isa, what)                                                 \
    {                                                                        \
        .name = "depthwise_" #isa, .reject = depthwise_##isa##_reject,       \
        .workspace = depthwise_workspace, .run = gr_depthwise_##isa##_##what \
    }
#define PRODUCT                                                                                  \
    {                                                                                            \
        .name = "product", .reject = gr_conv_product_reject, .prepare = gr_conv_product_prepare, \
        .workspace = gr_conv_product_workspace, .run = gr_conv_product_run,                      \
        .release = gr_conv_product_release                                                       \
    }
#define SWEEP(isa)                                                      \
    {                                                                   \
        .name = #isa, .reject = isa##_reject, .prepare = isa##_prepare, \
        .workspace = gr_conv_sweep_workspace, .run = gr_conv_sweep_run, \
        .release = gr_conv_sweep_release                                \
    }

#define FOLD(isa)                                                            \
    {                                                                        \
        .name = #isa, .reject = isa##_reject, .prepare = isa##_fold_prepare, \
        .workspace = gr_conv_fold_workspace, .run = gr_conv_fold_run,        \
        .release = gr_conv_fold_release                                      \
    }

const gr_kernel gr_conv_cpu[] = {
    PRODUCT,
    SWEEP(amx),
    SWEEP(avx512_bf16),
    DEPTHWISE(avx512, sweep),
    SWEEP(avx512),
    DEPTHWISE(avx2, sweep),
    SWEEP(avx2),
    { .name = "reference", .run = gr_conv_ref_run },
    { .name = NULL },
};

const gr_kernel gr_conv_data_cpu[] = {
    PRODUCT,
    SWEEP(amx),
    SWEEP(avx512_bf16),
    DEPTHWISE(avx512, sweep),
    SWEEP(avx512),
    DEPTHWISE(avx2, sweep),
    SWEEP(avx2),
    { .name = "reference", .run = gr_conv_data_ref_run },
    { .name = NULL },
};

const gr_kernel gr_conv_weight_cpu[] = {
    PRODUCT,           FOLD(amx),
    FOLD(avx512_bf16), DEPTHWISE(avx512, fold),
    FOLD(avx512),      DEPTHWISE(avx2, fold),
    FOLD(avx2),        { .name = "reference", .run = gr_conv_weight_ref_run },
    { .name = NULL },
};

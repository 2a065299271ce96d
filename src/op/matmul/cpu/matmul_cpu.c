/*
 * The list of CPU kernels for matmul, best first, and why each may decline.
 *
 * Why our own AVX-512 kernel stands before oneDNN (2.6): on the products of an MLP's step
 * (bench/gemm, one core of an Emerald Rapids guest whose peak is 230 GF/s) it does 214
 * GF/s against 208; forward products, which oneDNN packs on the larger side, gain 5 to 8 %,
 * thin ones (10 rows) up to 65 %. Besides, its bits do not depend on the thread count, and
 * oneDNN's do.
 */
#include "base/cpu.h"
#include "op/epilogue.h"
#include "op/matmul/cpu/matmul_amx.h"
#include "op/matmul/cpu/matmul_kernels.h"

static bool any_f64(const gr_node *n)
{
    return n->src[0]->dtype == GR_F64 || n->src[1]->dtype == GR_F64 || n->out[0].dtype == GR_F64;
}

bool gr_matmul_is_empty_sum(const gr_node *n)
{
    gr_matmul_dims d;

    gr_matmul_get_dims(n, &d);
    return n->fusion && d.k == 0;
}

#define EMPTY_SUM "an epilogue over sums of nothing is left to the reference"

static const char *avx512_bf16_reject(const gr_node *n)
{
    const gr_dtype y = n->out[0].dtype;

    if (!gr_cpu_has_avx512_bf16())
        return "needs AVX512_BF16";
    if (n->src[0]->dtype != GR_BF16 || n->src[1]->dtype != GR_BF16 || y == GR_F64)
        return "takes two bf16 matrices";
    return gr_matmul_is_empty_sum(n) ? EMPTY_SUM : NULL;
}

static gr_status avx512_bf16_prepare(gr_prepare *p)
{
    return gr_matmul_packed_prepare(p, &gr_matmul_tile_avx512_bf16);
}

static const char *avx512_reject(const gr_node *n)
{
    if (!gr_cpu_has_avx512())
        return "needs AVX-512";
    if (gr_matmul_is_empty_sum(n))
        return EMPTY_SUM;
    return any_f64(n) ? "f64 is left to the reference" : NULL;
}

static gr_status avx512_prepare(gr_prepare *p)
{
    return gr_matmul_packed_prepare(p, &gr_matmul_tile_avx512);
}

static const char *avx2_reject(const gr_node *n)
{
    if (!gr_cpu_has_avx2())
        return "needs AVX2 and FMA";
    if (gr_matmul_is_empty_sum(n))
        return EMPTY_SUM;
    return any_f64(n) ? "f64 is left to the reference" : NULL;
}

static gr_status avx2_prepare(gr_prepare *p)
{
    return gr_matmul_packed_prepare(p, &gr_matmul_tile_avx2);
}

const gr_kernel gr_matmul_cpu[] = {
    {
        .name = "amx",
        .reject = gr_matmul_amx_reject,
        .takes = gr_epilogue_takes,
        .prepare = gr_matmul_amx_prepare,
        .workspace = gr_matmul_amx_workspace,
        .run = gr_matmul_amx_run,
        .release = gr_matmul_amx_release,
    },
    {
        .name = "avx512_bf16",
        .reject = avx512_bf16_reject,
        .takes = gr_epilogue_takes,
        .prepare = avx512_bf16_prepare,
        .workspace = gr_matmul_packed_workspace,
        .run = gr_matmul_packed_run,
        .release = gr_matmul_packed_release,
    },
    {
        .name = "avx512",
        .reject = avx512_reject,
        .takes = gr_epilogue_takes,
        .prepare = avx512_prepare,
        .workspace = gr_matmul_packed_workspace,
        .run = gr_matmul_packed_run,
        .release = gr_matmul_packed_release,
    },
#if GR_HAVE_ONEDNN
    {
        .name = "onednn",
        .reject = gr_matmul_onednn_reject,
        .prepare = gr_matmul_onednn_prepare,
        .workspace = gr_matmul_onednn_workspace,
        .run = gr_matmul_onednn_run,
        .release = gr_matmul_onednn_release,
    },
#endif
    {
        .name = "avx2",
        .reject = avx2_reject,
        .takes = gr_epilogue_takes,
        .prepare = avx2_prepare,
        .workspace = gr_matmul_packed_workspace,
        .run = gr_matmul_packed_run,
        .release = gr_matmul_packed_release,
    },
    {
        .name = "reference",
        .takes = gr_epilogue_takes,
        .workspace = gr_matmul_ref_workspace,
        .run = gr_matmul_ref_run,
    },
    { .name = NULL },
};

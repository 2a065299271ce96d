/* Matrix products on the GPU: the list, and the plain kernel for what cuBLASLt does not take. */
#include "op/matmul/cuda/matmul_cuda.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

typedef struct plain_args {
    void *out;
    const void *a, *b;
    gr_matmul_dims d;
    gr_dtype t_a, t_b, t_out;
    bool trans_a, trans_b;
} plain_args;

/* Result elements, grid-stride. Sums in double. */
static __global__ void matmul_plain(plain_args p)
{
    int64_t mn = p.d.m * p.d.n;
    int64_t step_a = p.trans_a ? p.d.m : 1, step_b = p.trans_b ? 1 : p.d.n;

    GR_CUDA_EACH(i, p.d.batch * mn)
    {
        int64_t g = i / mn, row = i % mn / p.d.n, col = i % p.d.n;
        int64_t a = g * p.d.stride_a + row * (p.trans_a ? 1 : p.d.k);
        int64_t b = g * p.d.stride_b + col * (p.trans_b ? p.d.k : 1);
        double sum = 0.0;

        for (int64_t k = 0; k < p.d.k; k++, a += step_a, b += step_b)
            sum += gr_load_f64(p.a, a, p.t_a) * gr_load_f64(p.b, b, p.t_b);
        gr_store_f64(p.out, g * p.d.stride_out + row * p.d.n + col, p.t_out, sum);
    }
}

static gr_status plain_run(const gr_launch *l)
{
    const gr_matmul_attr *at = (const gr_matmul_attr *)l->node->attr;
    plain_args p;

    p.out = l->out[0];
    p.a = l->src[0];
    p.b = l->src[1];
    gr_matmul_get_dims(l->node, &p.d);
    p.t_a = l->node->src[0]->dtype;
    p.t_b = l->node->src[1]->dtype;
    p.t_out = l->node->out[0].dtype;
    p.trans_a = at->trans_a;
    p.trans_b = at->trans_b;
    return gr_cuda_launch("matmul launch", gr_cuda_grid_for(p.d.batch * p.d.m * p.d.n),
                          gr_cuda_stream(l->stream), matmul_plain, p);
}

const gr_kernel gr_matmul_cuda[] = {
    {
        .name = "cublaslt",
        .reject = gr_matmul_lt_reject,
        .variants = gr_matmul_lt_variants,
        .prepare = gr_matmul_lt_prepare,
        .workspace = gr_matmul_lt_workspace,
        .run = gr_matmul_lt_run,
        .release = gr_matmul_lt_release,
        .no_capture = false,
        .in_place = false,
    },
    {
        .name = "reference",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = plain_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

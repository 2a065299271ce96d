/*
 * The toy's CUDA kernels: the same list as on the CPU. Built into a module of its own, since
 * the product has no toys; a real family's file lies in its folder under src/op and is listed
 * in src/op/module_cuda.h.
 */
#include "backend/cuda/cuda.h"
#include "base/alloc.h"
#include "toy/toy.h"
#include "toy/toy_body.h"

#include <stdlib.h>
#include <string.h>

typedef struct toy_plan {
    toy_args args;
    int block;
} toy_plan;

/* One thread per column. */
static __global__ void toy_columns(toy_args a)
{
    int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (j < a.cols)
        toy_column(&a, j);
}

static const char *f64_reject(const gr_node *n)
{
    return n->src[1]->dtype == GR_F64 ? "f64 is for the host" : NULL;
}

static gr_status fast_variants(const gr_prepare *p, gr_text *out)
{
    (void)p;
    gr_text_add(out, "block=128\nblock=32\n");
    return gr_text_status(out);
}

static gr_status fast_prepare(gr_prepare *p)
{
    int block = p->variant ? atoi(p->variant + strcspn(p->variant, "=") + 1) : 128;
    toy_plan *t;

    if (block != 128 && block != 32)
        return gr_decline(p, "there is no variant '%s'", p->variant);
    t = (toy_plan *)gr_calloc(1, sizeof(*t));
    if (!t)
        return GR_ERR_NOMEM;
    toy_args_init(&t->args, p->node);
    t->block = block;
    p->data = t;
    return GR_OK;
}

static gr_status picky_prepare(gr_prepare *p)
{
    int64_t rows = p->node->src[0]->shape.dim[0];

    if (rows % 2 != 0)
        return gr_decline(p, "takes an even number of rows, not %lld", (long long)rows);
    return fast_prepare(p);
}

static gr_status check(cudaError_t e)
{
    return e == cudaSuccess ? GR_OK
                            : gr_fail(GR_ERR_DEVICE, "toy launch: %s", cudaGetErrorString(e));
}

static gr_status fast_run(const gr_launch *l)
{
    const toy_plan *t = (const toy_plan *)l->data;
    toy_args a = t->args;

    if (a.cols == 0)
        return GR_OK;
    toy_args_place(&a, l);
    toy_columns<<<(unsigned)((a.cols + t->block - 1) / t->block), (unsigned)t->block, 0,
                  gr_cuda_stream(l->stream)>>>(a);
    return check(cudaGetLastError());
}

static gr_status reference_run(const gr_launch *l)
{
    toy_args a = {};

    toy_args_init(&a, l->node);
    if (a.cols == 0)
        return GR_OK;
    toy_args_place(&a, l);
    toy_columns<<<(unsigned)((a.cols + 31) / 32), 32, 0, gr_cuda_stream(l->stream)>>>(a);
    return check(cudaGetLastError());
}

static const gr_kernel kernels[] = {
    {
        .name = "picky",
        .reject = f64_reject,
        .takes = toy_takes,
        .prepare = picky_prepare,
        .run = fast_run,
        .release = gr_free,
    },
    {
        .name = "fast",
        .reject = f64_reject,
        .takes = toy_takes,
        .variants = fast_variants,
        .prepare = fast_prepare,
        .run = fast_run,
        .release = gr_free,
    },
    { .name = "reference", .reject = f64_reject, .run = reference_run },
    {},
};

extern "C" GR_API const gr_kernel *toy_cuda_kernels(void)
{
    return kernels;
}

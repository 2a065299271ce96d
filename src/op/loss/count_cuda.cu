/* Counts of a loss over all ranks, on the GPU: a few numbers, so a launch per source will do. */
#include "op/loss/count.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/types.cuh"
#include "op/module_cuda.h"

static __global__ void share(double *out, const float *in, int64_t n)
{
    GR_CUDA_EACH(i, n)
    out[i] = (double)in[i];
}

static __global__ void divide(float *out, const double *in, int64_t n, double by)
{
    GR_CUDA_EACH(i, n)
    out[i] = (float)(in[i] / by);
}

static gr_status share_run(const gr_launch *l)
{
    int64_t n = gr_shape_count(&l->node->src[0]->shape);
    double *out = (double *)l->out[0];

    for (int s = 0; s < l->node->n_src; s++)
        GR_TRY(gr_cuda_launch("share_counts launch", gr_cuda_grid_for(n), gr_cuda_stream(l->stream),
                              share, out + s * n, (const float *)l->src[s], n));
    return GR_OK;
}

static gr_status sync_run(const gr_launch *l)
{
    const gr_count_sync_attr *at = (const gr_count_sync_attr *)l->node->attr;
    int64_t n = at->n_elem > 0 ? at->n_elem : 1;
    const double *row = (const double *)l->src[0];

    for (int i = 0; i < l->node->n_out; i++)
        GR_TRY(gr_cuda_launch("sync_counts launch", gr_cuda_grid_for(n), gr_cuda_stream(l->stream),
                              divide, (float *)l->out[i], row + i * n, n, (double)at->n_ranks));
    return GR_OK;
}

static const char *sync_reject(const gr_node *n)
{
    return n->src[0]->dtype == GR_F32 ? "its numbers have not been exchanged" : NULL;
}

const gr_kernel gr_share_counts_cuda[] = {
    {
        .name = "cuda",
        .reject = NULL,
        .prepare = NULL,
        .workspace = NULL,
        .run = share_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

const gr_kernel gr_sync_counts_cuda[] = {
    {
        .name = "cuda",
        .reject = sync_reject,
        .prepare = NULL,
        .workspace = NULL,
        .run = sync_run,
        .release = NULL,
        .no_capture = false,
        .in_place = false,
    },
    {},
};

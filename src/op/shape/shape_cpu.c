/* Transpose on the CPU, as a strided copy, and its list of kernels. */
#include "op/shape/shape_kernels.h"
#include "op/shape/strided.h"

static void run_slice(void *arg, int slice, int n_slices)
{
    gr_strided_run(arg, slice, n_slices);
}

static gr_status strided_run(const gr_launch *l)
{
    const gr_transpose_attr *at = l->node->attr;
    const gr_shape *in = &l->node->src[0]->shape, *out = &l->node->out[0].shape;
    size_t n_bytes = gr_value_bytes(&l->node->out[0]);
    gr_strided s = { .src = l->src[0], .dst = l->out[0], .n_dims = out->n_dims };
    int64_t step[GR_MAX_DIMS] = { 0 };

    if (n_bytes == 0)
        return GR_OK;
    s.elem_bytes = gr_dtype_bytes(l->node->out[0].dtype);
    gr_strided_steps(in, step);
    gr_strided_steps(out, s.to);
    for (int d = 0; d < out->n_dims; d++) {
        s.dim[d] = out->dim[d];
        s.from[d] = step[at->order[d]];
    }
    gr_strided_plan(&s);
    gr_pool_run(l->pool, run_slice, &s, n_bytes < GR_STRIDED_SLICE_MIN ? 1 : gr_pool_size(l->pool));
    return GR_OK;
}

const gr_kernel gr_transpose_cpu[] = {
    { .name = "tiled", .run = strided_run },
    { .name = "reference", .run = gr_transpose_ref_run },
    { .name = NULL },
};

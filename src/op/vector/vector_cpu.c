/* Cross and constant on the CPU, with threads, and their lists of kernels. */
#include "op/vector/vector.h"

#include <string.h>

#define SLICE_MIN (8 << 10) /* elements that are worth a thread */
#define CUT_BYTES 4096      /* a page of a constant */

static void cross_slice(void *arg, int slice, int n_slices)
{
    const gr_launch *l = arg;
    const float *a = l->src[0], *b = l->src[1];
    float *y = l->out[0];
    int64_t lo, hi;

    gr_pool_cut(gr_shape_count(&l->node->out[0].shape) / 3, 16, slice, n_slices, &lo, &hi);
    for (int64_t i = 3 * lo; i < 3 * hi; i += 3) {
        y[i] = a[i + 1] * b[i + 2] - a[i + 2] * b[i + 1];
        y[i + 1] = a[i + 2] * b[i] - a[i] * b[i + 2];
        y[i + 2] = a[i] * b[i + 1] - a[i + 1] * b[i];
    }
}

static gr_status cross_run(const gr_launch *l)
{
    gr_launch copy = *l;
    bool is_small = gr_shape_count(&l->node->out[0].shape) < SLICE_MIN;

    gr_pool_run(l->pool, cross_slice, &copy, is_small ? 1 : gr_pool_size(l->pool));
    return GR_OK;
}

static const char *cross_reject(const gr_node *n)
{
    return n->out[0].dtype == GR_F32 ? NULL : "only f32";
}

static void constant_slice(void *arg, int slice, int n_slices)
{
    const gr_launch *l = arg;
    const gr_constant_attr *at = l->node->attr;
    int64_t lo, hi;

    gr_pool_cut((int64_t)gr_value_bytes(&l->node->out[0]), CUT_BYTES, slice, n_slices, &lo, &hi);
    memcpy((char *)l->out[0] + lo, (const char *)(at + 1) + lo, (size_t)(hi - lo));
}

static gr_status constant_run(const gr_launch *l)
{
    gr_launch copy = *l;
    bool is_small = gr_shape_count(&l->node->out[0].shape) < SLICE_MIN;

    gr_pool_run(l->pool, constant_slice, &copy, is_small ? 1 : gr_pool_size(l->pool));
    return GR_OK;
}

const gr_kernel gr_cross_cpu[] = {
    { .name = "threads", .reject = cross_reject, .run = cross_run },
    { .name = "reference", .run = gr_cross_ref_run },
    { .name = NULL },
};

/* A copy has nothing that could be done otherwise. */
const gr_kernel gr_constant_cpu[] = {
    { .name = "reference", .run = constant_run },
    { .name = NULL },
};

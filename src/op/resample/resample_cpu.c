/*
 * Resample on the CPU: slices take rows of results, each with a row of floats of its own
 * in the workspace. And the list of kernels. Tables of taps are made once per plan.
 */
#include "base/alloc.h"
#include "base/size.h"
#include "op/isa.h"
#include "op/resample/resample_kernels.h"

#define SLICE_MIN (8 << 10) /* elements that are worth a thread */

static void release(void *data)
{
    gr_resample_plan *p = data;

    if (!p)
        return;
    gr_free(p->rows);
    gr_free(p->cols);
    gr_free(p);
}

static gr_status prepare(gr_prepare *p)
{
    gr_resample_plan *plan = gr_calloc(1, sizeof(*plan));
    gr_status st;

    if (!plan)
        return GR_ERR_NOMEM;
    plan->n_threads = p->n_threads;
    GR_TRY_GOTO(st, gr_resample_taps(&plan->rows, p->node->attr, 0), fail);
    GR_TRY_GOTO(st, gr_resample_taps(&plan->cols, p->node->attr, 1), fail);
    p->data = plan;
    return GR_OK;

fail:
    release(plan);
    return st;
}

static size_t row_bytes(const gr_node *n)
{
    const int64_t *dim = n->src[0]->shape.dim;

    return gr_round_up((size_t)(dim[2] * dim[3]) * sizeof(float), 64);
}

static size_t workspace(const gr_node *n, const void *data)
{
    const gr_resample_plan *p = data;

    return row_bytes(n) * (size_t)p->n_threads;
}

typedef struct job {
    const gr_launch *launch;
    gr_resample_fn *run;
} job;

static void run_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const gr_launch *l = j->launch;
    const gr_resample_plan *p = l->data;
    const gr_shape *in = &l->node->src[0]->shape, *out = &l->node->out[0].shape;
    size_t bytes = gr_dtype_bytes(l->node->src[0]->dtype);
    int64_t image = in->dim[1] * in->dim[2] * in->dim[3], row_out = out->dim[2] * out->dim[3];
    gr_resample_row r = { .type = l->node->src[0]->dtype, .width = in->dim[2], .cols = p->cols };
    int64_t lo, hi;

    r.channels = in->dim[3];
    r.sum = (void *)((char *)l->work + (size_t)slice * row_bytes(l->node));
    gr_pool_cut(out->dim[0] * out->dim[1], 1, slice, n_slices, &lo, &hi);
    for (int64_t u = lo; u < hi; u++) {
        int64_t row = u % out->dim[1];

        r.src = (const char *)l->src[0] + (size_t)(u / out->dim[1] * image) * bytes;
        r.out = (char *)l->out[0] + (size_t)(u * row_out) * bytes;
        r.row = p->rows->tap + p->rows->first[row];
        r.n_rows = p->rows->first[row + 1] - p->rows->first[row];
        j->run(&r);
    }
}

static gr_status run_with(const gr_launch *l, gr_resample_fn *run)
{
    const gr_resample_plan *p = l->data;
    job j = { .launch = l, .run = run };
    int64_t n_in = gr_shape_count(&l->node->src[0]->shape);
    int64_t n_out = gr_shape_count(&l->node->out[0].shape);
    int n_slices = n_in + n_out < SLICE_MIN ? 1 : gr_pool_size(l->pool);

    if (n_out > 0)
        gr_pool_run(l->pool, run_slice, &j, n_slices < p->n_threads ? n_slices : p->n_threads);
    return GR_OK;
}

static gr_status avx512_run(const gr_launch *l)
{
    return run_with(l, gr_resample_avx512);
}

static gr_status avx2_run(const gr_launch *l)
{
    return run_with(l, gr_resample_avx2);
}

const gr_kernel gr_resample_cpu[] = {
    {
        .name = "avx512",
        .reject = gr_no_avx512_or_f64,
        .prepare = prepare,
        .workspace = workspace,
        .run = avx512_run,
        .release = release,
    },
    {
        .name = "avx2",
        .reject = gr_no_avx2_or_f64,
        .prepare = prepare,
        .workspace = workspace,
        .run = avx2_run,
        .release = release,
    },
    { .name = "reference", .prepare = prepare, .run = gr_resample_ref_run, .release = release },
    { .name = NULL },
};

/*
 * Max pooling on the CPU: slices take rows of results; channels are vectors. And the
 * lists of kernels. Tables of taps are made once per plan.
 */
#include "base/alloc.h"
#include "base/cpu.h"
#include "op/pool/pool_kernels.h"

#define SLICE_MIN (8 << 10) /* elements that are worth a thread */

/* ---- plans ---- */

static void release(void *data)
{
    gr_pool_plan *p = data;

    if (!p)
        return;
    gr_free(p->rows);
    gr_free(p->cols);
    gr_free(p);
}

/* Turns a table into the one of the gradient. */
static gr_status invert(gr_taps **t, int64_t n)
{
    gr_taps *inv;

    GR_TRY(gr_taps_invert(&inv, *t, n));
    gr_free(*t);
    *t = inv;
    return GR_OK;
}

static gr_status make_plan(gr_prepare *p, bool is_grad)
{
    const gr_pool_attr *at = p->node->attr;
    gr_pool_plan *plan = gr_calloc(1, sizeof(*plan));
    gr_status st;

    if (!plan)
        return GR_ERR_NOMEM;
    GR_TRY_GOTO(st, gr_pool_taps(&plan->rows, at, 0), fail);
    GR_TRY_GOTO(st, gr_pool_taps(&plan->cols, at, 1), fail);
    if (is_grad) {
        GR_TRY_GOTO(st, invert(&plan->rows, at->in[0]), fail);
        GR_TRY_GOTO(st, invert(&plan->cols, at->in[1]), fail);
    }
    p->data = plan;
    return GR_OK;

fail:
    release(plan);
    return st;
}

static gr_status max_prepare(gr_prepare *p)
{
    return make_plan(p, false);
}

static gr_status grad_prepare(gr_prepare *p)
{
    return make_plan(p, true);
}

/* ---- running ---- */

typedef struct job {
    const gr_launch *launch;
    void (*run)(const gr_pool_row *r);
} job;

static void run_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const gr_launch *l = j->launch;
    const gr_pool_attr *at = l->node->attr;
    const gr_pool_plan *p = l->data;
    const gr_shape *in = &l->node->src[0]->shape, *out = &l->node->out[0].shape;
    size_t bytes = gr_dtype_bytes(l->node->src[0]->dtype);
    int64_t image = in->dim[1] * in->dim[2] * in->dim[3], row_out = out->dim[2] * out->dim[3];
    gr_pool_row r = { .type = l->node->src[0]->dtype, .width = in->dim[2], .cols = p->cols };
    int64_t lo, hi;

    r.channels = in->dim[3];
    r.kernel_w = at->window.kernel[1];
    gr_pool_cut(out->dim[0] * out->dim[1], 1, slice, n_slices, &lo, &hi);
    for (int64_t u = lo; u < hi; u++) {
        int64_t n = u / out->dim[1], row = u % out->dim[1];

        r.src = (const char *)l->src[0] + (size_t)(n * image) * bytes;
        r.out = (char *)l->out[0] + (size_t)(u * row_out) * bytes;
        if (l->node->n_src == 2)
            r.which_in = (const uint8_t *)l->src[1] + n * image;
        else
            r.which_out = (uint8_t *)l->out[1] + u * row_out;
        r.row = p->rows->tap + p->rows->first[row];
        r.n_rows = p->rows->first[row + 1] - p->rows->first[row];
        j->run(&r);
    }
}

static gr_status run_with(const gr_launch *l, void (*run)(const gr_pool_row *))
{
    job j = { .launch = l, .run = run };
    bool is_small = gr_shape_count(&l->node->out[0].shape) < SLICE_MIN;

    if (gr_shape_count(&l->node->out[0].shape) > 0)
        gr_pool_run(l->pool, run_slice, &j, is_small ? 1 : gr_pool_size(l->pool));
    return GR_OK;
}

static const char *reject_types(const gr_node *n)
{
    const gr_value *which = n->n_src == 2 ? n->src[1] : &n->out[1];

    if (n->src[0]->dtype == GR_F64)
        return "only f32, bf16 and f16";
    return which->dtype == GR_U8 ? NULL : "only windows of up to 256 elements";
}

static const char *avx512_reject(const gr_node *n)
{
    return gr_cpu_has_avx512() ? reject_types(n) : "needs AVX-512";
}

static const char *avx2_reject(const gr_node *n)
{
    return gr_cpu_has_avx2() ? reject_types(n) : "needs AVX2 and F16C";
}

static gr_status max_avx512_run(const gr_launch *l)
{
    return run_with(l, gr_pool_avx512.max);
}

static gr_status max_avx2_run(const gr_launch *l)
{
    return run_with(l, gr_pool_avx2.max);
}

static gr_status grad_avx512_run(const gr_launch *l)
{
    return run_with(l, gr_pool_avx512.grad);
}

static gr_status grad_avx2_run(const gr_launch *l)
{
    return run_with(l, gr_pool_avx2.grad);
}

#define KERNEL(text, what, run_fn, reject_fn)                                              \
    {                                                                                      \
        .name = (text), .reject = (reject_fn), .prepare = what##_prepare, .run = (run_fn), \
        .release = release                                                                 \
    }

const gr_kernel gr_max_pool_cpu[] = {
    KERNEL("avx512", max, max_avx512_run, avx512_reject),
    KERNEL("avx2", max, max_avx2_run, avx2_reject),
    KERNEL("reference", max, gr_max_pool_ref_run, NULL),
    { .name = NULL },
};

const gr_kernel gr_max_pool_grad_cpu[] = {
    KERNEL("avx512", grad, grad_avx512_run, avx512_reject),
    KERNEL("avx2", grad, grad_avx2_run, avx2_reject),
    KERNEL("reference", grad, gr_max_pool_grad_ref_run, NULL),
    { .name = NULL },
};

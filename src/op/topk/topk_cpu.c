/* Top k on the CPU: slices take rows, each with a buffer of its own in the workspace. And
 * the list of kernels. */
#include "base/alloc.h"
#include "op/isa.h"
#include "op/topk/best.h"
#include "op/topk/topk_kernels.h"

#include <string.h>

#define SLICE_MIN (8 << 10) /* elements that are worth a thread */

typedef struct plan {
    int n_threads;
} plan;

static gr_status prepare(gr_prepare *p)
{
    plan *made = gr_calloc(1, sizeof(*made));

    if (!made)
        return GR_ERR_NOMEM;
    made->n_threads = p->n_threads;
    p->data = made;
    return GR_OK;
}

static size_t workspace(const gr_node *n, const void *data)
{
    const gr_top_k_attr *at = n->attr;
    const plan *p = data;

    return gr_best_bytes(at->k) * (size_t)p->n_threads;
}

typedef struct job {
    const gr_launch *launch;
    const gr_best_isa *isa;
} job;

/* The k best of a row of n into b. */
static void pick(const job *j, gr_best *b, const char *row, int64_t n)
{
    const gr_top_k_attr *at = j->launch->node->attr;
    gr_dtype t = j->launch->node->src[0]->dtype;
    int32_t key[GR_BEST_SPAN];

    for (int64_t i = 0; i < n; i += GR_BEST_SPAN) {
        int64_t m = n - i < GR_BEST_SPAN ? n - i : GR_BEST_SPAN;

        j->isa->keys(key, row + (size_t)i * gr_dtype_bytes(t), t, m, at->is_smallest ? 0 : -1);
        j->isa->take(b, key, NULL, i, m);
    }
    j->isa->finish(b);
}

static void run_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const gr_launch *l = j->launch;
    const gr_top_k_attr *at = l->node->attr;
    const gr_value *x = l->node->src[0];
    size_t bytes = gr_dtype_bytes(x->dtype);
    int64_t n = x->shape.dim[x->shape.n_dims - 1], k = at->k, lo, hi;

    gr_pool_cut(gr_shape_count(&l->node->out[0].shape) / k, 1, slice, n_slices, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        const char *row = (const char *)l->src[0] + (size_t)(i * n) * bytes;
        gr_best b;

        gr_best_start(&b, k, (char *)l->work + (size_t)slice * gr_best_bytes(k));
        pick(j, &b, row, n);
        for (int64_t e = 0; e < k; e++) {
            memcpy((char *)l->out[0] + (size_t)(i * k + e) * bytes, row + (size_t)b.at[e] * bytes,
                   bytes);
            ((int32_t *)l->out[1])[i * k + e] = b.at[e];
        }
    }
}

static gr_status run_with(const gr_launch *l, const gr_best_isa *isa)
{
    const plan *p = l->data;
    job j = { .launch = l, .isa = isa };
    int64_t n = gr_shape_count(&l->node->src[0]->shape);
    int n_slices = n < SLICE_MIN ? 1 : gr_pool_size(l->pool);

    gr_pool_run(l->pool, run_slice, &j, n_slices < p->n_threads ? n_slices : p->n_threads);
    return GR_OK;
}

static gr_status avx512_run(const gr_launch *l)
{
    return run_with(l, &gr_best_avx512);
}

static gr_status avx2_run(const gr_launch *l)
{
    return run_with(l, &gr_best_avx2);
}

const gr_kernel gr_top_k_cpu[] = {
    {
        .name = "avx512",
        .reject = gr_no_avx512_or_f64,
        .prepare = prepare,
        .workspace = workspace,
        .run = avx512_run,
        .release = gr_free,
    },
    {
        .name = "avx2",
        .reject = gr_no_avx2_or_f64,
        .prepare = prepare,
        .workspace = workspace,
        .run = avx2_run,
        .release = gr_free,
    },
    { .name = "reference", .run = gr_top_k_ref_run },
    { .name = NULL },
};

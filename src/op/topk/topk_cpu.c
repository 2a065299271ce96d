/* Top k on the CPU: slices take rows, each with a heap of its own in the workspace. And the
 * list of kernels. */
#include "base/alloc.h"
#include "base/half.h"
#include "base/size.h"
#include "op/topk/best.h"
#include "op/topk/topk_kernels.h"

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

static size_t heap_bytes(const gr_node *n)
{
    const gr_top_k_attr *at = n->attr;

    return gr_round_up((size_t)at->k * sizeof(uint64_t), 64);
}

static size_t workspace(const gr_node *n, const void *data)
{
    const plan *p = data;

    return heap_bytes(n) * (size_t)p->n_threads;
}

/* Smaller bits are better: those of the greatest are turned over. */
static void pick_f32(uint64_t *heap, int64_t k, const float *x, int64_t n, uint32_t turn)
{
    gr_best_start(heap, k);
    for (int64_t i = 0; i < n; i++)
        gr_best_push(heap, k, gr_best_key(gr_best_bits(x[i]) ^ turn, i));
}

static void pick_half(uint64_t *heap, int64_t k, const uint16_t *x, int64_t n, uint32_t turn,
                      bool is_bf16)
{
    gr_best_start(heap, k);
    for (int64_t i = 0; i < n; i++) {
        float f = is_bf16 ? gr_bf16_to_f32(x[i]) : gr_f16_to_f32(x[i]);

        gr_best_push(heap, k, gr_best_key(gr_best_bits(f) ^ turn, i));
    }
}

static void run_slice(void *arg, int slice, int n_slices)
{
    const gr_launch *l = arg;
    const gr_top_k_attr *at = l->node->attr;
    const gr_value *x = l->node->src[0];
    size_t bytes = gr_dtype_bytes(x->dtype);
    int64_t n = x->shape.dim[x->shape.n_dims - 1], k = at->k, lo, hi;
    uint64_t *heap = (void *)((char *)l->work + (size_t)slice * heap_bytes(l->node));
    uint32_t turn = at->is_smallest ? 0 : UINT32_MAX;

    gr_pool_cut(gr_shape_count(&l->node->out[0].shape) / k, 1, slice, n_slices, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        const char *row = (const char *)l->src[0] + (size_t)(i * n) * bytes;

        if (x->dtype == GR_F32)
            pick_f32(heap, k, (const void *)row, n, turn);
        else
            pick_half(heap, k, (const void *)row, n, turn, x->dtype == GR_BF16);
        gr_best_sort(heap, k);
        for (int64_t j = 0; j < k; j++) {
            int32_t from = (int32_t)(uint32_t)heap[j];
            char *to = (char *)l->out[0] + (size_t)(i * k + j) * bytes;

            memcpy(to, row + (size_t)from * bytes, bytes);
            ((int32_t *)l->out[1])[i * k + j] = from;
        }
    }
}

static gr_status heap_run(const gr_launch *l)
{
    const plan *p = l->data;
    gr_launch copy = *l;
    int64_t n = gr_shape_count(&l->node->src[0]->shape);
    int n_slices = n < SLICE_MIN ? 1 : gr_pool_size(l->pool);

    gr_pool_run(l->pool, run_slice, &copy, n_slices < p->n_threads ? n_slices : p->n_threads);
    return GR_OK;
}

static const char *heap_reject(const gr_node *n)
{
    return n->src[0]->dtype == GR_F64 ? "only f32, bf16 and f16" : NULL;
}

const gr_kernel gr_top_k_cpu[] = {
    {
        .name = "heap",
        .reject = heap_reject,
        .prepare = prepare,
        .workspace = workspace,
        .run = heap_run,
        .release = gr_free,
    },
    { .name = "reference", .run = gr_top_k_ref_run },
    { .name = NULL },
};

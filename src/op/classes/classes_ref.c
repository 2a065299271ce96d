/*
 * one_hot and confusion on the CPU. Both read a label per row and write little, so the plain
 * loop is also the fast one; confusion on threads keeps a table per slice and adds them up,
 * which for integers is the same in any order.
 */
#include "op/classes/classes.h"

#include "base/alloc.h"
#include "op/element.h"
#include "op/fault.h"

#include <string.h>

static gr_status one_hot_run(const gr_launch *l)
{
    const gr_value *labels = l->node->src[0];
    gr_dtype t = l->node->out[0].dtype;
    int64_t n = ((const gr_classes_attr *)l->node->attr)->n;
    int64_t rows = gr_shape_count(&labels->shape);

    memset(l->out[0], 0, (size_t)(rows * n) * gr_dtype_bytes(t));
    for (int64_t r = 0; r < rows; r++) {
        int64_t c = gr_element_i64(l->src[0], labels->dtype, r);

        if (c >= 0 && c < n)
            gr_element_put_f64(l->out[0], t, r * n + c, 1);
    }
    return GR_OK;
}

/* Rows lo .. hi-1 into a table of zeros. */
static void count(const gr_launch *l, int64_t *table, int64_t lo, int64_t hi)
{
    gr_dtype t = l->node->src[0]->dtype, u = l->node->src[1]->dtype;
    int64_t n = ((const gr_classes_attr *)l->node->attr)->n;

    memset(table, 0, (size_t)(n * n) * sizeof(*table));
    for (int64_t r = lo; r < hi; r++) {
        int64_t target = gr_element_i64(l->src[0], t, r);
        int64_t guess = gr_element_i64(l->src[1], u, r);

        if (target < 0 || target >= n)
            continue;
        if (guess < 0 || guess >= n)
            gr_fault_set(l, guess, n, r);
        else
            table[target * n + guess]++;
    }
}

static gr_status confusion_ref_run(const gr_launch *l)
{
    count(l, l->out[0], 0, gr_shape_count(&l->node->src[0]->shape));
    return GR_OK;
}

/* ---- on threads ---- */

typedef struct job {
    const gr_launch *launch;
} job;

static void count_slice(void *arg, int slice, int n_slices)
{
    const gr_launch *l = ((const job *)arg)->launch;
    int64_t n = ((const gr_classes_attr *)l->node->attr)->n, lo, hi;
    int64_t *table =
        slice == 0 ? (int64_t *)l->out[0] : (int64_t *)l->work + (int64_t)(slice - 1) * n * n;

    gr_pool_cut(gr_shape_count(&l->node->src[0]->shape), 64, slice, n_slices, &lo, &hi);
    count(l, table, lo, hi);
}

static gr_status prepare_threads(gr_prepare *p)
{
    int *n_threads = gr_malloc(sizeof(*n_threads));

    if (!n_threads)
        return GR_ERR_NOMEM;
    *n_threads = p->n_threads < 1 ? 1 : p->n_threads;
    p->data = n_threads;
    return GR_OK;
}

static size_t threads_workspace(const gr_node *n, const void *data)
{
    int64_t classes = ((const gr_classes_attr *)n->attr)->n;

    return (size_t)(*(const int *)data - 1) * (size_t)(classes * classes) * sizeof(int64_t);
}

static gr_status confusion_threads_run(const gr_launch *l)
{
    int64_t n = ((const gr_classes_attr *)l->node->attr)->n, *sum = l->out[0];
    int n_slices = *(const int *)l->data;
    job j = { l };

    if (n_slices > gr_pool_size(l->pool))
        n_slices = gr_pool_size(l->pool);
    gr_pool_run(l->pool, count_slice, &j, n_slices);
    for (int s = 1; s < n_slices; s++)
        for (int64_t i = 0; i < n * n; i++)
            sum[i] += ((const int64_t *)l->work)[(int64_t)(s - 1) * n * n + i];
    return GR_OK;
}

/* A table must be small against what is counted, or adding them up costs more. */
static const char *threads_reject(const gr_node *n)
{
    int64_t classes = ((const gr_classes_attr *)n->attr)->n;

    return gr_shape_count(&n->src[0]->shape) < 8 * classes * classes + 65536
               ? "not worth a table per thread"
               : NULL;
}

const gr_kernel gr_one_hot_cpu[] = {
    { .name = "reference", .run = one_hot_run },
    { .name = NULL },
};

const gr_kernel gr_confusion_cpu[] = {
    {
        .name = "threads",
        .reject = threads_reject,
        .prepare = prepare_threads,
        .workspace = threads_workspace,
        .run = confusion_threads_run,
        .release = gr_free,
    },
    { .name = "reference", .run = confusion_ref_run },
    { .name = NULL },
};

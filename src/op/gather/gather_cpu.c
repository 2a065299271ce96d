/*
 * gather and scatter_add on the CPU, with threads, and their lists of kernels.
 *
 * gather: slices take stretches of the indices.
 * scatter_add: positions are sorted by index first, in their order among equals; then each
 * row of the result is the sum of its rows, kept in registers and written once. Slices
 * take rows of the result with about as many additions each. The sums have one order
 * whatever the slices.
 */
#include "base/cpu.h"
#include "op/gather/gather_kernels.h"

#include <string.h>

#define SLICE_MIN (8 << 10) /* elements that are worth a thread */

typedef struct job {
    const gr_launch *launch;
    gr_rows rows;
    size_t row_bytes; /* gather */
    /* scatter_add: positions sorted by index, and where those of each row begin */
    const int32_t *order, *first;
    gr_sum_rows_fn *sum_rows;
} job;

static int n_slices_for(const gr_launch *l, const gr_rows *r)
{
    return r->n_index * r->cols < SLICE_MIN ? 1 : gr_pool_size(l->pool);
}

static void gather_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const char *table = j->launch->src[0];
    char *out = j->launch->out[0];
    int64_t lo, hi;

    gr_pool_cut(j->rows.n_index, 1, slice, n_slices, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        int64_t from = gr_rows_at(j->launch, &j->rows, i);

        memcpy(out + (size_t)i * j->row_bytes, table + (size_t)(from < 0 ? 0 : from) * j->row_bytes,
               j->row_bytes);
    }
}

static gr_status gather_run(const gr_launch *l)
{
    job j = { .launch = l, .rows = gr_rows_of(l, &l->node->src[0]->shape) };

    if (j.rows.n_rows == 0)
        return gr_gather_ref_run(l);
    j.row_bytes = gr_dtype_bytes(l->node->out[0].dtype) * (size_t)j.rows.cols;
    gr_pool_run(l->pool, gather_slice, &j, n_slices_for(l, &j.rows));
    return GR_OK;
}

/* ---- scatter_add ---- */

static size_t scatter_workspace(const gr_node *n, const void *data)
{
    size_t n_index = (size_t)gr_shape_count(&n->src[1]->shape);

    (void)data;
    return (n_index + (size_t)n->out[0].shape.dim[0] + 2) * sizeof(int32_t);
}

/* A counting sort; positions whose index is out of range are left out. */
static void sort_positions(job *j, int32_t *work)
{
    const gr_rows *r = &j->rows;
    int32_t *first = work, *order = work + r->n_rows + 2;

    memset(first, 0, (size_t)(r->n_rows + 2) * sizeof(*first));
    for (int64_t i = 0; i < r->n_index; i++) {
        int64_t to = gr_rows_at(j->launch, r, i);

        if (to >= 0)
            first[to + 2]++;
    }
    for (int64_t row = 0; row < r->n_rows; row++)
        first[row + 2] += first[row + 1];
    /* first[row + 1] is where the row begins, and moves on to where the next one does. */
    for (int64_t i = 0; i < r->n_index; i++) {
        int64_t to = gr_rows_at(j->launch, r, i);

        if (to >= 0)
            order[first[to + 1]++] = (int32_t)i;
    }
    j->first = first;
    j->order = order;
}

/* The first row of a slice: rows and additions count alike. */
static int64_t first_row(const job *j, int slice, int n_slices)
{
    int64_t n = j->rows.n_rows, lo = 0, hi = n;
    int64_t want = (j->first[n] + n) / n_slices * slice;

    if (slice == n_slices)
        return n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (j->first[mid] + mid < want)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void scatter_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const gr_launch *l = j->launch;
    int64_t lo = first_row(j, slice, n_slices), hi = first_row(j, slice + 1, n_slices);
    gr_sum_rows s = { .rows = l->src[0], .type = l->node->src[0]->dtype, .cols = j->rows.cols };

    for (int64_t row = lo; row < hi; row++) {
        s.order = j->order + j->first[row];
        s.n = j->first[row + 1] - j->first[row];
        j->sum_rows(&s, (float *)l->out[0] + row * j->rows.cols);
    }
}

static gr_status scatter_run(const gr_launch *l, gr_sum_rows_fn *sum_rows)
{
    job j = { .launch = l, .rows = gr_rows_of(l, &l->node->out[0].shape), .sum_rows = sum_rows };

    sort_positions(&j, l->work);
    if (j.rows.n_rows > 0)
        gr_pool_run(l->pool, scatter_slice, &j, n_slices_for(l, &j.rows));
    return GR_OK;
}

static const char *scatter_reject(const gr_node *n)
{
    gr_dtype t = n->src[0]->dtype;

    if ((t != GR_F32 && t != GR_BF16 && t != GR_F16) || n->out[0].dtype != GR_F32)
        return "only f32, bf16 and f16 to f32";
    if (gr_shape_count(&n->src[1]->shape) > INT32_MAX)
        return "only positions within i32";
    return NULL;
}

static const char *avx512_reject(const gr_node *n)
{
    return gr_cpu_has_avx512() ? scatter_reject(n) : "needs AVX-512";
}

static const char *avx2_reject(const gr_node *n)
{
    return gr_cpu_has_avx2() ? scatter_reject(n) : "needs AVX2 and F16C";
}

static gr_status avx512_run(const gr_launch *l)
{
    return scatter_run(l, gr_sum_rows_avx512);
}

static gr_status avx2_run(const gr_launch *l)
{
    return scatter_run(l, gr_sum_rows_avx2);
}

const gr_kernel gr_gather_cpu[] = {
    { .name = "threads", .run = gather_run },
    { .name = "reference", .run = gr_gather_ref_run },
    { .name = NULL },
};

const gr_kernel gr_scatter_add_cpu[] = {
    {
        .name = "avx512",
        .reject = avx512_reject,
        .workspace = scatter_workspace,
        .run = avx512_run,
    },
    { .name = "avx2", .reject = avx2_reject, .workspace = scatter_workspace, .run = avx2_run },
    {
        .name = "reference",
        .workspace = gr_scatter_add_ref_workspace,
        .run = gr_scatter_add_ref_run,
    },
    { .name = NULL },
};

/*
 * gather and scatter_add on the CPU, with threads, and their lists of kernels.
 *
 * gather: slices take stretches of the indices.
 * scatter_add: every slice goes through all indices in order and adds its own columns
 * (or, where rows are short, its own rows of the table), so the sums have one order and
 * nobody waits for anybody.
 */
#include "base/half.h"
#include "op/gather/gather_kernels.h"

#include <string.h>

#define SLICE_MIN (8 << 10) /* elements that are worth a thread */
#define COLS_CUT  16        /* a cache line of f32 */

typedef struct job {
    const gr_launch *launch;
    gr_rows rows;
    size_t row_bytes; /* gather */
    bool by_cols;     /* scatter_add */
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

/* dst += src, as f32. */
static void add_row(float *restrict dst, const void *restrict src, gr_dtype t, int64_t n)
{
    const float *f = src;
    const uint16_t *h = src;

    if (t == GR_F32)
        for (int64_t i = 0; i < n; i++)
            dst[i] += f[i];
    else if (t == GR_BF16)
        for (int64_t i = 0; i < n; i++)
            dst[i] += gr_bf16_to_f32(h[i]);
    else
        for (int64_t i = 0; i < n; i++)
            dst[i] += gr_f16_to_f32(h[i]);
}

static void scatter_slice(void *arg, int slice, int n_slices)
{
    const job *j = arg;
    const gr_rows *r = &j->rows;
    gr_dtype t = j->launch->node->src[0]->dtype;
    const char *src = j->launch->src[0];
    float *out = j->launch->out[0];
    int64_t row_lo = 0, row_hi = r->n_rows, col_lo = 0, col_hi = r->cols;

    if (j->by_cols)
        gr_pool_cut(r->cols, COLS_CUT, slice, n_slices, &col_lo, &col_hi);
    else
        gr_pool_cut(r->n_rows, 1, slice, n_slices, &row_lo, &row_hi);
    for (int64_t row = row_lo; row < row_hi; row++)
        memset(out + row * r->cols + col_lo, 0, (size_t)(col_hi - col_lo) * sizeof(float));
    for (int64_t i = 0; i < r->n_index; i++) {
        int64_t to = gr_rows_at(j->launch, r, i);

        if (to >= row_lo && to < row_hi)
            add_row(out + to * r->cols + col_lo,
                    src + (size_t)(i * r->cols + col_lo) * gr_dtype_bytes(t), t, col_hi - col_lo);
    }
}

static gr_status scatter_run(const gr_launch *l)
{
    job j = { .launch = l, .rows = gr_rows_of(l, &l->node->out[0].shape) };
    int n_slices = n_slices_for(l, &j.rows);

    j.by_cols = j.rows.cols >= (int64_t)COLS_CUT * n_slices;
    gr_pool_run(l->pool, scatter_slice, &j, n_slices);
    return GR_OK;
}

static const char *scatter_reject(const gr_node *n)
{
    gr_dtype t = n->src[0]->dtype;

    if ((t != GR_F32 && t != GR_BF16 && t != GR_F16) || n->out[0].dtype != GR_F32)
        return "only f32, bf16 and f16 to f32";
    return NULL;
}

const gr_kernel gr_gather_cpu[] = {
    { .name = "threads", .run = gather_run },
    { .name = "reference", .run = gr_gather_ref_run },
    { .name = NULL },
};

const gr_kernel gr_scatter_add_cpu[] = {
    { .name = "threads", .reject = scatter_reject, .run = scatter_run },
    {
        .name = "reference",
        .workspace = gr_scatter_add_ref_workspace,
        .run = gr_scatter_add_ref_run,
    },
    { .name = NULL },
};

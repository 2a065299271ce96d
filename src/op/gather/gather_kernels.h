/* The CPU kernels of gather and scatter_add. */
#ifndef GR_OP_GATHER_KERNELS_H
#define GR_OP_GATHER_KERNELS_H

#include "op/fault.h"
#include "op/gather/gather.h"

/* Both operators as plain numbers: n_index rows of `cols`, a table of n_rows. */
typedef struct gr_rows {
    const void *index;
    bool is_i64;
    int64_t n_index, n_rows, cols;
} gr_rows;

/* `table` is the table's shape, which has a row in front. */
static inline gr_rows gr_rows_of(const gr_launch *l, const gr_shape *table)
{
    const gr_value *index = l->node->src[1];
    gr_rows r;

    r.index = l->src[1];
    r.is_i64 = index->dtype == GR_I64;
    r.cols = 1;
    r.n_index = gr_shape_count(&index->shape);
    r.n_rows = table->dim[0];
    for (int i = 1; i < table->n_dims; i++)
        r.cols *= table->dim[i];
    return r;
}

/* The row that index i names; -1, and a fault, when there is none. */
static inline int64_t gr_rows_at(const gr_launch *l, const gr_rows *r, int64_t i)
{
    int64_t j = r->is_i64 ? ((const int64_t *)r->index)[i] : ((const int32_t *)r->index)[i];

    if (j >= 0 && j < r->n_rows)
        return j;
    gr_fault_set(l, j, r->n_rows, i);
    return -1;
}

/* out = the sum of n rows of `cols` elements each, in their order; 0 without any. */
typedef struct gr_sum_rows {
    const void *rows;
    gr_dtype type; /* f32, bf16 or f16 */
    int64_t cols;
    const int32_t *order;
    int64_t n;
} gr_sum_rows;

typedef void gr_sum_rows_fn(const gr_sum_rows *s, float *out);

extern gr_sum_rows_fn gr_sum_rows_avx512, gr_sum_rows_avx2;

gr_status gr_gather_ref_run(const gr_launch *l) GR_MUST_CHECK;
size_t gr_scatter_add_ref_workspace(const gr_node *n, const void *data);
gr_status gr_scatter_add_ref_run(const gr_launch *l) GR_MUST_CHECK;

#endif

/* What both oneDNN files know of one part of a product (matmul_onednn_body.h). */
#ifndef GR_OP_MATMUL_ONEDNN_H
#define GR_OP_MATMUL_ONEDNN_H

#include "op/matmul/cpu/matmul_kernels.h"

#include <oneapi/dnnl/dnnl.h>

/* Half-open ranges of the batch, the rows and the columns of y. */
typedef struct part_extent {
    int64_t z[2], i[2], j[2];
} part_extent;

enum { MEMORY_A, MEMORY_B, MEMORY_Y, MEMORY_SCRATCH, N_MEMORIES };

typedef struct part {
    part_extent extent;
    int64_t first[3];           /* element of a, b and y where this part begins */
    dnnl_primitive_t primitive; /* NULL: the part is empty */
    dnnl_stream_t stream;
    dnnl_memory_t memory[N_MEMORIES];
    size_t n_scratch;     /* bytes */
    dnnl_status_t status; /* of the run; written by the thread that runs the part */
} part;

/* Sizes and element steps of the three matrices of a part, as oneDNN takes them. */
typedef struct part_layout {
    dnnl_dims_t dims[3], steps[3];
} part_layout;

/* Fills the layout and t->first. */
static inline void part_lay_out(part *t, const gr_matmul_dims *d, const gr_matmul_attr *at,
                                part_layout *y)
{
    const part_extent *e = &t->extent;
    int64_t z = e->z[1] - e->z[0], m = e->i[1] - e->i[0], n = e->j[1] - e->j[0];
    int64_t a_i = at->trans_a ? 1 : d->k, a_k = at->trans_a ? d->m : 1;
    int64_t b_k = at->trans_b ? 1 : d->n, b_j = at->trans_b ? d->k : 1;
    const part_layout layout = {
        { { z, m, d->k }, { z, d->k, n }, { z, m, n } },
        { { d->stride_a, a_i, a_k }, { d->stride_b, b_k, b_j }, { d->stride_out, d->n, 1 } },
    };

    *y = layout;
    t->first[0] = e->z[0] * d->stride_a + e->i[0] * a_i;
    t->first[1] = e->z[0] * d->stride_b + e->j[0] * b_j;
    t->first[2] = e->z[0] * d->stride_out + e->i[0] * d->n + e->j[0];
}

#endif

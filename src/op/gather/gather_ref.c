/*
 * The references: gather copies bytes, scatter_add sums in double in the order of the
 * indices. A row that does not exist reads as row 0 and adds to nothing.
 */
#include "op/element.h"
#include "op/gather/gather_kernels.h"

#include <string.h>

gr_status gr_gather_ref_run(const gr_launch *l)
{
    const gr_rows r = gr_rows_of(l, &l->node->src[0]->shape);
    size_t bytes = gr_dtype_bytes(l->node->out[0].dtype) * (size_t)r.cols;

    for (int64_t i = 0; i < r.n_index; i++) {
        int64_t from = gr_rows_at(l, &r, i);
        char *to = (char *)l->out[0] + (size_t)i * bytes;

        if (r.n_rows > 0)
            memcpy(to, (const char *)l->src[0] + (size_t)(from < 0 ? 0 : from) * bytes, bytes);
        else
            memset(to, 0, bytes);
    }
    return GR_OK;
}

size_t gr_scatter_add_ref_workspace(const gr_node *n, const void *data)
{
    (void)data;
    return (size_t)gr_shape_count(&n->out[0].shape) * sizeof(double);
}

gr_status gr_scatter_add_ref_run(const gr_launch *l)
{
    const gr_node *n = l->node;
    const gr_rows r = gr_rows_of(l, &n->out[0].shape);
    double *sum = l->work;

    for (int64_t e = 0; e < r.n_rows * r.cols; e++)
        sum[e] = 0;
    for (int64_t i = 0; i < r.n_index; i++) {
        int64_t to = gr_rows_at(l, &r, i);

        for (int64_t c = 0; to >= 0 && c < r.cols; c++)
            sum[to * r.cols + c] += gr_element_f64(l->src[0], n->src[0]->dtype, i * r.cols + c);
    }
    for (int64_t e = 0; e < r.n_rows * r.cols; e++)
        gr_element_put_f64(l->out[0], n->out[0].dtype, e, sum[e]);
    return GR_OK;
}

/* The references: take copies bytes, take_grad sums in double in the order of the indices. A
 * place that does not exist reads as zeros and adds to nothing. */
#include "op/element.h"
#include "op/take/take_kernels.h"

#include <string.h>

gr_status gr_take_ref_run(const gr_launch *l)
{
    const gr_taken t = gr_taken_of(l, &l->node->src[0]->shape);
    size_t bytes = gr_dtype_bytes(l->node->out[0].dtype);

    for (int64_t o = 0; o < t.outer; o++)
        for (int64_t i = 0; i < t.m; i++)
            for (int64_t c = 0; c < t.inner; c++) {
                int64_t from = gr_taken_at(&t, o, i, c);
                char *to = (char *)l->out[0] + (size_t)((o * t.m + i) * t.inner + c) * bytes;
                size_t at = (size_t)((o * t.n + from) * t.inner + c) * bytes;

                if (from < 0)
                    memset(to, 0, bytes);
                else
                    memcpy(to, (const char *)l->src[0] + at, bytes);
            }
    return GR_OK;
}

size_t gr_take_grad_ref_workspace(const gr_node *n, const void *data)
{
    (void)data;
    return (size_t)gr_shape_count(&n->out[0].shape) * sizeof(double);
}

gr_status gr_take_grad_ref_run(const gr_launch *l)
{
    const gr_node *n = l->node;
    const gr_taken t = gr_taken_of(l, &n->out[0].shape);
    double *sum = l->work;

    for (int64_t e = 0; e < t.outer * t.n * t.inner; e++)
        sum[e] = 0;
    for (int64_t o = 0; o < t.outer; o++)
        for (int64_t i = 0; i < t.m; i++)
            for (int64_t c = 0; c < t.inner; c++) {
                int64_t to = gr_taken_at(&t, o, i, c);

                if (to >= 0)
                    sum[(o * t.n + to) * t.inner + c] +=
                        gr_element_f64(l->src[0], n->src[0]->dtype, (o * t.m + i) * t.inner + c);
            }
    for (int64_t e = 0; e < t.outer * t.n * t.inner; e++)
        gr_element_put_f64(l->out[0], n->out[0].dtype, e, sum[e]);
    return GR_OK;
}

/* The references of max pooling: in double, element by element. */
#include "op/element.h"
#include "op/pool/pool_kernels.h"

#include <math.h>

static void max_one(const gr_launch *l, int64_t n, int64_t row, int64_t col, int64_t c)
{
    const gr_pool_attr *at = l->node->attr;
    const gr_pool_plan *p = l->data;
    const gr_shape *in = &l->node->src[0]->shape;
    int64_t out = ((n * at->out[0] + row) * at->out[1] + col) * in->dim[3] + c, which = -1;
    double best = (double)-INFINITY; /* of a window over padding only */

    for (int64_t i = p->rows->first[row]; i < p->rows->first[row + 1]; i++)
        for (int64_t j = p->cols->first[col]; j < p->cols->first[col + 1]; j++) {
            const gr_tap *a = &p->rows->tap[i], *b = &p->cols->tap[j];
            int64_t from = ((n * in->dim[1] + a->at) * in->dim[2] + b->at) * in->dim[3] + c;
            double x = gr_element_f64(l->src[0], l->node->src[0]->dtype, from);

            if (which >= 0 && !(x > best) && !isnan(x))
                continue;
            best = x;
            which = a->code * at->window.kernel[1] + b->code;
        }
    gr_element_put_f64(l->out[0], l->node->out[0].dtype, out, best);
    gr_element_put_i64(l->out[1], l->node->out[1].dtype, out, which < 0 ? 0 : which);
}

gr_status gr_max_pool_ref_run(const gr_launch *l)
{
    const gr_shape *out = &l->node->out[0].shape;

    for (int64_t n = 0; n < out->dim[0]; n++)
        for (int64_t row = 0; row < out->dim[1]; row++)
            for (int64_t col = 0; col < out->dim[2]; col++)
                for (int64_t c = 0; c < out->dim[3]; c++)
                    max_one(l, n, row, col, c);
    return GR_OK;
}

static double grad_one(const gr_launch *l, int64_t n, int64_t row, int64_t col, int64_t c)
{
    const gr_pool_attr *at = l->node->attr;
    const gr_pool_plan *p = l->data;
    const gr_value *dy = l->node->src[0], *which = l->node->src[1];
    double sum = 0;

    for (int64_t i = p->rows->first[row]; i < p->rows->first[row + 1]; i++)
        for (int64_t j = p->cols->first[col]; j < p->cols->first[col + 1]; j++) {
            const gr_tap *a = &p->rows->tap[i], *b = &p->cols->tap[j];
            int64_t from = ((n * at->out[0] + a->at) * at->out[1] + b->at) * dy->shape.dim[3] + c;

            if (gr_element_i64(l->src[1], which->dtype, from) ==
                a->code * at->window.kernel[1] + b->code)
                sum += gr_element_f64(l->src[0], dy->dtype, from);
        }
    return sum;
}

gr_status gr_max_pool_grad_ref_run(const gr_launch *l)
{
    const gr_shape *out = &l->node->out[0].shape;
    int64_t i = 0;

    for (int64_t n = 0; n < out->dim[0]; n++)
        for (int64_t row = 0; row < out->dim[1]; row++)
            for (int64_t col = 0; col < out->dim[2]; col++)
                for (int64_t c = 0; c < out->dim[3]; c++)
                    gr_element_put_f64(l->out[0], l->node->out[0].dtype, i++,
                                       grad_one(l, n, row, col, c));
    return GR_OK;
}

/* The reference of resample: in double, element by element. */
#include "op/element.h"
#include "op/resample/resample_kernels.h"

static double one(const gr_launch *l, int64_t n, int64_t row, int64_t col, int64_t c)
{
    const gr_resample_plan *p = l->data;
    const gr_value *x = l->node->src[0];
    const int64_t *dim = x->shape.dim;
    double sum = 0;

    for (int64_t i = p->rows->first[row]; i < p->rows->first[row + 1]; i++)
        for (int64_t j = p->cols->first[col]; j < p->cols->first[col + 1]; j++) {
            const gr_tap *a = &p->rows->tap[i], *b = &p->cols->tap[j];
            int64_t from = ((n * dim[1] + a->at) * dim[2] + b->at) * dim[3] + c;

            sum += a->wide * b->wide * gr_element_f64(l->src[0], x->dtype, from);
        }
    return sum;
}

gr_status gr_resample_ref_run(const gr_launch *l)
{
    const gr_shape *out = &l->node->out[0].shape;
    int64_t i = 0;

    for (int64_t n = 0; n < out->dim[0]; n++)
        for (int64_t row = 0; row < out->dim[1]; row++)
            for (int64_t col = 0; col < out->dim[2]; col++)
                for (int64_t c = 0; c < out->dim[3]; c++)
                    gr_element_put_f64(l->out[0], l->node->out[0].dtype, i++,
                                       one(l, n, row, col, c));
    return GR_OK;
}

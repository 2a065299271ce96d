/* The references, in double. */
#include "op/element.h"
#include "op/swiglu/swiglu.h"

#include <math.h>

gr_status gr_swiglu_ref_run(const gr_launch *l)
{
    const gr_value *y = &l->node->out[0];
    int64_t n = y->shape.dim[y->shape.n_dims - 1];

    for (int64_t i = 0; i < gr_shape_count(&y->shape); i++) {
        int64_t at = i / n * 2 * n + i % n;
        double a = gr_element_f64(l->src[0], y->dtype, at);
        double b = gr_element_f64(l->src[0], y->dtype, at + n);

        gr_element_put_f64(l->out[0], y->dtype, i, a / (1 + exp(-a)) * b);
    }
    return GR_OK;
}

gr_status gr_swiglu_grad_ref_run(const gr_launch *l)
{
    const gr_value *dy = l->node->src[1];
    int64_t n = dy->shape.dim[dy->shape.n_dims - 1];

    for (int64_t i = 0; i < gr_shape_count(&dy->shape); i++) {
        int64_t at = i / n * 2 * n + i % n;
        double a = gr_element_f64(l->src[0], dy->dtype, at);
        double b = gr_element_f64(l->src[0], dy->dtype, at + n);
        double d = gr_element_f64(l->src[1], dy->dtype, i);
        double s = 1 / (1 + exp(-a));

        gr_element_put_f64(l->out[0], dy->dtype, at, d * b * s * (1 + a / (1 + exp(a))));
        gr_element_put_f64(l->out[0], dy->dtype, at + n, d * a * s);
    }
    return GR_OK;
}

/* The references, in double. */
#include "op/element.h"
#include "op/xent/xent_kernels.h"

#include <math.h>

gr_status gr_xent_ref_run(const gr_launch *l)
{
    const gr_node *n = l->node;
    gr_dtype t = n->src[0]->dtype, to = n->out[0].dtype;
    int64_t rows = n->src[0]->shape.dim[0], cols = n->src[0]->shape.dim[1];

    for (int64_t r = 0; r < rows; r++) {
        int64_t label = gr_xent_label(l, r);
        double top = -(double)INFINITY, sum = 0, lse;

        for (int64_t c = 0; c < cols; c++) {
            double x = gr_element_f64(l->src[0], t, r * cols + c);

            if (!(x <= top) && !isnan(top))
                top = x;
        }
        for (int64_t c = 0; c < cols; c++)
            sum += exp(gr_element_f64(l->src[0], t, r * cols + c) - top);
        lse = top + log(sum);
        gr_element_put_f64(l->out[1], to, r, lse);
        gr_element_put_f64(l->out[0], to, r,
                           label < 0 ? 0 : lse - gr_element_f64(l->src[0], t, r * cols + label));
    }
    return GR_OK;
}

gr_status gr_xent_grad_ref_run(const gr_launch *l)
{
    const gr_node *n = l->node;
    gr_dtype t = n->src[0]->dtype, t_row = n->src[2]->dtype, to = n->out[0].dtype;
    int64_t rows = n->src[0]->shape.dim[0], cols = n->src[0]->shape.dim[1];

    for (int64_t r = 0; r < rows; r++) {
        int64_t label = gr_xent_label(l, r);
        double lse = gr_element_f64(l->src[2], t_row, r);
        double g = label < 0 ? 0 : gr_element_f64(l->src[3], t_row, r);

        for (int64_t c = 0; c < cols; c++) {
            double p = exp(gr_element_f64(l->src[0], t, r * cols + c) - lse);

            gr_element_put_f64(l->out[0], to, r * cols + c, (p - (c == label)) * g);
        }
    }
    return GR_OK;
}

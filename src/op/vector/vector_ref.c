/* The reference of cross: in double. */
#include "op/element.h"
#include "op/vector/vector.h"

gr_status gr_cross_ref_run(const gr_launch *l)
{
    gr_dtype t = l->node->out[0].dtype;
    int64_t n = gr_shape_count(&l->node->out[0].shape);

    for (int64_t i = 0; i < n; i++) {
        int64_t row = i / 3 * 3, p = (i + 1) % 3, q = (i + 2) % 3;
        double a = gr_element_f64(l->src[0], t, row + p) * gr_element_f64(l->src[1], t, row + q);
        double b = gr_element_f64(l->src[0], t, row + q) * gr_element_f64(l->src[1], t, row + p);

        gr_element_put_f64(l->out[0], t, i, a - b);
    }
    return GR_OK;
}

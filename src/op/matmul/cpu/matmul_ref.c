/* The reference product: the definition, summed in double, in the order of k; with an
 * epilogue it is rounded to f32 (f64 stays) before that. */
#include "op/element.h"
#include "op/epilogue.h"
#include "op/matmul/cpu/matmul_kernels.h"

size_t gr_matmul_ref_workspace(const gr_node *n, const void *data)
{
    (void)data;
    return n->fusion
               ? (size_t)gr_shape_count(&n->out[0].shape) * gr_dtype_bytes(gr_epilogue_wide(n))
               : 0;
}

gr_status gr_matmul_ref_run(const gr_launch *l)
{
    const gr_node *n = l->node;
    const gr_matmul_attr *at = n->attr;
    gr_dtype ta = n->src[0]->dtype, tb = n->src[1]->dtype;
    gr_dtype type_y = n->fusion ? gr_epilogue_wide(n) : at->dtype;
    void *y = n->fusion ? l->work : l->out[0];
    gr_matmul_dims d;

    gr_matmul_get_dims(n, &d);
    for (int64_t row = 0; row < d.batch * d.m; row++) {
        int64_t z = row / d.m, i = row % d.m;

        for (int64_t j = 0; j < d.n; j++) {
            double sum = 0;

            for (int64_t k = 0; k < d.k; k++) {
                int64_t ia = z * d.stride_a + (at->trans_a ? k * d.m + i : i * d.k + k);
                int64_t ib = z * d.stride_b + (at->trans_b ? j * d.k + k : k * d.n + j);

                sum += gr_element_f64(l->src[0], ta, ia) * gr_element_f64(l->src[1], tb, ib);
            }
            gr_element_put_f64(y, type_y, row * d.n + j, sum);
        }
    }
    return n->fusion ? gr_epilogue_ref(l, y) : GR_OK;
}

/* The reference transpose: every element by its index. Copies bytes, so all types. */
#include "op/shape/shape_kernels.h"

#include <string.h>

gr_status gr_transpose_ref_run(const gr_launch *l)
{
    const gr_transpose_attr *at = l->node->attr;
    const gr_shape *in = &l->node->src[0]->shape, *out = &l->node->out[0].shape;
    size_t bytes = gr_dtype_bytes(l->node->out[0].dtype);
    int64_t step[GR_MAX_DIMS] = { 0 }, n = gr_shape_count(out);

    for (int d = in->n_dims - 1; d >= 0; d--) /* of dimension d in the source */
        step[d] = d == in->n_dims - 1 ? 1 : step[d + 1] * in->dim[d + 1];
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, from = 0;

        for (int d = out->n_dims - 1; d >= 0; d--) {
            from += rest % out->dim[d] * step[at->order[d]];
            rest /= out->dim[d];
        }
        memcpy((char *)l->out[0] + (size_t)i * bytes,
               (const char *)l->src[0] + (size_t)from * bytes, bytes);
    }
    return GR_OK;
}

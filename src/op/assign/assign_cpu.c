/* The CPU kernel of assign: buffers are small, so there is one, and it copies. */
#include "op/assign/assign.h"
#include "op/element.h"

#include <string.h>

static gr_status reference_run(const gr_launch *l)
{
    const gr_value *to = &l->node->out[0], *from = l->node->src[1];
    int64_t n = gr_shape_count(&to->shape);

    if (to->dtype == from->dtype)
        memmove(l->out[0], l->src[1], gr_value_bytes(to)); /* the value may be the buffer */
    else
        for (int64_t i = 0; i < n; i++)
            gr_element_put_f64(l->out[0], to->dtype, i, gr_element_f64(l->src[1], from->dtype, i));
    return GR_OK;
}

const gr_kernel gr_assign_cpu[] = {
    { .name = "reference", .run = reference_run },
    { .name = NULL },
};

/* The CPU kernels of assign and hold: buffers are small, so there is one of each, and it copies. */
#include "op/assign/assign.h"
#include "op/element.h"
#include "op/update/update.h"

#include <string.h>

static void copy(const gr_launch *l, int s)
{
    const gr_value *to = &l->node->out[0], *from = l->node->src[s];
    int64_t n = gr_shape_count(&to->shape);

    if (to->dtype == from->dtype)
        memmove(l->out[0], l->src[s], gr_value_bytes(to)); /* the value may be the buffer */
    else
        for (int64_t i = 0; i < n; i++)
            gr_element_put_f64(l->out[0], to->dtype, i, gr_element_f64(l->src[s], from->dtype, i));
}

static gr_status run_assign(const gr_launch *l)
{
    const float *control = l->node->n_src > 2 ? l->src[2] : NULL;

    if (!control || control[GR_CONTROL_SKIP] == 0)
        copy(l, 1);
    else if (l->node->n_src > 3)
        copy(l, 3);
    return GR_OK;
}

static gr_status run_hold(const gr_launch *l)
{
    if (l->scalars->micro == 0)
        copy(l, 1);
    return GR_OK;
}

const gr_kernel gr_assign_cpu[] = {
    { .name = "reference", .run = run_assign },
    { .name = NULL },
};

const gr_kernel gr_hold_cpu[] = {
    { .name = "reference", .run = run_hold },
    { .name = NULL },
};

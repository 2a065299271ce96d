/* The lists of kernels of softmax. */
#include "op/softmax/softmax_kernels.h"

gr_axis gr_axis_of(const gr_shape *s, int axis)
{
    gr_axis x = { .outer = 1, .n = s->dim[axis], .inner = 1 };

    for (int i = 0; i < axis; i++)
        x.outer *= s->dim[i];
    for (int i = axis + 1; i < s->n_dims; i++)
        x.inner *= s->dim[i];
    return x;
}

#define ONLY_REFERENCE(table, fn)           \
    const gr_kernel table[] = {             \
        { .name = "reference", .run = fn }, \
        { .name = NULL },                   \
    }

ONLY_REFERENCE(gr_softmax_cpu, gr_softmax_ref_run);
ONLY_REFERENCE(gr_softmax_grad_cpu, gr_softmax_grad_ref_run);
ONLY_REFERENCE(gr_log_softmax_cpu, gr_softmax_ref_run);
ONLY_REFERENCE(gr_log_softmax_grad_cpu, gr_softmax_grad_ref_run);
ONLY_REFERENCE(gr_logsumexp_cpu, gr_softmax_ref_run);

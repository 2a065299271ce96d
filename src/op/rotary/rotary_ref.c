/* The reference, in double. */
#include "op/element.h"
#include "op/rotary/rotary_kernels.h"

#include <math.h>

double gr_rotary_angle(const gr_rotary_attr *at, int64_t pos, int64_t i, int64_t s)
{
    const double angle = (double)pos * pow(at->base, -2.0 * (double)i / (double)s);

    return at->inverse ? -angle : angle;
}

/* One part of a head, from element `at` on. */
static void turn(const gr_launch *l, int64_t at, int64_t s, int64_t pos)
{
    const gr_rotary_attr *a = l->node->attr;
    const gr_dtype t = l->node->src[0]->dtype;

    for (int64_t i = 0; i < s / 2; i++) {
        const int64_t i1 = at + (a->interleaved ? 2 * i : i);
        const int64_t i2 = a->interleaved ? i1 + 1 : i1 + s / 2;
        const double angle = gr_rotary_angle(a, pos, i, s);
        const double x1 = gr_element_f64(l->src[0], t, i1), x2 = gr_element_f64(l->src[0], t, i2);

        gr_element_put_f64(l->out[0], t, i1, x1 * cos(angle) - x2 * sin(angle));
        gr_element_put_f64(l->out[0], t, i2, x2 * cos(angle) + x1 * sin(angle));
    }
}

gr_status gr_rotary_ref_run(const gr_launch *l)
{
    const gr_rotary_attr *a = l->node->attr;
    const gr_shape *x = &l->node->src[0]->shape;
    const gr_dtype t = l->node->src[0]->dtype;
    const int64_t heads = x->dim[2], d = x->dim[3], s = d / a->axes;

    for (int64_t token = 0; token < x->dim[0] * x->dim[1]; token++)
        for (int64_t h = 0; h < heads; h++) {
            const int64_t at = (token * heads + h) * d;

            for (int axis = 0; h < a->heads && axis < a->axes; axis++)
                turn(l, at + axis * s, s, gr_rotary_position(l, token, axis));
            for (int64_t i = 0; h >= a->heads && i < d; i++)
                gr_element_put_f64(l->out[0], t, at + i, gr_element_f64(l->src[0], t, at + i));
        }
    return GR_OK;
}

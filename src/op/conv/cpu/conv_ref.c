/* The reference convolutions: the definitions (conv.c), summed in double. */
#include "op/conv/cpu/conv_kernels.h"
#include "op/element.h"

/* Where tap k of output o falls on the input; -1: on padding. */
static int64_t input_at(const gr_conv_dims *d, int axis, int64_t o, int64_t k)
{
    int64_t i = o * d->stride[axis] + k * d->dilation[axis] - d->pad[axis];

    return i >= 0 && i < d->in[axis] ? i : -1;
}

/* Which output meets input i at tap k; -1: none. */
static int64_t output_at(const gr_conv_dims *d, int axis, int64_t i, int64_t k)
{
    int64_t at = i + d->pad[axis] - k * d->dilation[axis];

    if (at < 0 || at % d->stride[axis] != 0)
        return -1;
    return at / d->stride[axis] < d->out[axis] ? at / d->stride[axis] : -1;
}

static int64_t at_x(const gr_conv_dims *d, int64_t n, int64_t iy, int64_t ix)
{
    return ((n * d->in[0] + iy) * d->in[1] + ix) * d->ci;
}

static int64_t at_y(const gr_conv_dims *d, int64_t n, int64_t oy, int64_t ox)
{
    return ((n * d->out[0] + oy) * d->out[1] + ox) * d->co;
}

/* Element [o, 0, ky, kx] of the weight; the next i is kh kw further on. */
static int64_t at_w(const gr_conv_dims *d, int64_t o, int64_t ky, int64_t kx)
{
    return (o * (d->ci / d->groups) * d->k[0] + ky) * d->k[1] + kx;
}

static double conv_sum(const gr_launch *l, const gr_conv_dims *d, int64_t pixel, int64_t o)
{
    const gr_dtype tx = l->node->src[0]->dtype, tw = l->node->src[1]->dtype;
    int64_t per = d->ci / d->groups, first = o / (d->co / d->groups) * per;
    int64_t ox = pixel % d->out[1], oy = pixel / d->out[1] % d->out[0];
    int64_t n = pixel / (d->out[1] * d->out[0]);
    double sum = 0;

    for (int64_t tap = 0; tap < d->k[0] * d->k[1]; tap++) {
        int64_t ky = tap / d->k[1], kx = tap % d->k[1];
        int64_t iy = input_at(d, 0, oy, ky), ix = input_at(d, 1, ox, kx);

        if (iy < 0 || ix < 0)
            continue;
        for (int64_t i = 0; i < per; i++)
            sum += gr_element_f64(l->src[0], tx, at_x(d, n, iy, ix) + first + i) *
                   gr_element_f64(l->src[1], tw, at_w(d, o, ky, kx) + i * d->k[0] * d->k[1]);
    }
    return sum;
}

gr_status gr_conv_ref_run(const gr_launch *l)
{
    gr_conv_dims d;

    gr_conv_get_dims(l->node, &d);
    for (int64_t p = 0; p < d.n * d.out[0] * d.out[1]; p++)
        for (int64_t o = 0; o < d.co; o++)
            gr_element_put_f64(l->out[0], l->node->out[0].dtype, p * d.co + o,
                               conv_sum(l, &d, p, o));
    return GR_OK;
}

static double data_sum(const gr_launch *l, const gr_conv_dims *d, int64_t pixel, int64_t i)
{
    const gr_dtype ty = l->node->src[0]->dtype, tw = l->node->src[1]->dtype;
    int64_t per_in = d->ci / d->groups, per_out = d->co / d->groups, group = i / per_in;
    int64_t ix = pixel % d->in[1], iy = pixel / d->in[1] % d->in[0];
    int64_t n = pixel / (d->in[1] * d->in[0]), w_i = i % per_in * d->k[0] * d->k[1];
    double sum = 0;

    for (int64_t tap = 0; tap < d->k[0] * d->k[1]; tap++) {
        int64_t ky = tap / d->k[1], kx = tap % d->k[1];
        int64_t oy = output_at(d, 0, iy, ky), ox = output_at(d, 1, ix, kx);

        if (oy < 0 || ox < 0)
            continue;
        for (int64_t o = group * per_out; o < (group + 1) * per_out; o++)
            sum += gr_element_f64(l->src[0], ty, at_y(d, n, oy, ox) + o) *
                   gr_element_f64(l->src[1], tw, at_w(d, o, ky, kx) + w_i);
    }
    return sum;
}

gr_status gr_conv_data_ref_run(const gr_launch *l)
{
    gr_conv_dims d;

    gr_conv_get_dims(l->node, &d);
    for (int64_t p = 0; p < d.n * d.in[0] * d.in[1]; p++)
        for (int64_t i = 0; i < d.ci; i++)
            gr_element_put_f64(l->out[0], l->node->out[0].dtype, p * d.ci + i,
                               data_sum(l, &d, p, i));
    return GR_OK;
}

/* i counts within the group. */
static double weight_sum(const gr_launch *l, const gr_conv_dims *d, int64_t o, int64_t i,
                         int64_t tap)
{
    const gr_dtype tx = l->node->src[0]->dtype, ty = l->node->src[1]->dtype;
    int64_t ky = tap / d->k[1], kx = tap % d->k[1];
    double sum = 0;

    i += o / (d->co / d->groups) * (d->ci / d->groups);
    for (int64_t row = 0; row < d->n * d->out[0]; row++) {
        int64_t n = row / d->out[0], oy = row % d->out[0], iy = input_at(d, 0, oy, ky);

        for (int64_t ox = 0; iy >= 0 && ox < d->out[1]; ox++) {
            int64_t ix = input_at(d, 1, ox, kx);

            if (ix >= 0)
                sum += gr_element_f64(l->src[0], tx, at_x(d, n, iy, ix) + i) *
                       gr_element_f64(l->src[1], ty, at_y(d, n, oy, ox) + o);
        }
    }
    return sum;
}

gr_status gr_conv_weight_ref_run(const gr_launch *l)
{
    gr_conv_dims d;
    int64_t at = 0;

    gr_conv_get_dims(l->node, &d);
    for (int64_t o = 0; o < d.co; o++)
        for (int64_t i = 0; i < d.ci / d.groups; i++)
            for (int64_t tap = 0; tap < d.k[0] * d.k[1]; tap++)
                gr_element_put_f64(l->out[0], l->node->out[0].dtype, at++,
                                   weight_sum(l, &d, o, i, tap));
    return GR_OK;
}

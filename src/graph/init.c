/* How variables start: the constructors of gr_init. Any thread. */
#include "gradus/graph.h"

#include <math.h>

gr_init gr_init_const(double value)
{
    return (gr_init){ .kind = GR_INIT_CONST, .a = value };
}

gr_init gr_init_uniform(double from, double to)
{
    return (gr_init){ .kind = GR_INIT_UNIFORM, .a = from, .b = to };
}

gr_init gr_init_normal(double mean, double std)
{
    return (gr_init){ .kind = GR_INIT_NORMAL, .a = mean, .b = std };
}

gr_init gr_init_trunc_normal(double mean, double std, double lo, double hi)
{
    return (gr_init){ .kind = GR_INIT_TRUNC_NORMAL, .a = mean, .b = std, .lo = lo, .hi = hi };
}

gr_init gr_init_zero_row(gr_init init, int64_t row)
{
    init.zeros = row + 1;
    return init;
}

void gr_init_fans(gr_shape weight, double *fan_in, double *fan_out)
{
    double n_places = 1;

    for (int i = 2; i < weight.n_dims && i < GR_MAX_DIMS; i++)
        n_places *= (double)weight.dim[i];
    *fan_in = weight.n_dims < 2 ? 0 : n_places * (double)weight.dim[1];
    *fan_out = weight.n_dims < 2 ? 0 : n_places * (double)weight.dim[0];
}

/* The products are PyTorch's in its order, so that bounds are the same to the last bit. */
static double xavier_std(double fan_in, double fan_out, double gain)
{
    return gain * sqrt(2.0 / (fan_in + fan_out));
}

gr_init gr_init_xavier_uniform(double fan_in, double fan_out, double gain)
{
    double bound = sqrt(3.0) * xavier_std(fan_in, fan_out, gain);

    return gr_init_uniform(-bound, bound);
}

gr_init gr_init_xavier_normal(double fan_in, double fan_out, double gain)
{
    return gr_init_normal(0, xavier_std(fan_in, fan_out, gain));
}

gr_init gr_init_kaiming_uniform(double fan, double gain)
{
    double bound = sqrt(3.0) * (gain / sqrt(fan));

    return gr_init_uniform(-bound, bound);
}

gr_init gr_init_kaiming_normal(double fan, double gain)
{
    return gr_init_normal(0, gain / sqrt(fan));
}

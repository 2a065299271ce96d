/*
 * Linear: y = x W^T + b, as torch.nn.Linear.
 *
 * W is stored [n_out, k], as PyTorch stores it. Weight and bias are made in this order:
 * random numbers are drawn in the order of the variable table.
 */
#include "nn/layer.h"

#include "gradus/ops.h"

#include <inttypes.h>
#include <math.h>

gr_value *gr_linear_at(const char *site, gr_graph *g, const char *name, gr_value *x, int64_t n_out,
                       const gr_layer_opts *opts)
{
    static const gr_layer_opts plain = { 0 };
    const gr_layer_opts *o = opts ? opts : &plain;
    gr_layer l = { site, g, name };
    gr_shape in = gr_value_shape(x);
    int64_t k = gr_layer_channels(&l, "linear", x, 1);
    gr_value *weight, *bias, *y;
    double bound;

    if (k < 1)
        return NULL;
    if (n_out < 1) {
        gr_graph_fail(g, site, "linear '%s' of %" PRId64 " outputs, must have at least one", name,
                      n_out);
        return NULL;
    }
    /* kaiming_uniform_(a=sqrt(5)), which PyTorch draws weights with, comes to the same bound:
     * the same float for every k up to two million. */
    bound = 1.0 / sqrt((double)k);
    weight =
        gr_layer_param(&l, "weight", GR_SHAPE(n_out, k), o->weight, gr_init_uniform(-bound, bound));
    if (in.n_dims == 1) /* one sample: the product wants rows */
        x = gr_reshape_at(site, g, x, GR_SHAPE(1, k));
    y = gr_matmul_at(site, g, x, weight, false, true);
    if (!o->no_bias) {
        bias = gr_layer_param(&l, "bias", GR_SHAPE(n_out), o->bias, gr_init_uniform(-bound, bound));
        y = gr_map2_at(site, g, "add", y, bias);
    }
    return in.n_dims == 1 ? gr_reshape_at(site, g, y, GR_SHAPE(n_out)) : y;
}

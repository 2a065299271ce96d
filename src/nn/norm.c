/* Norms with their parameters and buffers, as torch.nn has them. */
#include "gradus/norm.h"

#include "nn/layer.h"

#include <float.h>
#include <inttypes.h>

#define EPS 1e-5

gr_value *gr_batch_norm_layer_at(const char *site, gr_graph *g, const char *name, gr_value *x)
{
    gr_layer l = { site, g, name };
    int64_t c = gr_layer_channels(&l, "batch norm", x, 2);
    gr_batch_norm_args a = GR_BATCH_NORM_INIT;

    if (c < 1 || !gr_layer_is_nhwc(&l, "batch norm", x)) /* some networks begin with one */
        return NULL;
    a.weight = gr_layer_param(&l, "weight", GR_SHAPE(c), NULL, gr_init_const(1));
    a.bias = gr_layer_param(&l, "bias", GR_SHAPE(c), NULL, gr_init_const(0));
    a.running_mean = gr_layer_buffer(&l, "running_mean", GR_F32, GR_SHAPE(c), 0);
    a.running_var = gr_layer_buffer(&l, "running_var", GR_F32, GR_SHAPE(c), 1);
    a.num_batches_tracked = gr_layer_buffer(&l, "num_batches_tracked", GR_I64, GR_SCALAR, 0);
    return gr_batch_norm_at(site, g, x, &a);
}

gr_value *gr_layer_norm_layer_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                 double eps)
{
    gr_layer l = { site, g, name };
    int64_t c = gr_layer_channels(&l, "layer norm", x, 1);
    gr_value *weight, *bias;

    if (c < 1)
        return NULL;
    weight = gr_layer_param(&l, "weight", GR_SHAPE(c), NULL, gr_init_const(1));
    bias = gr_layer_param(&l, "bias", GR_SHAPE(c), NULL, gr_init_const(0));
    return gr_layer_norm_at(site, g, x, weight, bias, eps > 0 ? eps : EPS);
}

gr_value *gr_rms_norm_layer_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                               double eps)
{
    gr_layer l = { site, g, name };
    int64_t c = gr_layer_channels(&l, "RMS norm", x, 1);
    gr_value *weight;

    if (c < 1)
        return NULL;
    weight = gr_layer_param(&l, "weight", GR_SHAPE(c), NULL, gr_init_const(1));
    return gr_rms_norm_at(site, g, x, weight, eps == 0 ? (double)FLT_EPSILON : eps, false);
}

gr_value *gr_group_norm_layer_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                 int64_t n_groups)
{
    gr_layer l = { site, g, name };
    int64_t c = gr_layer_channels(&l, "group norm", x, 2);
    gr_value *weight, *bias;

    if (c < 1)
        return NULL;
    if (n_groups < 1 || c % n_groups != 0) {
        gr_graph_fail(g, site,
                      "group norm '%s': %" PRId64 " groups do not divide %" PRId64 " channels",
                      name, n_groups, c);
        return NULL;
    }
    weight = gr_layer_param(&l, "weight", GR_SHAPE(c), NULL, gr_init_const(1));
    bias = gr_layer_param(&l, "bias", GR_SHAPE(c), NULL, gr_init_const(0));
    return gr_group_norm_at(site, g, x, n_groups, weight, bias, EPS);
}

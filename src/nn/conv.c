/*
 * Convolutions with weight and bias, as torch.nn.Conv2d and ConvTranspose2d. Weights are
 * stored as PyTorch stores them; images are NHWC.
 */
#include "nn/layer.h"

#include "gradus/ops.h"
#include "graph/vars.h"

#include <inttypes.h>
#include <math.h>

static gr_value *add_bias(const gr_layer *l, gr_value *y, const gr_conv_spec *s, double bound)
{
    gr_value *bias;

    if (s->opts && s->opts->no_bias)
        return y;
    bias = gr_layer_param(l, "bias", GR_SHAPE(s->n_out), s->opts ? s->opts->bias : NULL,
                          gr_init_uniform(-bound, bound));
    return gr_map2_at(l->site, l->g, "add", y, bias);
}

static int64_t columns(const gr_conv_spec *s)
{
    return s->kw ? s->kw : s->k;
}

/* PyTorch's bound, 1 / sqrt(fan). */
static double bound_of(int64_t n, const gr_conv_spec *s)
{
    return 1.0 / sqrt((double)n * (double)s->k * (double)columns(s));
}

/* A model that has its weights already takes pictures of that many channels. */
static bool fits_weight(const gr_layer *l, const gr_value *x, int axis, int64_t want)
{
    const char *name = gr_name(l->g, "%s.weight", l->name);
    const gr_var *w = name ? gr_vars_find(l->g->vars, name) : NULL;
    gr_shape s = gr_value_shape(x);
    char text[GR_SHAPE_TEXT], has[GR_SHAPE_TEXT];

    if (!w || w->shape.n_dims != 4 || w->shape.dim[axis] == want)
        return true;
    gr_graph_fail(l->g, l->site,
                  "convolution '%s': input %s has %" PRId64 " channels (images are NHWC), and the "
                  "model was built for others: its weight is %s",
                  l->name, gr_shape_text(&s, text, sizeof(text)), s.dim[3],
                  gr_shape_text(&w->shape, has, sizeof(has)));
    return false;
}

/* The channels of x; 0, and a failure, when the layer cannot be. */
static int64_t check(const gr_layer *l, const gr_value *x, const gr_conv_spec *s, int64_t groups)
{
    int64_t c = gr_layer_channels(l, "convolution", x, 4);

    if (c < 1 || !gr_layer_is_nhwc(l, "convolution", x))
        return 0;
    if (!s) {
        gr_graph_fail(l->g, l->site, "convolution '%s': its spec is NULL", l->name);
        return 0;
    }
    if (s->n_out >= 1 && s->k >= 1 && s->kw >= 0 && groups >= 1 && c % groups == 0 &&
        s->n_out % groups == 0)
        return c;
    gr_graph_fail(l->g, l->site,
                  "convolution '%s': %" PRId64 " to %" PRId64 " channels, kernel %" PRId64
                  " x %" PRId64 ", %" PRId64 " groups; groups must divide both",
                  l->name, c, s->n_out, s->k, columns(s), groups);
    return 0;
}

gr_value *gr_conv_layer_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                           const gr_conv_spec *s)
{
    static const gr_conv plain = GR_CONV_INIT;
    const gr_conv *conv = s && s->conv ? s->conv : &plain;
    gr_layer l = { site, g, name };
    int64_t c = check(&l, x, s, conv->groups);
    gr_value *weight;
    double bound;

    if (c < 1)
        return NULL;
    c /= conv->groups;
    if (!fits_weight(&l, x, 1, c))
        return NULL;
    bound = bound_of(c, s);
    weight = gr_layer_param(&l, "weight", GR_SHAPE(s->n_out, c, s->k, columns(s)),
                            s->opts ? s->opts->weight : NULL, gr_init_uniform(-bound, bound));
    return add_bias(&l, gr_conv2d_at(site, g, x, weight, conv), s, bound);
}

gr_value *gr_conv_transpose_layer_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                     const gr_conv_spec *s)
{
    static const gr_conv plain = GR_CONV_INIT;
    const gr_conv *conv = s && s->conv ? s->conv : &plain;
    gr_layer l = { site, g, name };
    int64_t c = check(&l, x, s, conv->groups);
    gr_value *weight;
    int64_t n_out;
    double bound;

    if (c < 1)
        return NULL;
    if (!fits_weight(&l, x, 0, c))
        return NULL;
    n_out = s->n_out / conv->groups;
    /* PyTorch takes the fan from dimension 1, which is the outputs here. */
    bound = bound_of(n_out, s);
    weight = gr_layer_param(&l, "weight", GR_SHAPE(c, n_out, s->k, columns(s)),
                            s->opts ? s->opts->weight : NULL, gr_init_uniform(-bound, bound));
    return add_bias(&l, gr_conv_transpose2d_at(site, g, x, weight, conv), s, bound);
}

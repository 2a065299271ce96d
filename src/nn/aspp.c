/* Atrous spatial pyramid pooling: five views of a map at different reach, joined. */
#include "gradus/models.h"

#include "gradus/ops.h"

#include <math.h>

typedef struct net {
    const char *site;
    gr_graph *g;
    const char *prefix; /* "aspp." or "" */
    int64_t planes;
} net;

typedef struct conv_bn {
    const char *conv, *bn; /* names */
    int64_t k, dilation;
} conv_bn;

static gr_value *add_conv_bn(const net *n, gr_value *x, const conv_bn *c)
{
    gr_init start = gr_init_normal(0, sqrt(2.0 / (double)(n->planes * c->k * c->k)));
    gr_layer_opts opts = { .no_bias = true, .weight = &start };
    gr_conv conv = GR_CONV_INIT;

    conv.dilation[0] = conv.dilation[1] = c->dilation;
    conv.pad[0] = conv.pad[1] = c->k / 2 * c->dilation;
    x = gr_conv_layer_at(
        n->site, n->g, c->conv, x,
        &(gr_conv_spec){ .n_out = n->planes, .k = c->k, .conv = &conv, .opts = &opts });
    return gr_batch_norm_layer_at(n->site, n->g, c->bn, x);
}

static gr_value *relu(const net *n, gr_value *x)
{
    return gr_map1_at(n->site, n->g, "relu", x);
}

/* A map of one pixel, resized to any size, is the pixel everywhere. */
static gr_value *image_branch(const net *n, gr_value *x)
{
    gr_shape shape = gr_value_shape(x);
    conv_bn c = { gr_name(n->g, "%sglobal_avg_pool.1", n->prefix),
                  gr_name(n->g, "%sglobal_avg_pool.2", n->prefix), 1, 1 };

    x = gr_reduce_at(n->site, n->g, "mean", x, GR_AXIS(1) | GR_AXIS(2), true);
    x = relu(n, add_conv_bn(n, x, &c));
    shape.dim[3] = n->planes;
    return gr_broadcast_at(n->site, n->g, x, shape);
}

gr_value *gr_aspp_model_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                           const gr_aspp *config)
{
    static const int64_t usual[3] = { 12, 18, 24 };
    const gr_aspp c = config ? *config : (gr_aspp){ 0 };
    net n = { .site = site, .g = g, .planes = c.planes };
    gr_shape in = gr_value_shape(x);
    char text[GR_SHAPE_TEXT];
    gr_value *branch[5];
    conv_bn join;

    if (in.n_dims != 4 || c.planes < 1) {
        gr_graph_fail(g, site,
                      "ASPP '%s': input %s, %lld planes; expected [n, h, w, c] and one plane or "
                      "more",
                      name, gr_shape_text(&in, text, sizeof(text)), (long long)c.planes);
        return NULL;
    }
    n.prefix = name && name[0] ? gr_name(g, "%s.", name) : "";
    for (int i = 0; i < 4; i++) {
        int64_t d = i == 0 ? 1 : c.dilation[i - 1] ? c.dilation[i - 1] : usual[i - 1];
        conv_bn b = { gr_name(g, "%saspp%d.atrous_conv", n.prefix, i + 1),
                      gr_name(g, "%saspp%d.bn", n.prefix, i + 1), i == 0 ? 1 : 3, d };

        branch[i] = relu(&n, add_conv_bn(&n, x, &b));
    }
    branch[4] = image_branch(&n, x);
    join = (conv_bn){ gr_name(g, "%sconv1", n.prefix), gr_name(g, "%sbn1", n.prefix), 1, 1 };
    x = add_conv_bn(&n, gr_concat_at(site, g, branch, 5, 3), &join);
    return c.relu ? relu(&n, x) : x;
}

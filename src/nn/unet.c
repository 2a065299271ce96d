/*
 * U-Net: four levels down, four up, with the maps of the way down joined in. The widest
 * level has as many channels as the one above it.
 */
#include "gradus/models.h"

#include "gradus/image.h"
#include "gradus/ops.h"

#define N_LEVELS 4

typedef struct net {
    const char *site;
    gr_graph *g;
    const char *prefix;
    bool bilinear;
} net;

static gr_value *double_conv(const net *n, const char *name, gr_value *x, int64_t n_out)
{
    gr_conv conv = GR_CONV_INIT;

    conv.pad[0] = conv.pad[1] = 1;
    for (int i = 0; i < 2; i++) {
        x = gr_conv_layer_at(n->site, n->g, gr_name(n->g, "%s.double_conv.%d", name, 3 * i), x,
                             &(gr_conv_spec){ .n_out = n_out, .k = 3, .conv = &conv });
        x = gr_batch_norm_layer_at(n->site, n->g,
                                   gr_name(n->g, "%s.double_conv.%d", name, 3 * i + 1), x);
        x = gr_map1_at(n->site, n->g, "relu", x);
    }
    return x;
}

static gr_value *down(const net *n, int level, gr_value *x, int64_t n_out)
{
    gr_window pool = GR_WINDOW_INIT;

    gr_block_begin_at(n->site, n->g, gr_name(n->g, "%sdown%d", n->prefix, level));
    x = gr_max_pool2d_at(n->site, n->g, x, &pool);
    x = double_conv(n, gr_name(n->g, "%sdown%d.maxpool_conv.1", n->prefix, level), x, n_out);
    gr_block_end_at(n->site, n->g);
    return x;
}

/* Twice as large. */
static gr_value *grow(const net *n, int level, gr_value *x)
{
    gr_shape in = gr_value_shape(x);
    gr_conv conv = GR_CONV_INIT;

    if (n->bilinear)
        return gr_resize_at(n->site, n->g, x, 2 * in.dim[1], 2 * in.dim[2], GR_BILINEAR_CORNERS);
    conv.stride[0] = conv.stride[1] = 2;
    return gr_conv_transpose_layer_at(n->site, n->g, gr_name(n->g, "%sup%d.up", n->prefix, level),
                                      x,
                                      &(gr_conv_spec){ .n_out = in.dim[3], .k = 2, .conv = &conv });
}

/* An odd side lost a row on its way down: zeros around bring it back. */
static gr_value *pad_to(const net *n, gr_value *x, gr_shape want)
{
    gr_shape have = gr_value_shape(x);
    int64_t before[4] = { 0 }, after[4] = { 0 };

    for (int i = 1; i <= 2; i++) {
        before[i] = (want.dim[i] - have.dim[i]) / 2;
        after[i] = want.dim[i] - have.dim[i] - before[i];
    }
    if (before[1] + after[1] + before[2] + after[2] == 0)
        return x;
    return gr_pad_at(n->site, n->g, x, before, after, 0);
}

static gr_value *up(const net *n, int level, gr_value *x, gr_value *skip, int64_t n_out)
{
    gr_value *both[2] = { skip, NULL };

    gr_block_begin_at(n->site, n->g, gr_name(n->g, "%sup%d", n->prefix, level));
    both[1] = pad_to(n, grow(n, level, x), gr_value_shape(skip));
    x = gr_concat_at(n->site, n->g, both, 2, 3);
    x = double_conv(n, gr_name(n->g, "%sup%d.conv", n->prefix, level), x, n_out);
    gr_block_end_at(n->site, n->g);
    return x;
}

gr_value *gr_unet_model_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                           const gr_unet *config)
{
    const gr_unet c = config ? *config : (gr_unet){ 0 };
    int64_t base = c.base ? c.base : 64;
    net n = { .site = site, .g = g, .bilinear = c.bilinear };
    gr_value *skip[N_LEVELS + 1] = { NULL };
    gr_shape in = gr_value_shape(x);
    char text[GR_SHAPE_TEXT];

    if (in.n_dims != 4 || base < 1 || base > INT32_MAX) {
        gr_graph_fail(g, site, "U-Net '%s': input %s, base %lld; expected [n, h, w, c]", name,
                      gr_shape_text(&in, text, sizeof(text)), (long long)base);
        return NULL;
    }
    n.prefix = name && name[0] ? gr_name(g, "%s.", name) : "";
    skip[0] = double_conv(&n, gr_name(g, "%sinc", n.prefix), x, base);
    for (int i = 1; i <= N_LEVELS && skip[i - 1]; i++)
        skip[i] = down(&n, i, skip[i - 1], base << (i < N_LEVELS ? i : N_LEVELS - 1));
    if (gr_graph_status(g) != GR_OK)
        return NULL;
    x = skip[N_LEVELS];
    for (int i = 1; i <= N_LEVELS && x; i++)
        x = up(&n, i, x, skip[N_LEVELS - i], i < N_LEVELS ? base << (N_LEVELS - 1 - i) : base);
    return gr_conv_layer_at(site, g, gr_name(g, "%soutc.conv", n.prefix), x,
                            &(gr_conv_spec){ .n_out = c.n_classes, .k = 1 });
}

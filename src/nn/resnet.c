/*
 * Residual networks with torchvision's names. One configuration serves classification and
 * the dilated trunk of DeepLab, which differ in strides, dilations, the place of a
 * bottleneck's stride and the rounding of the stem's pool.
 */
#include "gradus/models.h"

#include "gradus/image.h"
#include "gradus/ops.h"
#include "nn/layer.h"

#include <math.h>

typedef struct net {
    const char *site;
    gr_graph *g;
    const char *name;
    gr_resnet c;
    bool bottleneck;
} net;

typedef struct convolution {
    int64_t n_out, k, stride, dilation;
} convolution;

/* Convolution and norm, "<block>.conv<i>" and "<block>.bn<i>". */
static gr_value *conv_bn(const net *n, const char *conv_name, const char *bn_name, gr_value *x,
                         convolution c)
{
    gr_init start = gr_init_normal(0, sqrt(2.0 / (double)(c.n_out * c.k * c.k)));
    gr_layer_opts opts = { .no_bias = true, .weight = &start };
    int64_t pad = c.k / 2 * c.dilation;
    gr_conv conv = GR_CONV_INIT;

    conv.stride[0] = conv.stride[1] = c.stride;
    conv.dilation[0] = conv.dilation[1] = c.dilation;
    conv.pad[0] = conv.pad[1] = pad;
    x = gr_conv_layer_at(
        n->site, n->g, conv_name, x,
        &(gr_conv_spec){ .n_out = c.n_out, .k = c.k, .conv = &conv, .opts = &opts });
    return gr_batch_norm_layer_at(n->site, n->g, bn_name, x);
}

static gr_value *numbered(const net *n, const char *block, int i, gr_value *x, convolution c)
{
    return conv_bn(n, gr_name(n->g, "%s.conv%d", block, i), gr_name(n->g, "%s.bn%d", block, i), x,
                   c);
}

static gr_value *relu(const net *n, gr_value *x)
{
    return gr_map1_at(n->site, n->g, "relu", x);
}

typedef struct stage {
    int64_t width, stride, dilation;
    bool project;
} stage;

static gr_value *block(const net *n, const char *name, gr_value *x, const stage *s)
{
    int64_t first = n->c.stride_first ? s->stride : 1;
    int64_t second = n->c.stride_first ? 1 : s->stride;
    int64_t n_out = n->bottleneck ? s->width * 4 : s->width;
    gr_value *y = x;

    gr_block_begin_at(n->site, n->g, name);
    if (n->bottleneck) {
        y = relu(n, numbered(n, name, 1, y, (convolution){ s->width, 1, first, 1 }));
        y = relu(n, numbered(n, name, 2, y, (convolution){ s->width, 3, second, s->dilation }));
        y = numbered(n, name, 3, y, (convolution){ n_out, 1, 1, 1 });
    } else { /* the second convolution alone is dilated */
        y = relu(n, numbered(n, name, 1, y, (convolution){ s->width, 3, s->stride, 1 }));
        y = numbered(n, name, 2, y, (convolution){ s->width, 3, 1, s->dilation });
    }
    if (s->project)
        x = conv_bn(n, gr_name(n->g, "%s.downsample.0", name),
                    gr_name(n->g, "%s.downsample.1", name), x,
                    (convolution){ n_out, 1, s->stride, 1 });
    x = relu(n, gr_map2_at(n->site, n->g, "add", y, x));
    gr_block_end_at(n->site, n->g);
    return x;
}

static const struct {
    int depth;
    bool bottleneck;
    int blocks[4];
} depths[] = {
    { 18, false, { 2, 2, 2, 2 } },  { 34, false, { 3, 4, 6, 3 } },  { 50, true, { 3, 4, 6, 3 } },
    { 101, true, { 3, 4, 23, 3 } }, { 152, true, { 3, 8, 36, 3 } },
};

static gr_value *stage_of(const net *n, int i, int n_blocks, gr_value *x)
{
    static const int64_t strides[4] = { 1, 2, 2, 2 };

    for (int k = 0; k < n_blocks; k++) {
        gr_shape in = gr_value_shape(x);
        stage s = { .width = (int64_t)64 << i, .stride = 1, .dilation = 1 };
        int64_t n_out = n->bottleneck ? s.width * 4 : s.width;

        if (k == 0)
            s.stride = n->c.stride[i] ? n->c.stride[i] : strides[i];
        if (n->c.dilation[i])
            s.dilation = n->c.dilation[i];
        if (i == 3 && n->c.last[0])
            s.dilation = n->c.last[k];
        s.project = k == 0 && (s.stride != 1 || in.dim[3] != n_out);
        x = block(n, gr_name(n->g, "%slayer%d.%d", n->name, i + 1, k), x, &s);
        if (!x)
            return NULL;
    }
    return x;
}

static gr_value *stem(const net *n, gr_value *x)
{
    gr_window pool = GR_WINDOW_INIT;

    x = relu(n, conv_bn(n, gr_name(n->g, "%sconv1", n->name), gr_name(n->g, "%sbn1", n->name), x,
                        (convolution){ 64, 7, 2, 1 }));
    pool.kernel[0] = pool.kernel[1] = 3;
    pool.stride[0] = pool.stride[1] = 2;
    pool.padding[0] = pool.padding[1] = 1;
    pool.ceil_mode = n->c.ceil_pool;
    return gr_max_pool2d_at(n->site, n->g, x, &pool);
}

gr_resnet gr_resnet_dilated(int depth)
{
    return (gr_resnet){ .depth = depth,
                        .stride = { 1, 2, 1, 1 },
                        .dilation = { 1, 1, 2, 4 },
                        .last = { 4, 8, 16 },
                        .stride_first = true,
                        .ceil_pool = true };
}

gr_value *gr_resnet_model_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                             const gr_resnet *config, gr_value **stages)
{
    static const gr_resnet none;
    net n = { .site = site, .g = g, .c = config ? *config : none };
    int row = -1;

    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
        if (depths[i].depth == n.c.depth)
            row = (int)i;
    if (row < 0) {
        gr_graph_fail(g, site, "a ResNet has 18, 34, 50, 101 or 152 layers, not %d", n.c.depth);
        return NULL;
    }
    n.name = name && name[0] ? gr_name(g, "%s.", name) : "";
    n.bottleneck = depths[row].bottleneck;
    x = stem(&n, x);
    for (int i = 0; i < 4 && x; i++) {
        x = stage_of(&n, i, depths[row].blocks[i], x);
        if (stages)
            stages[i] = x;
    }
    if (n.c.n_classes == 0 || !x)
        return x;
    x = gr_reduce_at(site, g, "mean", x, GR_AXIS(1) | GR_AXIS(2), false);
    return gr_linear_at(site, g, gr_name(g, "%sfc", n.name), x, n.c.n_classes, NULL);
}

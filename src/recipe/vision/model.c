/* Networks by name. What a name does not say is taken from model.config. */
#include "recipe/vision/vision.h"

#include "gradus/models.h"
#include "gradus/ops.h"
#include "gradus/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    gr_vision_net net;
    int depth;
} nets[] = {
    { "resnet18", GR_NET_RESNET, 18 },
    { "resnet34", GR_NET_RESNET, 34 },
    { "resnet50", GR_NET_RESNET, 50 },
    { "resnet101", GR_NET_RESNET, 101 },
    { "resnet152", GR_NET_RESNET, 152 },
    { "unet", GR_NET_UNET, 0 },
    { "mlp", GR_NET_MLP, 0 },
};

/* A family's name leaves the network to model.config.arch. */
static gr_status find_net(gr_vision_model *m, const gr_settings *s)
{
    const char *key = "model.name", *arch = gr_settings_text(s, "model.config.arch");
    char name[32];

    gr_vision_plain(gr_settings_text(s, key), name, sizeof(name));
    if (arch && (strcmp(name, "torchvision") == 0 || strcmp(name, "resnet") == 0)) {
        key = "model.config.arch";
        gr_vision_plain(arch, name, sizeof(name));
    } else if (arch) {
        char other[32];

        gr_vision_plain(arch, other, sizeof(other));
        if (strcmp(name, other) != 0)
            return gr_settings_fail(s, "model.config.arch", "'%s', but model.name is '%s'", arch,
                                    gr_settings_text(s, "model.name"));
    }
    for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++)
        if (strcmp(nets[i].name, name) == 0) {
            m->net = nets[i].net;
            m->depth = nets[i].depth;
            m->name = nets[i].name;
            return GR_OK;
        }
    return gr_settings_fail(s, key,
                            "there is no network '%s'; known: resnet18, resnet34, resnet50, "
                            "resnet101, resnet152, unet, mlp",
                            gr_settings_text(s, key));
}

/* All numbers of [1, 3, 224, 224] or [[1, 3, 224, 224]], one after the other. */
static gr_status flatten(const gr_tree *t, int64_t *out, int max, int *n)
{
    if (gr_tree_kind(t) != GR_TREE_LIST) {
        if (*n == max)
            return gr_tree_fail(t, "more than %d numbers", max);
        if (gr_tree_int(t, &out[(*n)++]) != GR_OK)
            return gr_tree_fail(t, "'model.config.input_sizes' takes whole numbers: [channels, "
                                   "height, width]");
        return GR_OK;
    }
    for (int i = 0; i < gr_tree_count(t); i++)
        GR_TRY(flatten(gr_tree_at(t, i), out, max, n));
    return GR_OK;
}

/* [batch, channels, height, width], or without the batch, or without both, or one side. */
static gr_status read_size(gr_vision_model *m, const gr_settings *s)
{
    const gr_tree *t = gr_settings_tree(s, "model.config.input_sizes");
    int64_t at[4], *size = at;
    int n = 0;

    if (!t)
        return GR_OK;
    GR_TRY(flatten(t, at, 4, &n));
    size += n == 4;
    n -= n == 4;
    if (n == 3)
        m->channels = *size++;
    m->height = n > 0 ? size[0] : 0;
    m->width = n > 1 ? size[1] : m->height;
    if (m->height < 1 || m->width < 1 || m->height > 1 << 14 || m->width > 1 << 14)
        return gr_settings_fail(s, "model.config.input_sizes",
                                "%" PRId64 " x %" PRId64
                                " pixels, of 1 to 16384 each; give [channels, height, width]",
                                m->height, m->width);
    return GR_OK;
}

gr_status gr_vision_model_read(gr_vision_model *m, const gr_settings *s)
{
    int64_t channels = gr_settings_int(s, "model.config.n_channels");

    *m = (gr_vision_model){ .n_out = (int)gr_settings_int(s, "model.config.num_classes"),
                            .dropout = gr_settings_f64(s, "model.config.dropout"),
                            .base = gr_settings_int(s, "model.config.base_channels"),
                            .bilinear = gr_settings_bool(s, "model.config.bilinear"),
                            .n_hidden = gr_settings_count(s, "model.config.hidden") };
    GR_TRY(find_net(m, s));
    GR_TRY(read_size(m, s));
    if (m->channels && channels && m->channels != channels)
        return gr_settings_fail(s, "model.config.n_channels",
                                "%" PRId64 ", but model.config.input_sizes says %" PRId64, channels,
                                m->channels);
    m->channels = channels ? channels : m->channels;
    if (m->channels != 0 && m->channels != 1 && m->channels != 3)
        return gr_settings_fail(s, "model.config.n_channels",
                                "images have 1 or 3 channels, not %" PRId64, m->channels);
    if (m->n_hidden > GR_VISION_MAX_HIDDEN)
        return gr_settings_fail(s, "model.config.hidden", "%d layers; at most %d", m->n_hidden,
                                GR_VISION_MAX_HIDDEN);
    for (int i = 0; i < m->n_hidden; i++)
        m->hidden[i] = gr_settings_int_at(s, "model.config.hidden", i);
    for (int i = 0; i < gr_settings_count(s, "model.config.dtypes"); i++)
        if (strcmp(gr_settings_text_at(s, "model.config.dtypes", i), "float32") != 0)
            return gr_settings_fail(s, "model.config.dtypes",
                                    "inputs are float32; precision is set by train.amp");
    return GR_OK;
}

static gr_value *build_mlp(const gr_vision_model *m, gr_graph *g, gr_value *x)
{
    x = gr_flatten(g, x, 1, 3);
    for (int i = 0; i < m->n_hidden; i++) {
        x = gr_relu(g, gr_linear(g, gr_name(g, "fc%d", i + 1), x, m->hidden[i]));
        if (m->dropout > 0)
            x = gr_dropout(g, x, m->dropout);
    }
    return gr_linear(g, gr_name(g, "fc%d", m->n_hidden + 1), x, m->n_out);
}

gr_value *gr_vision_model_build(const gr_vision_model *m, gr_graph *g, gr_value *x)
{
    gr_resnet resnet = { .depth = m->depth, .n_classes = m->n_out };
    gr_unet unet = { .n_classes = m->n_out, .base = m->base, .bilinear = m->bilinear };

    switch (m->net) {
    case GR_NET_RESNET: return gr_resnet_model(g, "", x, &resnet, NULL);
    case GR_NET_UNET: return gr_unet_model(g, "", x, &unet);
    case GR_NET_MLP: break;
    }
    return build_mlp(m, g, x);
}

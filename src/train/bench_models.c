/*
 * One model per kind of network that users train; bench/models_torch.py has the same in
 * PyTorch. Sizes are such that a step takes between a millisecond and two seconds.
 */
#include "train/bench_models.h"

#include "gradus/image.h"
#include "gradus/models.h"
#include "gradus/ops.h"

#include <string.h>

static gr_status trace_mlp(gr_graph *g, void *user)
{
    gr_value *x = gr_input(g, "x");

    (void)user;
    x = gr_relu(g, gr_linear(g, "fc1", x, 512));
    x = gr_relu(g, gr_linear(g, "fc2", x, 512));
    gr_loss(g, gr_cross_entropy(g, gr_linear(g, "fc3", x, 10), gr_input(g, "y")));
    return gr_graph_status(g);
}

static gr_status trace_resnet18(gr_graph *g, void *user)
{
    gr_resnet c = { .depth = 18, .n_classes = 10 };
    gr_value *x = gr_resnet_model(g, "", gr_input(g, "x"), &c, NULL);

    (void)user;
    gr_loss(g, gr_cross_entropy(g, x, gr_input(g, "y")));
    return gr_graph_status(g);
}

/* [.., c] against labels [..]. */
static gr_value *entropy(gr_graph *g, gr_value *logits, const char *labels)
{
    gr_shape s = gr_value_shape(logits);
    int64_t c = s.n_dims > 0 ? s.dim[s.n_dims - 1] : 1;

    return gr_cross_entropy(g, gr_reshape(g, logits, GR_SHAPE(-1, c)),
                            gr_reshape(g, gr_input(g, labels), GR_SHAPE(-1)));
}

static gr_status trace_dilated50(gr_graph *g, void *user)
{
    gr_resnet trunk = gr_resnet_dilated(50);
    gr_aspp head = { .planes = 21 };
    gr_value *x = gr_input(g, "x");
    gr_shape s = gr_value_shape(x);

    (void)user;
    x = gr_aspp_model(g, "aspp", gr_resnet_model(g, "backbone", x, &trunk, NULL), &head);
    x = gr_resize(g, x, s.dim[1], s.dim[2], GR_BILINEAR_CORNERS);
    gr_loss(g, entropy(g, x, "y"));
    return gr_graph_status(g);
}

#define WIDTH 384
#define VOCAB 1000

static gr_status trace_transformer(gr_graph *g, void *user)
{
    gr_transformer_opts o = { .heads = 6, .activation = GR_ACT_GELU, .norm_first = true };
    gr_value *ids = gr_input(g, "x"), *x = gr_embedding_layer(g, "embed", ids, VOCAB, WIDTH, NULL);

    (void)user;
    x = gr_add(g, x,
               gr_param(g, "pos", GR_SHAPE(gr_value_shape(ids).dim[1], WIDTH), gr_init_const(0)));
    for (int i = 0; i < 6; i++)
        x = gr_encoder_layer(g, gr_name(g, "layers.%d", i), x, &o);
    x = gr_linear(g, "head", gr_layer_norm_layer(g, "norm", x, 0), VOCAB);
    gr_loss(g, entropy(g, x, "y"));
    return gr_graph_status(g);
}

static gr_status trace_protein(gr_graph *g, void *user)
{
    gr_protein_input in = { .coords = gr_input(g, "coords"),
                            .mask = gr_input(g, "mask"),
                            .tokens = gr_input(g, "x") };
    gr_protein c = { 0 };
    gr_protein_output out = gr_protein_model(g, "", &in, &c);

    (void)user;
    gr_loss(g, gr_add(g, entropy(g, out.fragments, "y"), entropy(g, out.torsions, "torsion")));
    return gr_graph_status(g);
}

/* clang-format off */
#define REAL(name, scale, n, ...) { name, GR_F32, 0, scale, n, { __VA_ARGS__ } }
#define LABEL(name, k, n, ...) { name, GR_I32, k, 0, n, { __VA_ARGS__ } }
#define LABELS(name, k) { name, GR_I32, k, 0, 0, { 0 } }
#define MASK(name, n, ...) { name, GR_BOOL, 0, 0, n, { __VA_ARGS__ } }

const gr_bench_model gr_bench_models[] = {
    { "mlp", "MLP 784-512-512-10", 128, 10, trace_mlp,
      { REAL("x", 1, 1, 784), LABELS("y", 10) }, 2 },
    { "resnet18", "ResNet-18 on 64 x 64", 16, 1, trace_resnet18,
      { REAL("x", 1, 3, 64, 64, 3), LABELS("y", 10) }, 2 },
    { "dilated50", "dilated ResNet-50 with ASPP on 129 x 129", 4, 1, trace_dilated50,
      { REAL("x", 1, 3, 129, 129, 3), LABEL("y", 21, 2, 129, 129) }, 2 },
    { "transformer", "pre-norm transformer, 6 layers of 384, 256 tokens", 4, 1, trace_transformer,
      { LABEL("x", VOCAB, 1, 256), LABEL("y", VOCAB, 1, 256) }, 2 },
    { "protein", "protein encoder-decoder, 256 residues, 640 tokens", 4, 1, trace_protein,
      { REAL("coords", 8, 3, 256, 4, 3), MASK("mask", 1, 256), LABEL("x", 16, 1, 640),
        LABEL("y", 16, 1, 640), LABEL("torsion", 72, 1, 640) }, 5 },
    { 0 },
};
/* clang-format on */

const gr_bench_model *gr_bench_find(const char *name)
{
    for (const gr_bench_model *m = gr_bench_models; m->name; m++)
        if (strcmp(m->name, name) == 0)
            return m;
    return NULL;
}

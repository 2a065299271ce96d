/*
 * GPT-2 with the names and layouts of its published checkpoints: weights of linear layers
 * are stored [in, out] there, and the output uses the embedding's own table.
 */
#include "gradus/models.h"

#include "gradus/ops.h"
#include "gradus/random.h"
#include "nn/layer.h"

#include <math.h>

typedef struct net {
    const char *site;
    gr_graph *g;
    gr_gpt2 c;
    double out_std; /* of layers that write to the residual stream */
} net;

static gr_value *conv1d(const net *n, const char *name, gr_value *x, int64_t n_out, double std)
{
    gr_layer l = { n->site, n->g, name };
    int64_t k = gr_layer_channels(&l, "linear", x, 2);
    gr_value *w, *b;

    if (k < 1)
        return NULL;
    w = gr_layer_param(&l, "weight", GR_SHAPE(k, n_out), NULL, gr_init_normal(0, std));
    b = gr_layer_param(&l, "bias", GR_SHAPE(n_out), NULL, gr_init_const(0));
    return gr_map2_at(n->site, n->g, "add", gr_matmul_at(n->site, n->g, x, w, false, false), b);
}

static gr_value *add_dropped(const net *n, gr_value *x, gr_value *y)
{
    return gr_map2_at(n->site, n->g, "add", x, gr_dropout_at(n->site, n->g, y, n->c.dropout));
}

static gr_value *block(const net *n, const char *name, gr_value *x)
{
    gr_attention_opts attn = { .heads = n->c.heads, .causal = true, .dropout = n->c.dropout };
    int64_t d = n->c.width;
    gr_value *h;

    gr_block_begin_at(n->site, n->g, name);
    h = gr_layer_norm_layer_at(n->site, n->g, gr_name(n->g, "%s.ln_1", name), x, 0);
    h = conv1d(n, gr_name(n->g, "%s.attn.c_attn", name), h, 3 * d, 0.02);
    h = gr_attention_packed_at(n->site, n->g, h, &attn);
    h = conv1d(n, gr_name(n->g, "%s.attn.c_proj", name), h, d, n->out_std);
    x = add_dropped(n, x, h);
    h = gr_layer_norm_layer_at(n->site, n->g, gr_name(n->g, "%s.ln_2", name), x, 0);
    h = conv1d(n, gr_name(n->g, "%s.mlp.c_fc", name), h, 4 * d, 0.02);
    h = gr_map1_at(n->site, n->g, "gelu_tanh", h);
    h = conv1d(n, gr_name(n->g, "%s.mlp.c_proj", name), h, d, n->out_std);
    x = add_dropped(n, x, h);
    gr_block_end_at(n->site, n->g);
    return x;
}

/* Layers that write to the residual stream start smaller, the more of them there are. */
static double out_std(int64_t depth)
{
    return 0.02 / sqrt(2.0 * (double)depth);
}

gr_value *gr_gpt2_block_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                           const gr_gpt2_block_opts *opts)
{
    gr_layer l = { site, g, name };
    gr_gpt2_block_opts o = opts ? *opts : (gr_gpt2_block_opts){ 0 };
    net n = { .site = site, .g = g, .c = { .heads = o.heads, .dropout = o.dropout } };

    n.c.width = gr_layer_tokens(&l, "GPT-2 block", x, o.heads);
    n.out_std = out_std(o.depth > 0 ? o.depth : 12);
    return n.c.width > 0 ? block(&n, name, x) : NULL;
}

static int64_t or_usual(int64_t x, int64_t usual)
{
    return x ? x : usual;
}

gr_value *gr_gpt2_model_at(const char *site, gr_graph *g, const char *name, gr_value *ids,
                           const gr_gpt2 *config)
{
    net n = { .site = site, .g = g, .c = config ? *config : (gr_gpt2){ 0 } };
    const char *prefix = name && name[0] ? gr_name(g, "%s.", name) : "";
    gr_shape in = gr_value_shape(ids);
    gr_layer wte = { site, g, gr_name(g, "%swte", prefix) };
    gr_layer wpe = { site, g, gr_name(g, "%swpe", prefix) };
    gr_value *table, *places, *x;
    char text[GR_SHAPE_TEXT];

    n.c.vocab = or_usual(n.c.vocab, 50257);
    n.c.length = or_usual(n.c.length, 1024);
    n.c.width = or_usual(n.c.width, 768);
    n.c.depth = or_usual(n.c.depth, 12);
    n.c.heads = or_usual(n.c.heads, 12);
    n.out_std = out_std(n.c.depth);
    if (in.n_dims != 2 || in.dim[1] > n.c.length || n.c.vocab < 1 || n.c.width < 1 ||
        n.c.depth < 1 || n.c.heads < 1 || n.c.width % n.c.heads != 0) {
        gr_graph_fail(g, site,
                      "GPT-2 '%s': ids %s, %lld heads, width %lld; expected ids [b, n] with n at "
                      "most %lld, and heads that divide the width",
                      name, gr_shape_text(&in, text, sizeof(text)), (long long)n.c.heads,
                      (long long)n.c.width, (long long)n.c.length);
        return NULL;
    }
    table = gr_layer_param(&wte, "weight", GR_SHAPE(n.c.vocab, n.c.width), NULL,
                           gr_init_normal(0, 0.02));
    places = gr_layer_param(&wpe, "weight", GR_SHAPE(n.c.length, n.c.width), NULL,
                            gr_init_normal(0, 0.01));
    x = gr_map2_at(site, g, "add", gr_gather_at(site, g, table, ids),
                   gr_slice_axis_at(site, g, places, 0, 0, in.dim[1]));
    x = gr_dropout_at(site, g, x, n.c.dropout);
    for (int64_t i = 0; i < n.c.depth && x; i++)
        x = block(&n, gr_name(g, "%sh.%lld", prefix, (long long)i), x);
    x = gr_layer_norm_layer_at(site, g, gr_name(g, "%sln_f", prefix), x, 0);
    return gr_matmul_at(site, g, x, table, false, true);
}

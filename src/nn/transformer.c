/*
 * Multi-head attention and the two standard transformer layers, as torch.nn has them with
 * batch_first: same names, same order of parameters, same places of norm and dropout.
 */
#include "nn/layer.h"

#include "gradus/ops.h"
#include "gradus/random.h"

#include <inttypes.h>
#include <math.h>

typedef struct attend {
    bool xavier; /* out_proj starts so; else as PyTorch's */
    gr_attention_opts o;
} attend;

/* x W^T + b. */
static gr_value *project(const gr_layer *l, gr_value *x, gr_value *w, gr_value *b)
{
    return gr_map2_at(l->site, l->g, "add", gr_matmul_at(l->site, l->g, x, w, false, true), b);
}

/* The packed projection's first d rows are for queries, the others for keys and values. */
static gr_value *attend_memory(const gr_layer *l, gr_value *x, gr_value *memory,
                               gr_value *const packed[2], const gr_attention_opts *o)
{
    gr_shape shape = gr_value_shape(x);
    int64_t d = shape.dim[shape.n_dims - 1], kv = d / o->heads * o->kv_heads;
    int64_t sizes[2] = { d, 2 * kv };
    gr_value *w[2] = { NULL }, *b[2] = { NULL };

    gr_split_at(l->site, l->g, packed[0], 0, 2, sizes, w);
    gr_split_at(l->site, l->g, packed[1], 0, 2, sizes, b);
    return gr_attention_cross_at(l->site, l->g, project(l, x, w[0], b[0]),
                                 project(l, memory, w[1], b[1]), o);
}

static bool is_memory(const gr_layer *l, const gr_value *memory, gr_shape x)
{
    gr_shape m = gr_value_shape(memory);
    char text[2][GR_SHAPE_TEXT];

    if (!memory || (m.n_dims == 3 && x.n_dims == 3 && m.dim[0] == x.dim[0] && m.dim[2] == x.dim[2]))
        return true;
    gr_graph_fail(l->g, l->site, "attention '%s': memory %s for an input %s, expected [b, nk, d]",
                  l->name, gr_shape_text(&m, text[0], sizeof(text[0])),
                  gr_shape_text(&x, text[1], sizeof(text[1])));
    return false;
}

/* torch.nn.MultiheadAttention draws out_proj first, its bias among it, which is then set to 0,
 * and the packed projection after that. */
static void draw_as_torch(const gr_layer *l, gr_value *packed, const char *proj, int64_t d)
{
    const char *name = gr_name(l->g, "%s.weight", proj);

    if (!packed || !name)
        return;
    packed->var->drawn_after = gr_vars_find(l->g->vars, name);
    packed->var->n_burnt = d;
}

static bool are_heads(const gr_layer *l, int64_t d, const gr_attention_opts *o)
{
    if (o->heads < 1 || d % o->heads != 0)
        gr_graph_fail(l->g, l->site,
                      "attention '%s': %" PRId64 " heads do not divide width %" PRId64, l->name,
                      o->heads, d);
    else if (o->kv_heads < 1 || o->heads % o->kv_heads != 0)
        gr_graph_fail(l->g, l->site,
                      "attention '%s': %" PRId64 " key heads do not divide %" PRId64 " heads",
                      l->name, o->kv_heads, o->heads);
    else
        return true;
    return false;
}

static gr_value *multihead(const gr_layer *l, gr_value *x, gr_value *memory, const attend *a)
{
    int64_t d = gr_layer_channels(l, "attention", x, 3), n_rows;
    gr_init zero = gr_init_const(0);
    gr_layer_opts out = { .bias = &zero };
    gr_layer proj = gr_layer_inside(l, "out_proj");
    gr_attention_opts o = a->o;
    gr_value *packed[2], *y;
    double bound;

    o.kv_heads = o.kv_heads ? o.kv_heads : o.heads;
    if (d < 1 || !are_heads(l, d, &o) || !is_memory(l, memory, gr_value_shape(x)))
        return NULL;
    n_rows = d / o.heads * (o.heads + 2 * o.kv_heads);
    bound = sqrt(6.0 / (double)(n_rows + d));
    packed[0] = gr_layer_param(l, "in_proj_weight", GR_SHAPE(n_rows, d), NULL,
                               gr_init_uniform(-bound, bound));
    packed[1] = gr_layer_param(l, "in_proj_bias", GR_SHAPE(n_rows), NULL, zero);
    if (memory)
        y = attend_memory(l, x, memory, packed, &o);
    else
        y = gr_attention_packed_at(l->site, l->g, project(l, x, packed[0], packed[1]), &o);
    if (a->xavier)
        return gr_layer_xavier_linear(&proj, y, d);
    y = gr_linear_at(l->site, l->g, proj.name, y, d, &out);
    draw_as_torch(l, packed[0], proj.name, d);
    return y;
}

gr_value *gr_multihead_attention_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                                    gr_value *memory, const gr_attention_opts *attention)
{
    gr_layer l = { site, g, name };
    attend a = { .o = attention ? *attention : (gr_attention_opts){ 0 } };

    return multihead(&l, x, memory, &a);
}

/* ---- layers ---- */

typedef struct part {
    const gr_layer *l;
    const gr_transformer_opts *o;
    gr_value *memory;
} part;

static gr_value *self_attention(const part *p, gr_value *x)
{
    attend a = { p->o->xavier,
                 { .heads = p->o->heads,
                   .causal = p->o->causal,
                   .dropout = p->o->dropout,
                   .key_mask = p->o->key_mask,
                   .bias = p->o->bias } };
    gr_layer l = gr_layer_inside(p->l, "self_attn");

    return multihead(&l, x, NULL, &a);
}

static gr_value *cross_attention(const part *p, gr_value *x)
{
    attend a = {
        p->o->xavier,
        { .heads = p->o->heads, .dropout = p->o->dropout, .key_mask = p->o->memory_mask }
    };
    gr_layer l = gr_layer_inside(p->l, "multihead_attn");

    return multihead(&l, x, p->memory, &a);
}

static const char *const activations[] = { [GR_ACT_RELU] = "relu",
                                           [GR_ACT_GELU] = "gelu",
                                           [GR_ACT_GELU_TANH] = "gelu_tanh",
                                           [GR_ACT_SILU] = "silu" };

static gr_value *linear(const part *p, const char *name, gr_value *x, int64_t n_out)
{
    gr_layer l = gr_layer_inside(p->l, name);

    return p->o->xavier ? gr_layer_xavier_linear(&l, x, n_out)
                        : gr_linear_at(l.site, l.g, l.name, x, n_out, NULL);
}

static gr_value *feed_forward(const part *p, gr_value *x)
{
    const gr_layer *l = p->l;
    gr_shape shape = gr_value_shape(x);
    int64_t d = shape.n_dims > 0 ? shape.dim[shape.n_dims - 1] : 0;
    int64_t hidden = p->o->hidden ? p->o->hidden : 4 * d;
    gr_value *h = linear(p, "linear1", x, hidden);

    h = gr_map1_at(l->site, l->g, activations[p->o->activation], h);
    h = gr_dropout_at(l->site, l->g, h, p->o->dropout);
    return linear(p, "linear2", h, d);
}

typedef gr_value *part_fn(const part *p, gr_value *x);

/* x + part(norm(x)), or norm(x + part(x)). */
static gr_value *residual(const part *p, gr_value *x, part_fn *fn, const char *norm_name)
{
    const gr_layer *l = p->l;
    const char *norm = gr_layer_inside(l, norm_name).name;
    gr_value *y = p->o->norm_first ? gr_layer_norm_layer_at(l->site, l->g, norm, x, 0) : x;

    y = gr_dropout_at(l->site, l->g, fn(p, y), p->o->dropout);
    y = gr_map2_at(l->site, l->g, "add", x, y);
    return p->o->norm_first ? y : gr_layer_norm_layer_at(l->site, l->g, norm, y, 0);
}

static bool are_usable(const gr_layer *l, const char *kind, const gr_transformer_opts *o)
{
    if (!gr_layer_has_name(l, kind))
        return false;
    if (!o)
        gr_graph_fail(l->g, l->site, "%s '%s': the options are NULL, and heads are needed", kind,
                      l->name);
    else if ((unsigned)o->activation > GR_ACT_SILU)
        gr_graph_fail(l->g, l->site, "%s '%s': unknown activation %d", kind, l->name,
                      (int)o->activation);
    return l->g->status == GR_OK;
}

gr_value *gr_encoder_layer_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                              const gr_transformer_opts *opts)
{
    gr_layer l = { site, g, name };
    part p = { .l = &l, .o = opts };

    if (!are_usable(&l, "encoder layer", opts))
        return NULL;
    gr_block_begin_at(site, g, name);
    x = residual(&p, x, self_attention, "norm1");
    x = residual(&p, x, feed_forward, "norm2");
    gr_block_end_at(site, g);
    return x;
}

gr_value *gr_decoder_layer_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                              gr_value *memory, const gr_transformer_opts *opts)
{
    gr_layer l = { site, g, name };
    part p = { .l = &l, .o = opts, .memory = memory };

    if (!are_usable(&l, "decoder layer", opts))
        return NULL;
    if (!memory) {
        gr_graph_fail(g, site, "decoder layer '%s': the memory is NULL", name);
        return NULL;
    }
    gr_block_begin_at(site, g, name);
    x = residual(&p, x, self_attention, "norm1");
    x = residual(&p, x, cross_attention, "norm2");
    x = residual(&p, x, feed_forward, "norm3");
    gr_block_end_at(site, g);
    return x;
}

/*
 * The pre-norm block of vision transformers as timm has it (names, places of dropout, starts), with
 * what later ones added: a learned factor per channel, norms of queries and keys, rotary places.
 */
#include "gradus/models.h"

#include "gradus/ops.h"
#include "gradus/random.h"
#include "nn/layer.h"

#define STD 0.02
#define CUT 2.0 /* of truncated normals, as a number: 100 deviations */

typedef struct vit {
    gr_layer l;
    gr_vit_block_opts o;
    int64_t d;
} vit;

static gr_value *linear(const vit *v, const char *name, gr_value *x, int64_t n_out, bool no_bias)
{
    gr_init start = gr_init_trunc_normal(0, STD, -CUT, CUT), zero = gr_init_const(0);
    gr_layer_opts o = { .no_bias = no_bias, .weight = &start, .bias = &zero };
    gr_layer l = gr_layer_inside(&v->l, name);

    return gr_linear_at(l.site, l.g, l.name, x, n_out, &o);
}

static gr_value *norm(const vit *v, const char *name, gr_value *x)
{
    gr_layer l = gr_layer_inside(&v->l, name);

    return gr_layer_norm_layer_at(l.site, l.g, l.name, x, v->o.eps > 0 ? v->o.eps : 1e-6);
}

/* Queries or keys [b, n, heads, d / heads]. */
static gr_value *prepare(const vit *v, const char *name, gr_value *x)
{
    if (v->o.qk_norm)
        x = norm(v, name, x);
    return v->o.rotary ? gr_rotary_at(v->l.site, v->l.g, x, v->o.positions, v->o.rotary) : x;
}

static gr_value *attend(const vit *v, gr_value *x)
{
    gr_attention_opts o = { .heads = v->o.heads,
                            .dropout = v->o.attention_dropout,
                            .key_mask = v->o.key_mask };
    int64_t h = v->o.heads, sizes[3] = { h, h, h };
    const gr_layer *l = &v->l;
    gr_shape shape = gr_value_shape(x);
    gr_value *part[3] = { NULL };

    x = linear(v, "attn.qkv", x, 3 * v->d, v->o.no_qkv_bias);
    if (!v->o.qk_norm && !v->o.rotary)
        return gr_attention_packed_at(l->site, l->g, x, &o);
    x = gr_reshape_at(l->site, l->g, x, GR_SHAPE(shape.dim[0], shape.dim[1], 3 * h, v->d / h));
    gr_split_at(l->site, l->g, x, 2, 3, sizes, part);
    part[0] = prepare(v, "attn.q_norm", part[0]);
    part[1] = prepare(v, "attn.k_norm", part[1]);
    x = gr_attention_at(l->site, l->g, part[0], part[1], part[2], &o);
    return gr_reshape_at(l->site, l->g, x, shape);
}

static gr_value *feed_forward(const vit *v, gr_value *x)
{
    x = linear(v, "mlp.fc1", x, v->o.hidden ? v->o.hidden : 4 * v->d, false);
    x = gr_map1_at(v->l.site, v->l.g, "gelu", x);
    x = gr_dropout_at(v->l.site, v->l.g, x, v->o.dropout);
    return linear(v, "mlp.fc2", x, v->d, false);
}

/* x + the part's result, which may be dropped and has a factor per channel of its own. */
static gr_value *add(const vit *v, gr_value *x, gr_value *y, const char *scale)
{
    const gr_layer *l = &v->l;
    gr_layer inner = gr_layer_inside(l, scale);

    y = gr_dropout_at(l->site, l->g, y, v->o.dropout);
    if (v->o.layer_scale != 0)
        y = gr_map2_at(
            l->site, l->g, "mul", y,
            gr_layer_param(&inner, "gamma", GR_SHAPE(v->d), NULL, gr_init_const(v->o.layer_scale)));
    if (v->o.drop_path != 0)
        y = gr_drop_path_at(l->site, l->g, y, v->o.drop_path);
    return gr_map2_at(l->site, l->g, "add", x, y);
}

gr_value *gr_vit_block_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                          const gr_vit_block_opts *opts)
{
    vit v = { .l = { site, g, name }, .o = opts ? *opts : (gr_vit_block_opts){ 0 } };

    v.d = gr_layer_tokens(&v.l, "ViT block", x, v.o.heads);
    if (v.d < 1)
        return NULL;
    gr_block_begin_at(site, g, name);
    x = add(&v, x, linear(&v, "attn.proj", attend(&v, norm(&v, "norm1", x)), v.d, false), "ls1");
    x = add(&v, x, feed_forward(&v, norm(&v, "norm2", x)), "ls2");
    gr_block_end_at(site, g);
    return x;
}

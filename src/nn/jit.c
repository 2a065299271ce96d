/*
 * JiT ("just image transformer"): patches of pixels as tokens, learned places by row and
 * column, and blocks whose one adaptive norm is told the step of the diffusion. Condition
 * tokens come first; without a condition they are left out: nobody could see their keys.
 */
#include "gradus/models.h"

#include "gradus/index.h"
#include "gradus/norm.h"
#include "gradus/ops.h"
#include "nn/layer.h"

#include <inttypes.h>

#define NORM_EPS 1e-6
#define STD      0.02
#define CUT      2.0 /* of truncated normals, as a number: 100 deviations */
#define SLOTS    16  /* rows and columns of places for a condition, whatever the image */

typedef struct net {
    const char *site;
    gr_graph *g;
    const char *prefix;
    gr_jit c;
    gr_value *when; /* silu of the step's sinusoids, [n, width] */
    gr_value *mask; /* of the keys */
} net;

static gr_init weight_start(void)
{
    return gr_init_trunc_normal(0, STD, -CUT, CUT);
}

static gr_value *linear(const net *n, const char *name, gr_value *x, int64_t n_out, bool no_bias)
{
    gr_init start = weight_start(), zero = gr_init_const(0);
    gr_layer_opts o = { .no_bias = no_bias, .weight = &start, .bias = &zero };

    return gr_linear_at(n->site, n->g, name, x, n_out, &o);
}

/* norm(x) clamp(1 + s(t), 0.1, 10) + h(t), the same for every token. The layers of s and h
 * are those of the block: both of its parts use them. */
typedef struct adapt {
    gr_value *weight, *scale, *shift;
} adapt;

static adapt make_adapt(const net *n, const char *block)
{
    gr_layer l = { n->site, n->g, gr_name(n->g, "%s.adaLN.norm", block) };
    gr_shape shape = gr_value_shape(n->when);
    gr_shape token = GR_SHAPE(shape.dim[0], 1, n->c.width);
    adapt a;

    a.weight = gr_layer_param(&l, "weight", GR_SHAPE(n->c.width), NULL, gr_init_const(1));
    a.scale = linear(n, gr_name(n->g, "%s.adaLN.scale_mlp.1", block), n->when, n->c.width, false);
    a.scale = gr_clamp_at(n->site, n->g, gr_mapk_at(n->site, n->g, "add", a.scale, 1), 0.1, 10);
    a.shift = linear(n, gr_name(n->g, "%s.adaLN.shift_mlp.1", block), n->when, n->c.width, false);
    a.scale = gr_reshape_at(n->site, n->g, a.scale, token);
    a.shift = gr_reshape_at(n->site, n->g, a.shift, token);
    return a;
}

static gr_value *apply(const net *n, const adapt *a, gr_value *x)
{
    x = gr_rms_norm_at(n->site, n->g, x, a->weight, NORM_EPS, true);
    return gr_scale_shift_at(n->site, n->g, x, a->scale, a->shift);
}

static gr_value *block(const net *n, const char *name, gr_value *x)
{
    gr_attention_opts attn = { .heads = n->c.heads, .key_mask = n->mask };
    gr_value *h;
    adapt a;

    gr_block_begin_at(n->site, n->g, name);
    a = make_adapt(n, name);
    h = apply(n, &a, x);
    h = linear(n, gr_name(n->g, "%s.attn.qkv", name), h, 3 * n->c.width, true);
    h = gr_attention_packed_at(n->site, n->g, h, &attn);
    h = linear(n, gr_name(n->g, "%s.attn.proj", name), h, n->c.width, false);
    x = gr_map2_at(n->site, n->g, "add", x, h);
    h = linear(n, gr_name(n->g, "%s.mlp.0", name), apply(n, &a, x), 2 * n->c.hidden, false);
    h = gr_swiglu_at(n->site, n->g, h);
    h = linear(n, gr_name(n->g, "%s.mlp.3", name), h, n->c.width, false);
    x = gr_map2_at(n->site, n->g, "add", x, h);
    gr_block_end_at(n->site, n->g);
    return x;
}

gr_value *gr_jit_block_at(const char *site, gr_graph *g, const char *name, gr_value *x,
                          gr_value *time, const gr_jit_block_opts *opts)
{
    gr_layer l = { site, g, name };
    gr_jit_block_opts o = opts ? *opts : (gr_jit_block_opts){ 0 };
    net n = { .site = site, .g = g, .c = { .heads = o.heads }, .mask = o.key_mask };
    int64_t d = gr_layer_tokens(&l, "JiT block", x, o.heads);
    gr_shape t = gr_value_shape(time);
    char text[GR_SHAPE_TEXT];

    if (d < 1)
        return NULL;
    if (!time || t.n_dims != 2 || t.dim[0] != gr_value_shape(x).dim[0] || t.dim[1] != d) {
        gr_graph_fail(g, site, "JiT block '%s': time %s, expected [%" PRId64 ", %" PRId64 "]", name,
                      time ? gr_shape_text(&t, text, sizeof(text)) : "NULL",
                      gr_value_shape(x).dim[0], d);
        return NULL;
    }
    n.c.width = d;
    n.c.hidden = o.hidden ? o.hidden : 4 * d;
    n.when = gr_map1_at(site, g, "silu", time);
    return block(&n, name, x);
}

/* The two ways in, by their names. Both have tables of places for `side` rows and columns. */
typedef struct entry {
    const char *embed, *rows, *columns;
    int64_t side;
} entry;

static gr_value *table(const net *n, const char *name, int64_t side)
{
    return gr_param_at(n->site, n->g, gr_name(n->g, "%s%s", n->prefix, name),
                       GR_SHAPE(1, side, n->c.width), gr_init_normal(0, STD));
}

/* One vector per place, row by row: learned for its row, plus learned for its column. */
static gr_value *places(const net *n, const entry *e)
{
    int64_t d = n->c.width;
    gr_value *row = table(n, e->rows, e->side), *col = table(n, e->columns, e->side);

    row = gr_reshape_at(n->site, n->g, row, GR_SHAPE(e->side, 1, d));
    col = gr_reshape_at(n->site, n->g, col, GR_SHAPE(1, e->side, d));
    return gr_reshape_at(n->site, n->g, gr_map2_at(n->site, n->g, "add", row, col),
                         GR_SHAPE(1, e->side * e->side, d));
}

/* Patch i has place i. Without an image, the parameters alone: checkpoints are whole either way. */
static gr_value *embed(const net *n, const entry *e, gr_value *image)
{
    const char *name = gr_name(n->g, "%s%s", n->prefix, e->embed);
    int64_t k = 3 * n->c.patch * n->c.patch, side = n->c.size / n->c.patch;
    gr_layer l = { n->site, n->g, name };
    gr_value *pos, *x;

    if (!image) {
        gr_layer_param(&l, "weight", GR_SHAPE(n->c.width, k), NULL, weight_start());
        places(n, e);
        return NULL;
    }
    x = linear(n, name, gr_patchify_at(n->site, n->g, image, n->c.patch, GR_PATCH_CHW), n->c.width,
               true);
    pos = places(n, e);
    if (side != e->side)
        pos = gr_slice_axis_at(n->site, n->g, pos, 1, 0, side * side);
    return gr_map2_at(n->site, n->g, "add", x, pos);
}

static bool is_image(const net *n, const gr_value *x)
{
    gr_shape s = gr_value_shape(x);

    return s.n_dims == 4 && s.dim[1] == n->c.size && s.dim[2] == n->c.size && s.dim[3] == 3;
}

static bool is_shape(const gr_value *x, int n_dims, int64_t d0, int64_t d1)
{
    gr_shape s = gr_value_shape(x);

    return x && s.n_dims == n_dims && s.dim[0] == d0 && (n_dims < 2 || s.dim[1] == d1);
}

static bool fits(const net *n, const gr_jit_input *in)
{
    int64_t side = n->c.size / n->c.patch, b = gr_value_shape(in->x).dim[0];
    gr_shape x = gr_value_shape(in->x);
    char text[GR_SHAPE_TEXT];

    if (n->c.size % n->c.patch != 0 || n->c.width % n->c.heads != 0 || n->c.width % 2 != 0)
        gr_graph_fail(n->g, n->site,
                      "JiT: patches of %" PRId64 " must divide images of %" PRId64 ", %" PRId64
                      " heads and 2 the width %" PRId64,
                      n->c.patch, n->c.size, n->c.heads, n->c.width);
    else if (!in->x || !is_image(n, in->x))
        gr_graph_fail(n->g, n->site,
                      "JiT: input %s, expected NHWC [n, %" PRId64 ", %" PRId64 ", 3]",
                      in->x ? gr_shape_text(&x, text, sizeof(text)) : "NULL", n->c.size, n->c.size);
    else if (!is_shape(in->step, 1, b, 0) || !is_shape(in->mask, 2, b, side * side))
        gr_graph_fail(n->g, n->site,
                      "JiT: needs the step [%" PRId64 "] and the mask of patches [%" PRId64
                      ", %" PRId64 "]",
                      b, b, side * side);
    else if (!in->condition != !in->condition_mask ||
             (in->condition &&
              (!is_image(n, in->condition) || !is_shape(in->condition_mask, 2, b, side * side))))
        gr_graph_fail(n->g, n->site, "JiT: a condition is an image of the same size and its mask");
    else if (in->condition && side > SLOTS)
        gr_graph_fail(n->g, n->site,
                      "JiT: a condition of %" PRId64
                      " patches, and there are places for %d; larger "
                      "patches make fewer",
                      side * side, SLOTS * SLOTS);
    else
        return gr_graph_status(n->g) == GR_OK;
    return false;
}

static void fill_usual(gr_jit *c)
{
    c->width = c->width ? c->width : 768;
    c->depth = c->depth ? c->depth : 12;
    c->heads = c->heads ? c->heads : 12;
    c->hidden = c->hidden ? c->hidden : 4 * c->width;
    c->size = c->size ? c->size : 64;
    c->patch = c->patch ? c->patch : 4;
}

/* Tokens in, and the mask of their keys into n->mask. */
static gr_value *tokens(net *n, const gr_jit_input *in)
{
    static const entry slots = { "condition_embed", "cond_pos_embed_h", "cond_pos_embed_w", SLOTS };
    const entry grid = { "patch_embed", "pos_embed_h", "pos_embed_w", n->c.size / n->c.patch };
    gr_value *target = embed(n, &grid, in->x), *condition = embed(n, &slots, in->condition);

    n->mask = in->mask;
    if (!in->condition)
        return target;
    n->mask = gr_concat_at(n->site, n->g, (gr_value *[]){ in->condition_mask, in->mask }, 2, 1);
    return gr_concat_at(n->site, n->g, (gr_value *[]){ condition, target }, 2, 1);
}

gr_value *gr_jit_model_at(const char *site, gr_graph *g, const char *name, const gr_jit_input *in,
                          const gr_jit *config)
{
    net n = { .site = site, .g = g, .c = config ? *config : (gr_jit){ 0 } };
    gr_value *x, *mask;
    int64_t n_patches;

    if (!in) {
        gr_graph_fail(g, site, "JiT: its inputs are NULL");
        return NULL;
    }
    fill_usual(&n.c);
    if (!fits(&n, in))
        return NULL;
    n_patches = n.c.size / n.c.patch * (n.c.size / n.c.patch);
    n.prefix = name && name[0] ? gr_name(g, "%s.", name) : "";
    n.when = gr_map1_at(site, g, "silu", gr_time_waves_at(site, g, in->step, n.c.width, 10000));
    x = tokens(&n, in);
    for (int64_t i = 0; i < n.c.depth && x; i++)
        x = block(&n, gr_name(g, "%sblocks.%lld", n.prefix, (long long)i), x);
    if (in->condition)
        x = gr_slice_axis_at(site, g, x, 1, n_patches, 2 * n_patches);
    x = linear(&n, gr_name(g, "%soutput_proj", n.prefix), x, 3 * n.c.patch * n.c.patch, false);
    mask = gr_cast_at(site, g, in->mask, gr_value_dtype(x));
    x = gr_map2_at(site, g, "mul", x, gr_unsqueeze_at(site, g, mask, 2));
    return gr_unpatchify_at(site, g, x, gr_value_shape(in->x), GR_PATCH_CHW);
}

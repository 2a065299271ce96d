/* Attention: the public builders. Three dimensions become four by a view, and back. */
#include "gradus/attention.h"
#include "gradus/ops.h"
#include "op/attention/attention.h"
#include "op/map/program.h"
#include "op/random/draw.h"

#include <math.h>

#define LEAST_NORM 1e-12 /* its third power, in the gradient, is a number of f32 yet */

/* What a builder hands to build(): the values as they came, and how they are packed. */
typedef struct request {
    const char *site;
    gr_graph *g;
    gr_attention_packing packing;
    gr_value *q, *k, *v;
    gr_attention_opts o;
} request;

static gr_attention_opts opts_of(const gr_attention_opts *opts)
{
    return opts ? *opts : (gr_attention_opts){ 0 };
}

/* [b, n, heads * d] as [b, n, heads, d]; what has four dimensions stays. */
static gr_value *cut_heads(const request *r, gr_value *v, int64_t heads)
{
    gr_shape s = gr_value_shape(v);

    if (!v || s.n_dims != 3)
        return v;
    if (heads < 1 || s.dim[2] % heads != 0) {
        gr_graph_fail(r->g, r->site,
                      "attention: %lld numbers per token cannot be cut into %lld heads; set "
                      "opts.heads and opts.kv_heads",
                      (long long)s.dim[2], (long long)heads);
        return NULL;
    }
    return gr_reshape_at(r->site, r->g, v, GR_SHAPE(s.dim[0], s.dim[1], heads, s.dim[2] / heads));
}

/* Heads that were not named follow from the shapes. */
static bool set_heads(request *r)
{
    gr_shape q = gr_value_shape(r->q), k = gr_value_shape(r->k);

    if (r->o.heads == 0 && r->packing != GR_ATTENTION_QKV && q.n_dims == 4)
        r->o.heads = q.dim[2];
    if (r->o.kv_heads == 0 && r->packing != GR_ATTENTION_QKV && k.n_dims == 4)
        r->o.kv_heads = r->packing == GR_ATTENTION_KV ? k.dim[2] / 2 : k.dim[2];
    if (r->o.kv_heads == 0)
        r->o.kv_heads = r->o.heads;
    if (r->o.heads >= 0 && r->o.kv_heads >= 0 && r->o.heads <= INT32_MAX &&
        r->o.kv_heads <= INT32_MAX)
        return true;
    gr_graph_fail(r->g, r->site, "attention: %lld heads of queries and %lld of keys",
                  (long long)r->o.heads, (long long)r->o.kv_heads);
    return false;
}

static void set_windows(const request *r, gr_attention_attr *at)
{
    at->packing = r->packing;
    if (r->packing == GR_ATTENTION_QKV)
        at->first_k = at->heads;
    if (r->packing != GR_ATTENTION_SEPARATE)
        at->first_v = at->first_k + at->kv_heads;
}

static gr_value *add(request *r, gr_value *const src[3])
{
    gr_value *all[5] = { src[0], src[1], src[2] };
    gr_attention_attr at = { .heads = r->o.heads,
                             .kv_heads = r->o.kv_heads,
                             .scale = r->o.scale,
                             .dropout = gr_is_training(r->g) ? r->o.dropout : 0,
                             .causal = r->o.causal,
                             .has_mask = r->o.key_mask != NULL,
                             .has_bias = r->o.bias != NULL,
                             .dtype = gr_value_dtype(src[0]) };
    int n = 3;

    set_windows(r, &at);
    if (at.dropout > 0 && src[0]) {
        at.stream = r->g->next_id;
        at.n_samples = gr_draw_samples(&src[0]->shape, gr_draw_batch(r->g));
    }
    if (at.scale == 0 && src[0] && src[0]->shape.n_dims == 4 && src[0]->shape.dim[3] > 0)
        at.scale = 1 / sqrt((double)src[0]->shape.dim[3]);
    if (at.has_mask)
        all[n++] = r->o.key_mask;
    if (at.has_bias)
        all[n++] = r->o.bias;
    return gr_graph_add_value(r->g, &(gr_build){ .op = &gr_op_attention,
                                                 .site = r->site,
                                                 .src = all,
                                                 .n_src = n,
                                                 .attr = &at,
                                                 .attr_bytes = sizeof(at) });
}

static gr_value *build(request *r)
{
    const bool flat = gr_value_shape(r->q).n_dims == 3;
    gr_value *src[3], *y;
    gr_shape s;

    if (!set_heads(r))
        return NULL;
    if (r->packing == GR_ATTENTION_QKV) {
        src[0] = src[1] = src[2] = cut_heads(r, r->q, r->o.heads + 2 * r->o.kv_heads);
    } else {
        src[0] = cut_heads(r, r->q, r->o.heads);
        src[1] = cut_heads(r, r->k, r->o.kv_heads * (r->packing == GR_ATTENTION_KV ? 2 : 1));
        src[2] = r->packing == GR_ATTENTION_KV ? src[1] : cut_heads(r, r->v, r->o.kv_heads);
    }
    y = add(r, src);
    if (!y || !flat)
        return y;
    s = y->shape;
    return gr_reshape_at(r->site, r->g, y, GR_SHAPE(s.dim[0], s.dim[1], s.dim[2] * s.dim[3]));
}

gr_value *gr_attention_at(const char *site, gr_graph *g, gr_value *q, gr_value *k, gr_value *v,
                          const gr_attention_opts *opts)
{
    request r = { site, g, GR_ATTENTION_SEPARATE, q, k, v, opts_of(opts) };

    return build(&r);
}

gr_value *gr_attention_packed_at(const char *site, gr_graph *g, gr_value *qkv,
                                 const gr_attention_opts *opts)
{
    request r = { site, g, GR_ATTENTION_QKV, qkv, NULL, NULL, opts_of(opts) };

    return build(&r);
}

gr_value *gr_attention_cross_at(const char *site, gr_graph *g, gr_value *q, gr_value *kv,
                                const gr_attention_opts *opts)
{
    request r = { site, g, GR_ATTENTION_KV, q, kv, NULL, opts_of(opts) };

    return build(&r);
}

/* ---- cosine ---- */

/* s > min^2 ? x / sqrt(max(s, min^2)) : 0 in one node: in 16 bits min^2 would be 0. The greatest
 * keeps the branch that is not taken finite. */
static gr_value *divided(const request *r, gr_value *x, gr_value *s)
{
    const gr_program p = { .shape = x->shape,
                           .dtype = x->dtype,
                           .n_src = 2,
                           .n_instr = 7,
                           .instr = {
                               { GR_FN_CONST, { -1, -1, -1 }, r->o.min_norm * r->o.min_norm },
                               { GR_FN_GT, { 1, 2, -1 }, 0 },
                               { GR_FN_MAX, { 1, 2, -1 }, 0 },
                               { GR_FN_SQRT, { 4, -1, -1 }, 0 },
                               { GR_FN_DIV, { 0, 5, -1 }, 0 },
                               { GR_FN_CONST, { -1, -1, -1 }, 0 },
                               { GR_FN_WHERE, { 3, 6, 7 }, 0 } } };

    return gr_map_add(r->g, r->site, (gr_value *[]){ x, s }, &p);
}

/* x / |x| along the last dimension. */
static gr_value *normalised(const request *r, gr_value *x)
{
    gr_value *sum;

    if (!x || x->shape.n_dims != 4)
        return x; /* the operator says what is wrong */
    sum = gr_reduce_at(r->site, r->g, "sum", gr_map1_at(r->site, r->g, "square", x), GR_AXIS(3),
                       true);
    if (r->o.min_norm > 0 && sum)
        return divided(r, x, sum);
    return gr_map2_at(r->site, r->g, "div", x, gr_map1_at(r->site, r->g, "sqrt", sum));
}

gr_value *gr_cosine_attention_at(const char *site, gr_graph *g, gr_value *q, gr_value *k,
                                 gr_value *v, gr_value *row_mask, const gr_attention_opts *opts)
{
    request r = { site, g, GR_ATTENTION_SEPARATE, q, k, v, opts_of(opts) };
    gr_value *y;
    gr_shape s;

    if (!(r.o.min_norm == 0 || (r.o.min_norm >= LEAST_NORM && r.o.min_norm <= 1))) {
        gr_graph_fail(g, site, "cosine attention: min_norm is %g, must be 0 or from %g to 1",
                      r.o.min_norm, LEAST_NORM);
        return NULL;
    }
    set_heads(&r);
    if (r.o.scale == 0)
        r.o.scale = 1;
    r.q = normalised(&r, cut_heads(&r, q, r.o.heads));
    r.k = normalised(&r, cut_heads(&r, k, r.o.kv_heads));
    y = build(&r);
    if (y && row_mask) {
        s = y->shape;
        row_mask = gr_reshape_at(site, g, row_mask, GR_SHAPE(s.dim[0], s.dim[1], 1, 1));
        y = gr_map2_at(site, g, "mul", y, gr_cast_at(site, g, row_mask, y->dtype));
    }
    if (!y || gr_value_shape(q).n_dims != 3)
        return y;
    return gr_reshape_at(site, g, y, gr_value_shape(q));
}

/*
 * Random numbers inside a step: shape rules, gradient and builders.
 *
 *     dropout   y = x / (1 - p) where the number of the element is not dropped, else 0
 *               dx = dropout of dy, over the same stream: nothing is kept
 *
 * The stream of a node is its id at trace time, kept in its attributes: two nodes of equal
 * looks never draw the same, and what is cloned from one does.
 */
#include "op/random/random.h"

#include "gradus/random.h"
#include "op/random/draw.h"

#include <math.h>
#include <string.h>

static const char *const kind_name[] = {
    [GR_RANDOM_UNIFORM] = "uniform",     [GR_RANDOM_NORMAL] = "normal",
    [GR_RANDOM_BERNOULLI] = "bernoulli", [GR_RANDOM_INT] = "int",
    [GR_RANDOM_PERM] = "perm",
};

static bool is_whole(gr_dtype t)
{
    return t == GR_I32 || t == GR_I64;
}

static gr_status check_numbers(const gr_random_attr *at)
{
    switch (at->kind) {
    case GR_RANDOM_UNIFORM:
        if (!(at->a <= at->b) || !isfinite(at->a) || !isfinite(at->b))
            return gr_fail(GR_ERR_ARG, "uniform from %g to %g", at->a, at->b);
        return GR_OK;
    case GR_RANDOM_NORMAL:
        if (!isfinite(at->a) || !(at->b >= 0) || !isfinite(at->b))
            return gr_fail(GR_ERR_ARG, "normal of mean %g and deviation %g", at->a, at->b);
        return GR_OK;
    case GR_RANDOM_BERNOULLI:
        if (!(at->a >= 0 && at->a <= 1))
            return gr_fail(GR_ERR_ARG, "the probability is %g, must be in [0, 1]", at->a);
        return GR_OK;
    case GR_RANDOM_INT:
        if (at->range < 1 || at->range > (uint64_t)1 << 32)
            return gr_fail(GR_ERR_ARG, "a range of %llu numbers, must be in [1, 2^32]",
                           (unsigned long long)at->range);
        return GR_OK;
    case GR_RANDOM_PERM:
        if (at->shape.n_dims < 1 || at->shape.dim[at->shape.n_dims - 1] > INT32_MAX)
            return gr_fail(GR_ERR_ARG, "permutations need a last dimension, below 2^31");
        return GR_OK;
    }
    GR_BUG_IF(true);
}

static gr_status check_key(const gr_node *n)
{
    const gr_random_attr *at = (const gr_random_attr *)n->attr;
    const gr_value *key = n->n_src > 0 ? n->src[0] : NULL;

    if (!key)
        return GR_OK;
    if (n->n_src > 1 || key->dtype != GR_I64 || key->shape.n_dims != 1)
        return gr_fail(GR_ERR_ARG, "keys are i64, one for each sample");
    if (at->n_samples < 1 || at->n_samples != key->shape.dim[0])
        return gr_fail(GR_ERR_ARG, "%lld keys, but the first dimension holds no multiple of that",
                       (long long)key->shape.dim[0]);
    return GR_OK;
}

static gr_status random_infer(gr_node *n)
{
    const gr_random_attr *at = (const gr_random_attr *)n->attr;
    bool floats = at->kind == GR_RANDOM_UNIFORM || at->kind == GR_RANDOM_NORMAL;
    bool whole = at->kind == GR_RANDOM_INT || at->kind == GR_RANDOM_PERM;

    GR_TRY(gr_shape_check(&at->shape, at->dtype));
    if (floats && !gr_dtype_is_float(at->dtype))
        return gr_fail(GR_ERR_ARG, "%s numbers are of a floating type", kind_name[at->kind]);
    if (whole && !is_whole(at->dtype))
        return gr_fail(GR_ERR_ARG, "whole numbers are i32 or i64");
    GR_TRY(check_numbers(at));
    GR_TRY(check_key(n));
    n->out[0].shape = at->shape;
    n->out[0].dtype = at->dtype;
    return GR_OK;
}

static void random_print(const gr_node *n, gr_text *out)
{
    const gr_random_attr *at = (const gr_random_attr *)n->attr;

    gr_text_addf(out, " %s", kind_name[at->kind]);
    if (at->kind == GR_RANDOM_INT)
        gr_text_addf(out, "(%lld, %lld)", (long long)at->from,
                     (long long)(at->from + (int64_t)at->range));
    else if (at->kind == GR_RANDOM_BERNOULLI)
        gr_text_addf(out, "(%.9g)", at->a);
    else if (at->kind != GR_RANDOM_PERM)
        gr_text_addf(out, "(%.9g, %.9g)", at->a, at->b);
    gr_text_addf(out, " stream %u", at->stream);
}

const gr_op gr_op_random = {
    .name = "random",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = random_infer,
    .print = random_print,
    .kernels = gr_random_cpu,
};

/* The attributes are compared and copied as bytes, so what lies between the fields is 0. */
static gr_value *add_keyed(const char *site, gr_graph *g, gr_value *key, const gr_random_attr *of)
{
    gr_random_attr at;
    int64_t n_batch = gr_draw_batch(g);

    memset(&at, 0, sizeof(at));
    at.kind = of->kind;
    at.dtype = of->dtype;
    at.shape = of->shape;
    at.a = of->a;
    at.b = of->b;
    at.from = of->from;
    at.range = of->range;
    if (key)
        n_batch = key->shape.n_dims > 0 ? key->shape.dim[0] : 0;
    at.n_samples = gr_draw_samples(&of->shape, n_batch);
    at.stream = g->next_id;
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_random,
                                              .site = site,
                                              .src = &key,
                                              .n_src = key ? 1 : 0,
                                              .attr = &at,
                                              .attr_bytes = sizeof(at) });
}

static gr_value *add_random(const char *site, gr_graph *g, const gr_random_attr *of)
{
    return add_keyed(site, g, NULL, of);
}

gr_value *gr_random_uniform_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape,
                               double from, double to)
{
    return add_random(
        site, g,
        &(gr_random_attr){
            .kind = GR_RANDOM_UNIFORM, .dtype = t, .shape = shape, .a = from, .b = to });
}

gr_value *gr_random_normal_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape,
                              double mean, double std)
{
    return add_random(
        site, g,
        &(gr_random_attr){
            .kind = GR_RANDOM_NORMAL, .dtype = t, .shape = shape, .a = mean, .b = std });
}

/* p as a count of 2^32 numbers; whole ends stay exact. */
static uint64_t below_of(double p)
{
    return p >= 0 && p <= 1 ? (uint64_t)llround(p * 0x1p32) : 0;
}

gr_value *gr_random_bernoulli_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape,
                                 double p)
{
    return add_random(site, g,
                      &(gr_random_attr){ .kind = GR_RANDOM_BERNOULLI,
                                         .dtype = t,
                                         .shape = shape,
                                         .a = p,
                                         .range = below_of(p) });
}

gr_value *gr_random_int_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape, int64_t from,
                           int64_t to)
{
    return add_random(site, g,
                      &(gr_random_attr){ .kind = GR_RANDOM_INT,
                                         .dtype = t,
                                         .shape = shape,
                                         .from = from,
                                         .range = to > from ? (uint64_t)to - (uint64_t)from : 0 });
}

gr_value *gr_random_perm_at(const char *site, gr_graph *g, gr_dtype t, gr_shape shape)
{
    return add_random(site, g,
                      &(gr_random_attr){ .kind = GR_RANDOM_PERM, .dtype = t, .shape = shape });
}

/* ---- with keys ---- */

gr_value *gr_random_uniform_keyed_at(const char *site, gr_graph *g, gr_value *key, gr_dtype t,
                                     gr_shape shape, double from, double to)
{
    const gr_random_attr at = {
        .kind = GR_RANDOM_UNIFORM, .dtype = t, .shape = shape, .a = from, .b = to
    };

    return gr_graph_given(g, site, "random", key) ? add_keyed(site, g, key, &at) : NULL;
}

gr_value *gr_random_normal_keyed_at(const char *site, gr_graph *g, gr_value *key, gr_dtype t,
                                    gr_shape shape, double mean, double std)
{
    const gr_random_attr at = {
        .kind = GR_RANDOM_NORMAL, .dtype = t, .shape = shape, .a = mean, .b = std
    };

    return gr_graph_given(g, site, "random", key) ? add_keyed(site, g, key, &at) : NULL;
}

gr_value *gr_random_int_keyed_at(const char *site, gr_graph *g, gr_value *key, gr_dtype t,
                                 gr_shape shape, int64_t from, int64_t to)
{
    const gr_random_attr at = { .kind = GR_RANDOM_INT,
                                .dtype = t,
                                .shape = shape,
                                .from = from,
                                .range = to > from ? (uint64_t)to - (uint64_t)from : 0 };

    return gr_graph_given(g, site, "random", key) ? add_keyed(site, g, key, &at) : NULL;
}

gr_value *gr_random_perm_keyed_at(const char *site, gr_graph *g, gr_value *key, gr_dtype t,
                                  gr_shape shape)
{
    const gr_random_attr at = { .kind = GR_RANDOM_PERM, .dtype = t, .shape = shape };

    return gr_graph_given(g, site, "random", key) ? add_keyed(site, g, key, &at) : NULL;
}

/* ---- dropout ---- */

static gr_status dropout_infer(gr_node *n)
{
    const gr_dropout_attr *at = (const gr_dropout_attr *)n->attr;

    if (!gr_dtype_is_float(n->src[0]->dtype))
        return gr_fail(GR_ERR_ARG, "what is dropped must be of a floating type");
    if (!(at->p >= 0 && at->p < 1))
        return gr_fail(GR_ERR_ARG, "the probability is %g, must be in [0, 1)", at->p);
    n->out[0].shape = n->src[0]->shape;
    n->out[0].dtype = n->src[0]->dtype;
    return GR_OK;
}

static gr_value *add_dropout(const char *site, gr_graph *g, gr_value *x, const gr_dropout_attr *at)
{
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_dropout,
                                              .site = site,
                                              .src = &x,
                                              .n_src = 1,
                                              .attr = at,
                                              .attr_bytes = sizeof(*at) });
}

static gr_status dropout_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    d_src[0] = add_dropout(n->site, g, d_out[0], (const gr_dropout_attr *)n->attr);
    return gr_graph_status(g);
}

static void dropout_print(const gr_node *n, gr_text *out)
{
    const gr_dropout_attr *at = (const gr_dropout_attr *)n->attr;

    gr_text_addf(out, " %.9g%s stream %u", at->p, at->by_sample ? " by sample" : "", at->stream);
}

const gr_op gr_op_dropout = {
    .name = "dropout",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_FIRST,
    .infer = dropout_infer,
    .grad = dropout_grad,
    .print = dropout_print,
    .kernels = gr_dropout_cpu,
};

static gr_value *drop(const char *site, gr_graph *g, gr_value *x, double p, bool by_sample)
{
    gr_dropout_attr at;

    if (!gr_graph_given(g, site, by_sample ? "drop_path" : "dropout", x))
        return NULL;
    if (p == 0 || (p > 0 && p < 1 && !gr_is_training(g)))
        return x;
    memset(&at, 0, sizeof(at));
    at.p = p;
    at.drop_below = p >= 0 && p < 1 ? gr_draw16_below(p) : 0; /* else infer refuses it */
    at.by_sample = by_sample;
    at.n_samples = gr_draw_samples(&x->shape, gr_draw_batch(g));
    at.stream = g->next_id;
    return add_dropout(site, g, x, &at);
}

gr_value *gr_dropout_at(const char *site, gr_graph *g, gr_value *x, double p)
{
    return drop(site, g, x, p, false);
}

gr_value *gr_drop_path_at(const char *site, gr_graph *g, gr_value *x, double p)
{
    return drop(site, g, x, p, true);
}

/*
 * Rotary positions: shape and gradient rules.
 *
 *     angle(i) = pos * base^(-2i / s)              pair i of a part of size s
 *     y1 = x1 cos - x2 sin,  y2 = x2 cos + x1 sin
 *
 * With one axis a head is one part; with two its halves are, each with a position of its own.
 * The gradient turns back by the same angles.
 */
#include "op/rotary/rotary.h"

#include "gradus/attention.h"

#include <string.h>

static gr_status check_positions(const gr_node *n)
{
    const gr_rotary_attr *at = n->attr;
    const gr_shape *x = &n->src[0]->shape;
    const gr_shape *p = n->n_src > 1 ? &n->src[1]->shape : NULL;
    int lead;

    if (!at->has_positions)
        return at->axes == 1 ? GR_OK : gr_fail(GR_ERR_ARG, "two axes need positions");
    if (n->src[1]->dtype != GR_I32 && n->src[1]->dtype != GR_I64)
        return gr_fail(GR_ERR_ARG, "positions must be i32 or i64");
    lead = p->n_dims - (at->axes == 2);
    if (lead < 1 || lead > 2 || p->dim[lead - 1] != x->dim[1] ||
        (lead == 2 && p->dim[0] != x->dim[0]) || (at->axes == 2 && p->dim[lead] != 2))
        return gr_fail(GR_ERR_ARG, "positions must be [%lld%s] or [%lld, %lld%s]",
                       (long long)x->dim[1], at->axes == 2 ? ", 2" : "", (long long)x->dim[0],
                       (long long)x->dim[1], at->axes == 2 ? ", 2" : "");
    return GR_OK;
}

static gr_status rotary_infer(gr_node *n)
{
    const gr_rotary_attr *at = n->attr;
    const gr_value *x = n->src[0];

    if (n->n_src != 1 + at->has_positions)
        return gr_fail(GR_ERR_ARG, "takes %d inputs, got %d", 1 + at->has_positions, n->n_src);
    if (!gr_dtype_is_float(x->dtype) || x->shape.n_dims != 4)
        return gr_fail(GR_ERR_ARG, "x must be floating [batch, tokens, heads, head size]");
    if (at->axes < 1 || at->axes > 2)
        return gr_fail(GR_ERR_ARG, "there are one or two axes, not %d", at->axes);
    if (x->shape.dim[3] % ((int64_t)2 * at->axes) != 0)
        return gr_fail(GR_ERR_ARG, "a head of %lld numbers cannot be cut into pairs of %d axes",
                       (long long)x->shape.dim[3], at->axes);
    if (at->heads < 0 || at->heads > x->shape.dim[2])
        return gr_fail(GR_ERR_ARG, "cannot turn %lld of %lld heads", (long long)at->heads,
                       (long long)x->shape.dim[2]);
    if (!(at->base > 0) || at->max_position < 0 ||
        (!at->has_positions && at->max_position < x->shape.dim[1]))
        return gr_fail(GR_ERR_ARG, "base %g or the greatest position %lld makes no sense", at->base,
                       (long long)at->max_position);
    GR_TRY(check_positions(n));
    n->out[0].shape = x->shape;
    n->out[0].dtype = x->dtype;
    return GR_OK;
}

static gr_value *add(gr_graph *g, const char *site, gr_value *const src[2],
                     const gr_rotary_attr *at)
{
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_rotary,
                                              .site = site,
                                              .src = src,
                                              .n_src = 1 + at->has_positions,
                                              .attr = at,
                                              .attr_bytes = sizeof(*at) });
}

static gr_status rotary_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    gr_rotary_attr at;

    memcpy(&at, n->attr, sizeof(at));
    at.inverse = !at.inverse;
    d_src[0] =
        add(g, n->site, (gr_value *[]){ d_out[0], at.has_positions ? n->src[1] : NULL }, &at);
    return gr_graph_status(g);
}

static void rotary_print(const gr_node *n, gr_text *out)
{
    const gr_rotary_attr *at = n->attr;

    gr_text_addf(out, " base %g", at->base);
    if (at->axes == 2)
        gr_text_add(out, " axes 2");
    if (at->interleaved)
        gr_text_add(out, " interleaved");
    if (at->inverse)
        gr_text_add(out, " inverse");
    if (at->heads != n->src[0]->shape.dim[2])
        gr_text_addf(out, " heads %lld", (long long)at->heads);
}

gr_value *gr_rotary_at(const char *site, gr_graph *g, gr_value *x, gr_value *positions,
                       const gr_rotary_opts *opts)
{
    const gr_rotary_opts o = opts ? *opts : (gr_rotary_opts){ 0 };
    const gr_shape s = gr_value_shape(x);
    const bool fits = s.n_dims == 4;
    gr_rotary_attr at = { .base = o.base == 0 ? 10000 : o.base,
                          .axes = o.axes == 0 ? 1 : o.axes,
                          .interleaved = o.interleaved,
                          .has_positions = positions != NULL,
                          .heads = o.heads == 0 && fits ? s.dim[2] : o.heads };

    at.max_position = o.max_position;
    if (at.max_position == 0)
        at.max_position = positions ? 4096 : fits ? s.dim[1] : 0;
    return add(g, site, (gr_value *[]){ x, positions }, &at);
}

const gr_op gr_op_rotary = {
    .name = "rotary",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_FOLLOW,
    .infer = rotary_infer,
    .grad = rotary_grad,
    .print = rotary_print,
    .kernels = gr_rotary_cpu,
};

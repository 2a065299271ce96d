/*
 * Concat and split.
 *
 *   concat   y = sources one behind the other along an axis     d_src = split of dy
 *   split    y_i = parts of x along an axis                     dx = concat of the dy_i,
 *                                                               zeros where there is none
 *
 * Concat may be given floating sources of several types, as mixed precision leaves them:
 * the result has the type in the attribute, and a source of another type is converted.
 */
#include "op/part/part.h"

#include "gradus/ops.h"

#include <string.h>

/* ---- concat ---- */

static gr_status check_member(const gr_node *n, int i)
{
    const gr_concat_attr *at = n->attr;
    const gr_shape *a = &n->src[0]->shape, *b = &n->src[i]->shape;

    if (n->src[i]->dtype != at->dtype &&
        !(gr_dtype_is_float(at->dtype) && gr_dtype_is_float(n->src[i]->dtype)))
        return gr_fail(GR_ERR_ARG, "%s and %s do not go together: cast first",
                       gr_dtype_name(n->src[0]->dtype), gr_dtype_name(n->src[i]->dtype));
    for (int d = 0; d < a->n_dims; d++)
        if (b->n_dims != a->n_dims || (d != at->axis && a->dim[d] != b->dim[d]))
            return gr_fail(GR_ERR_ARG, "input %d differs from input 0 beside dimension %d", i,
                           at->axis);
    return GR_OK;
}

static gr_status concat_infer(gr_node *n)
{
    const gr_concat_attr *at = n->attr;
    gr_shape *out = &n->out[0].shape;
    int n_dims;

    if (n->n_src < 1)
        return gr_fail(GR_ERR_ARG, "there is nothing to put together");
    n_dims = n->src[0]->shape.n_dims;
    if (at->axis < 0 || at->axis >= n_dims)
        return gr_fail(GR_ERR_ARG, "the axis is not one of %d dimensions", n_dims);
    *out = n->src[0]->shape;
    out->dim[at->axis] = 0;
    for (int i = 0; i < n->n_src; i++) {
        GR_TRY(check_member(n, i));
        if (__builtin_add_overflow(out->dim[at->axis], n->src[i]->shape.dim[at->axis],
                                   &out->dim[at->axis]))
            return gr_fail(GR_ERR_ARG, "the result is too long");
    }
    n->out[0].dtype = at->dtype;
    return GR_OK;
}

static gr_node *add_split(gr_graph *g, const char *site, gr_value *a, const gr_split_attr *attr)
{
    return gr_graph_add(g, &(gr_build){ .op = &gr_op_split,
                                        .site = site,
                                        .src = &a,
                                        .n_src = 1,
                                        .n_out = attr->n,
                                        .attr = attr,
                                        .attr_bytes = sizeof(*attr) });
}

static gr_split_attr *new_split_attr(gr_graph *g, int axis, int n)
{
    gr_split_attr *attr = gr_arena_new(g->arena, gr_split_attr);
    int64_t *size = gr_arena_array(g->arena, (size_t)n, sizeof(*size));

    if (!attr || !size) {
        gr_graph_stick(g, GR_ERR_NOMEM);
        return NULL;
    }
    attr->size = size;
    attr->axis = axis;
    attr->n = n;
    return attr;
}

static gr_status concat_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    const gr_concat_attr *at = n->attr;
    gr_split_attr *attr = new_split_attr(g, at->axis, n->n_src);
    gr_node *parts;

    if (!attr || !gr_dtype_is_float(at->dtype))
        return gr_graph_status(g);
    for (int i = 0; i < n->n_src; i++)
        attr->size[i] = n->src[i]->shape.dim[at->axis];
    parts = add_split(g, n->site, d_out[0], attr);
    for (int i = 0; parts && i < n->n_src; i++)
        d_src[i] = gr_cast_at(n->site, g, &parts->out[i], n->src[i]->dtype);
    return gr_graph_status(g);
}

static const void *concat_retype(gr_graph *g, const gr_node *n, gr_dtype t)
{
    gr_concat_attr *attr = gr_arena_new(g->arena, gr_concat_attr);

    if (!attr)
        return NULL;
    memcpy(attr, n->attr, sizeof(*attr));
    attr->dtype = t;
    return attr;
}

static void concat_print(const gr_node *n, gr_text *out)
{
    const gr_concat_attr *at = n->attr;

    gr_text_addf(out, " along %d", at->axis);
}

/* The type that holds both: f64 > f32 > f16, bf16; f16 and bf16 meet in f32. Types of
 * another kind stay as they are, and infer refuses them. */
static gr_dtype common_type(gr_dtype a, gr_dtype b)
{
    if (a == b || !gr_dtype_is_float(a) || !gr_dtype_is_float(b))
        return a;
    return a == GR_F64 || b == GR_F64 ? GR_F64 : GR_F32;
}

gr_value *gr_concat_at(const char *site, gr_graph *g, gr_value *const *src, int n, int axis)
{
    gr_concat_attr attr = { .axis = axis };

    if (n < 1 || !src) {
        gr_graph_fail(g, site, "concat: there is nothing to put together");
        return NULL;
    }
    attr.axis = gr_axis_of(axis, gr_value_shape(src[0]).n_dims);
    attr.dtype = gr_value_dtype(src[0]);
    for (int i = 1; i < n; i++)
        attr.dtype = common_type(attr.dtype, gr_value_dtype(src[i]));
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_concat,
                                              .site = site,
                                              .src = src,
                                              .n_src = n,
                                              .attr = &attr,
                                              .attr_bytes = sizeof(attr) });
}

gr_value *gr_stack_at(const char *site, gr_graph *g, gr_value *const *src, int n, int axis)
{
    int n_dims = n > 0 && src ? gr_value_shape(src[0]).n_dims : 0;
    int at = gr_axis_of(axis, n_dims + 1);
    gr_value **flat = gr_arena_array(g->arena, (size_t)(n > 0 ? n : 0) + 1, sizeof(*flat));

    if (n < 1 || !src || at < 0 || !flat) {
        gr_graph_fail(g, site, "stack: %d inputs along a new dimension %d of %d", n, axis,
                      n_dims + 1);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        flat[i] = gr_unsqueeze_at(site, g, src[i], at);
    return gr_concat_at(site, g, flat, n, at);
}

const gr_op gr_op_concat = {
    .name = "concat",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_FOLLOW,
    .infer = concat_infer,
    .grad = concat_grad,
    .retype = concat_retype,
    .print = concat_print,
    .kernels = gr_concat_cpu,
};

/* ---- split ---- */

static gr_status split_infer(gr_node *n)
{
    const gr_split_attr *at = n->attr;
    const gr_shape *a = &n->src[0]->shape;
    int64_t sum = 0;

    if (at->axis < 0 || at->axis >= a->n_dims)
        return gr_fail(GR_ERR_ARG, "the axis is not one of %d dimensions", a->n_dims);
    for (int i = 0; i < at->n; i++) {
        if (at->size[i] < 0 || __builtin_add_overflow(sum, at->size[i], &sum))
            return gr_fail(GR_ERR_ARG, "part %d cannot have %lld", i, (long long)at->size[i]);
        n->out[i].shape = *a;
        n->out[i].shape.dim[at->axis] = at->size[i];
        n->out[i].dtype = n->src[0]->dtype;
    }
    if (sum != a->dim[at->axis])
        return gr_fail(GR_ERR_ARG, "%d parts of %lld in all, but dimension %d has %lld", at->n,
                       (long long)sum, at->axis, (long long)a->dim[at->axis]);
    return GR_OK;
}

static gr_status split_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    const gr_split_attr *at = n->attr;
    gr_dtype t = n->src[0]->dtype;
    gr_value **parts = gr_arena_array(g->arena, (size_t)n->n_out, sizeof(*parts));

    if (!gr_dtype_is_float(t))
        return GR_OK;
    if (!parts)
        return GR_ERR_NOMEM;
    for (int i = 0; i < n->n_out; i++)
        parts[i] = d_out[i] ? d_out[i] : gr_fill_at(n->site, g, t, n->out[i].shape, 0);
    d_src[0] = gr_concat_at(n->site, g, parts, n->n_out, at->axis);
    return gr_graph_status(g);
}

static void split_print(const gr_node *n, gr_text *out)
{
    const gr_split_attr *at = n->attr;

    gr_text_addf(out, " along %d", at->axis);
}

/* Equal parts; when they do not divide, they fall short and infer refuses. */
static void equal_sizes(gr_split_attr *attr, int64_t dim)
{
    for (int i = 0; i < attr->n; i++)
        attr->size[i] = dim / attr->n;
}

void gr_split_at(const char *site, gr_graph *g, gr_value *a, int axis, int n, const int64_t *sizes,
                 gr_value **out)
{
    gr_shape shape = gr_value_shape(a);
    gr_split_attr *attr;
    gr_node *node;

    for (int i = 0; out && i < n; i++)
        out[i] = NULL;
    if (n < 1 || !out) {
        gr_graph_fail(g, site, "split: into %d parts", n);
        return;
    }
    attr = new_split_attr(g, gr_axis_of(axis, shape.n_dims), n);
    if (!attr)
        return;
    if (sizes)
        memcpy(attr->size, sizes, (size_t)n * sizeof(sizes[0]));
    else
        equal_sizes(attr, attr->axis < 0 ? 0 : shape.dim[attr->axis]);
    node = add_split(g, site, a, attr);
    for (int i = 0; node && i < n; i++)
        out[i] = &node->out[i];
}

const gr_op gr_op_split = {
    .name = "split",
    .n_src = 1,
    .n_out = GR_ANY_COUNT,
    .amp = GR_AMP_FOLLOW,
    .infer = split_infer,
    .grad = split_grad,
    .print = split_print,
    .kernels = gr_split_cpu,
};

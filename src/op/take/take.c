/* Elements along an axis by index, and the gradient; see take.h. */
#include "op/take/take.h"

#include "gradus/index.h"
#include "gradus/ops.h"
#include "op/part/part.h"

#include <string.h>

/* The index must be a list, or have the shape `s` but along the axis. */
static gr_status check_index(const gr_take_attr *at, const gr_value *index, const gr_shape *s)
{
    if (index->dtype != GR_I32 && index->dtype != GR_I64)
        return gr_fail(GR_ERR_ARG, "indices must be i32 or i64");
    if (at->axis < 0 || at->axis >= s->n_dims)
        return gr_fail(GR_ERR_ARG, "the axis is not one of %d dimensions", s->n_dims);
    if (!at->is_each && index->shape.n_dims != 1)
        return gr_fail(GR_ERR_ARG, "the indices must be a list");
    for (int d = 0; at->is_each && d < s->n_dims; d++)
        if (index->shape.n_dims != s->n_dims || (d != at->axis && index->shape.dim[d] != s->dim[d]))
            return gr_fail(GR_ERR_ARG, "the indices' shape differs beside dimension %d", at->axis);
    return GR_OK;
}

static int64_t n_taken(const gr_take_attr *at, const gr_value *index)
{
    return index->shape.dim[at->is_each ? at->axis : 0];
}

static gr_status take_infer(gr_node *n)
{
    const gr_take_attr *at = n->attr;

    GR_TRY(check_index(at, n->src[1], &n->src[0]->shape));
    n->out[0].shape = n->src[0]->shape;
    n->out[0].shape.dim[at->axis] = n_taken(at, n->src[1]);
    n->out[0].dtype = n->src[0]->dtype;
    return GR_OK;
}

static gr_value *add(gr_graph *g, const gr_op *op, const char *site, gr_value *const src[2],
                     const gr_take_attr *attr)
{
    return gr_graph_add_value(g, &(gr_build){ .op = op,
                                              .site = site,
                                              .src = src,
                                              .n_src = 2,
                                              .attr = attr,
                                              .attr_bytes = sizeof(*attr) });
}

gr_value *gr_take_back(const char *site, gr_graph *g, gr_value *d, gr_value *index,
                       const gr_take_attr *like, gr_dtype t)
{
    gr_take_attr attr = *like;

    attr.dtype = t == GR_F16 || t == GR_BF16 ? GR_F32 : t;
    return gr_cast_at(site, g, add(g, &gr_op_take_grad, site, (gr_value *[]){ d, index }, &attr),
                      t);
}

static gr_status take_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    gr_take_attr attr = *(const gr_take_attr *)n->attr;

    if (!gr_dtype_is_float(n->src[0]->dtype))
        return GR_OK;
    attr.n = n->src[0]->shape.dim[attr.axis];
    d_src[0] = gr_take_back(n->site, g, d_out[0], n->src[1], &attr, n->src[0]->dtype);
    return gr_graph_status(g);
}

static void take_print(const gr_node *n, gr_text *out)
{
    const gr_take_attr *at = n->attr;

    gr_text_addf(out, " along %d", at->axis);
}

gr_value *gr_index_select_at(const char *site, gr_graph *g, gr_value *a, int axis, gr_value *index)
{
    gr_take_attr attr = { .axis = gr_axis_of(axis, gr_value_shape(a).n_dims) };

    if (attr.axis == 0 && gr_value_shape(index).n_dims == 1)
        return gr_gather_at(site, g, a, index);
    return add(g, &gr_op_take, site, (gr_value *[]){ a, index }, &attr);
}

gr_value *gr_take_along_at(const char *site, gr_graph *g, gr_value *a, int axis, gr_value *index)
{
    gr_take_attr attr = { .axis = gr_axis_of(axis, gr_value_shape(a).n_dims), .is_each = true };

    return add(g, &gr_op_take, site, (gr_value *[]){ a, index }, &attr);
}

const gr_op gr_op_take = {
    .name = "take",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_FIRST,
    .infer = take_infer,
    .grad = take_grad,
    .print = take_print,
    .kernels = gr_take_cpu,
};

/* ---- take_grad ---- */

static gr_status back_infer(gr_node *n)
{
    const gr_take_attr *at = n->attr;

    GR_TRY(check_index(at, n->src[1], &n->src[0]->shape));
    if (n_taken(at, n->src[1]) != n->src[0]->shape.dim[at->axis])
        return gr_fail(GR_ERR_ARG, "there must be an index for each element");
    if (!gr_dtype_is_float(n->src[0]->dtype) || !gr_dtype_is_float(at->dtype))
        return gr_fail(GR_ERR_ARG, "takes and gives floating types only");
    n->out[0].shape = n->src[0]->shape;
    n->out[0].shape.dim[at->axis] = at->n;
    n->out[0].dtype = at->dtype;
    return GR_OK;
}

static gr_status back_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    d_src[0] = add(g, &gr_op_take, n->site, (gr_value *[]){ d_out[0], n->src[1] }, n->attr);
    d_src[0] = gr_cast_at(n->site, g, d_src[0], n->src[0]->dtype);
    return gr_graph_status(g);
}

static const void *back_retype(gr_graph *g, const gr_node *n, gr_dtype t)
{
    gr_take_attr *attr = gr_arena_new(g->arena, gr_take_attr);

    if (!attr)
        return NULL;
    memcpy(attr, n->attr, sizeof(*attr));
    attr->dtype = t;
    return attr;
}

const gr_op gr_op_take_grad = {
    .name = "take_grad",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_WIDE,
    .infer = back_infer,
    .grad = back_grad,
    .retype = back_retype,
    .print = take_print,
    .kernels = gr_take_grad_cpu,
};

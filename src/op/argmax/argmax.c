/*
 * Rules of arg_reduce and arg_scatter.
 *
 *   i = the first place of the greatest (least) x along the axis;  y = x[i]
 *   dx[i] = dy, and 0 elsewhere
 */
#include "op/argmax/argmax.h"

#include "gradus/ops.h"

#include <string.h>

static gr_status arg_reduce_infer(gr_node *n)
{
    const gr_arg_reduce_attr *a = n->attr;
    const gr_value *x = n->src[0];

    if (a->axis < 0 || a->axis >= x->shape.n_dims)
        return gr_fail(GR_ERR_ARG, "over a dimension that is not there: there are %d",
                       x->shape.n_dims);
    if (x->shape.dim[a->axis] == 0)
        return gr_fail(GR_ERR_ARG, "dimension %d has no element", a->axis);
    for (int i = 0; i < 2; i++) {
        n->out[i].shape = x->shape;
        n->out[i].shape.dim[a->axis] = 1;
    }
    n->out[0].dtype = x->dtype;
    n->out[1].dtype = GR_I64;
    return GR_OK;
}

static gr_status arg_reduce_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    const gr_arg_reduce_attr *a = n->attr;
    gr_arg_scatter_attr attr = { .axis = a->axis, .n = n->src[0]->shape.dim[a->axis] };

    if (!d_out[0] || !gr_dtype_is_float(n->src[0]->dtype))
        return GR_OK;
    d_src[0] = gr_graph_add_value(g, &(gr_build){ .op = &gr_op_arg_scatter,
                                                  .site = n->site,
                                                  .src = (gr_value *[]){ &n->out[1], d_out[0] },
                                                  .n_src = 2,
                                                  .attr = &attr,
                                                  .attr_bytes = sizeof(attr) });
    return gr_graph_status(g);
}

static void arg_reduce_print(const gr_node *n, gr_text *out)
{
    const gr_arg_reduce_attr *a = n->attr;

    gr_text_addf(out, " %s over %d", a->is_min ? "min" : "max", a->axis);
}

const gr_op gr_op_arg_reduce = {
    .name = "arg_reduce",
    .n_src = 1,
    .n_out = 2,
    .amp = GR_AMP_FOLLOW,
    .infer = arg_reduce_infer,
    .grad = arg_reduce_grad,
    .print = arg_reduce_print,
    .kernels = gr_arg_reduce_cpu,
};

static gr_status arg_scatter_infer(gr_node *n)
{
    const gr_arg_scatter_attr *a = n->attr;
    const gr_value *index = n->src[0], *d = n->src[1];

    if (index->dtype != GR_I64 || !gr_shape_equal(&index->shape, &d->shape))
        return gr_fail(GR_ERR_ARG, "indices must be i64, one for each element");
    if (a->axis < 0 || a->axis >= d->shape.n_dims || d->shape.dim[a->axis] != 1)
        return gr_fail(GR_ERR_ARG, "dimension %d must be 1", a->axis);
    n->out[0].shape = d->shape;
    n->out[0].shape.dim[a->axis] = a->n;
    n->out[0].dtype = d->dtype;
    return GR_OK;
}

const gr_op gr_op_arg_scatter = {
    .name = "arg_scatter",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_FOLLOW,
    .infer = arg_scatter_infer,
    .kernels = gr_arg_scatter_cpu,
};

/* ---- builders ---- */

static gr_value *without_axis(const char *site, gr_graph *g, gr_value *v, int axis)
{
    gr_shape s = gr_value_shape(v);

    for (int i = axis; i < s.n_dims - 1; i++)
        s.dim[i] = s.dim[i + 1];
    s.n_dims--;
    return gr_reshape_at(site, g, v, s);
}

gr_value *gr_arg_reduce_at(const char *site, gr_graph *g, const char *fn, gr_value *a, int axis,
                           bool keep, gr_value **index)
{
    gr_arg_reduce_attr attr = { .axis = axis, .is_min = strcmp(fn, "min") == 0 };
    gr_node *n;

    if (axis < 0)
        attr.axis += gr_value_shape(a).n_dims;
    if (!attr.is_min && strcmp(fn, "max") != 0)
        gr_graph_fail(g, site, "arg_reduce: '%s' is not one of max, min", fn);
    if (index)
        *index = NULL;
    n = gr_graph_add(g, &(gr_build){ .op = &gr_op_arg_reduce,
                                     .site = site,
                                     .src = &a,
                                     .n_src = 1,
                                     .attr = &attr,
                                     .attr_bytes = sizeof(attr) });
    if (!n)
        return NULL;
    if (index)
        *index = keep ? &n->out[1] : without_axis(site, g, &n->out[1], attr.axis);
    return keep ? &n->out[0] : without_axis(site, g, &n->out[0], attr.axis);
}

gr_value *gr_arg_index_at(const char *site, gr_graph *g, const char *fn, gr_value *a, int axis,
                          bool keep)
{
    gr_value *index;

    gr_arg_reduce_at(site, g, fn, a, axis, keep, &index);
    return index;
}

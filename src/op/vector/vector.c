/*
 * Vectors in space: cross product, dot product, length, radial bumps.
 *
 *   cross   y = a x b        da = b x dy, db = dy x a
 *
 * The others are compositions.
 */
#include "op/vector/vector.h"

#include "gradus/index.h"
#include "gradus/ops.h"

/* ---- cross ---- */

static gr_status cross_infer(gr_node *n)
{
    const gr_value *a = n->src[0], *b = n->src[1];
    int n_dims = a->shape.n_dims;

    if (!gr_shape_equal(&a->shape, &b->shape) || n_dims < 1 || a->shape.dim[n_dims - 1] != 3)
        return gr_fail(GR_ERR_ARG, "takes two [..., 3] of one shape");
    if (a->dtype != b->dtype || !gr_dtype_is_float(a->dtype))
        return gr_fail(GR_ERR_ARG, "takes one floating type, not %s and %s",
                       gr_dtype_name(a->dtype), gr_dtype_name(b->dtype));
    n->out[0].shape = a->shape;
    n->out[0].dtype = a->dtype;
    return GR_OK;
}

static gr_status cross_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    d_src[0] = gr_cross_at(n->site, g, n->src[1], d_out[0]);
    d_src[1] = gr_cross_at(n->site, g, d_out[0], n->src[0]);
    return gr_graph_status(g);
}

gr_value *gr_cross_at(const char *site, gr_graph *g, gr_value *a, gr_value *b)
{
    return gr_graph_add_value(
        g,
        &(gr_build){ .op = &gr_op_cross, .site = site, .src = (gr_value *[]){ a, b }, .n_src = 2 });
}

/* Kept as it is under mixed precision: geometry is not worth half the digits. */
const gr_op gr_op_cross = {
    .name = "cross",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = cross_infer,
    .grad = cross_grad,
    .kernels = gr_cross_cpu,
};

/* ---- compositions ---- */

static unsigned last_axis(const gr_value *a)
{
    int n_dims = gr_value_shape(a).n_dims;

    return GR_AXIS(n_dims > 0 ? n_dims - 1 : 0);
}

gr_value *gr_dot_at(const char *site, gr_graph *g, gr_value *a, gr_value *b, bool keep)
{
    gr_value *y = gr_map2_at(site, g, "mul", a, b);

    return gr_reduce_at(site, g, "sum", y, last_axis(y), keep);
}

/* Where the sum of squares is 0 the root is taken of 1, so that the gradient is 0 there
 * instead of 0 times infinity. */
gr_value *gr_norm_at(const char *site, gr_graph *g, gr_value *a, bool keep)
{
    gr_value *square = gr_map1_at(site, g, "square", a);
    gr_value *sum = gr_reduce_at(site, g, "sum", square, last_axis(a), keep);
    gr_value *is_zero = gr_mapk_at(site, g, "eq", sum, 0);
    gr_value *root = gr_map1_at(site, g, "sqrt", gr_masked_fill_at(site, g, sum, is_zero, 1));

    return gr_masked_fill_at(site, g, root, is_zero, 0);
}

gr_value *gr_rbf_at(const char *site, gr_graph *g, gr_value *a, gr_rbf_config c)
{
    float *centre = gr_arena_array(g->arena, (size_t)(c.n > 0 ? c.n : 0) + 1, sizeof(*centre));
    gr_value *y;

    if (c.n < 1 || !(c.width > 0)) {
        gr_graph_fail(g, site, "rbf: %d centres of width %g", c.n, c.width);
        return NULL;
    }
    if (!centre) {
        gr_graph_stick(g, GR_ERR_NOMEM);
        return NULL;
    }
    for (int i = 0; i < c.n; i++)
        centre[i] = (float)(c.from + (c.n > 1 ? (c.to - c.from) * i / (c.n - 1) : 0));
    y = gr_unsqueeze_at(site, g, a, -1);
    y = gr_map2_at(site, g, "sub", y, gr_constant_at(site, g, GR_F32, GR_SHAPE(c.n), centre));
    y = gr_map1_at(site, g, "square", gr_mapk_at(site, g, "mul", y, 1 / c.width));
    return gr_map1_at(site, g, "exp", gr_mapk_at(site, g, "mul", y, -c.factor));
}

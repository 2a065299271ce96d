/*
 * Reductions over any set of dimensions.
 *
 *   sum    y = sum of x              dx = dy, stretched
 *   mean   y = sum of x / n          dx = dy / n, stretched
 *   max    y = greatest x            dx = dy / t where x == y, else 0; t: how many are
 *                                    equal to it (PyTorch's amax)
 *
 * f16 and bf16 are summed in f32 and give f32; the caller narrows if it wants to.
 */
#include "op/reduce/reduce.h"

#include "gradus/ops.h"

#include <string.h>

static const char *const names[] = { [GR_SUM] = "sum", [GR_MEAN] = "mean", [GR_MAX] = "max" };
#define N_NAMES ((int)(sizeof(names) / sizeof(names[0])))

static gr_dtype wide(gr_dtype t)
{
    return t == GR_F16 || t == GR_BF16 ? GR_F32 : t;
}

static gr_status reduce_infer(gr_node *n)
{
    const gr_reduce_attr *at = n->attr;
    const gr_value *x = n->src[0];
    gr_shape *out = &n->out[0].shape;

    if (x->shape.n_dims < 32 && at->axes >> x->shape.n_dims != 0)
        return gr_fail(GR_ERR_ARG, "%s over dimension %d, but there are %d", names[at->fn],
                       31 - __builtin_clz(at->axes), x->shape.n_dims);
    if (at->fn == GR_MEAN && !gr_dtype_is_float(x->dtype))
        return gr_fail(GR_ERR_ARG, "mean takes floating types only: cast first");
    if (at->fn == GR_SUM && x->dtype == GR_BOOL)
        return gr_fail(GR_ERR_ARG, "a sum of bool would be bool: cast first");
    if (gr_dtype_is_float(at->dtype) != gr_dtype_is_float(x->dtype))
        return gr_fail(GR_ERR_ARG, "%s cannot give %s", names[at->fn], gr_dtype_name(at->dtype));
    *out = (gr_shape){ 0 };
    for (int i = 0; i < x->shape.n_dims; i++) {
        bool reduced = at->axes & GR_AXIS(i);

        if (!reduced || at->keep)
            out->dim[out->n_dims++] = reduced ? 1 : x->shape.dim[i];
    }
    n->out[0].dtype = at->dtype;
    return GR_OK;
}

/* x's shape with 1 in the place of what was reduced. */
static gr_shape kept_shape(const gr_node *n)
{
    const gr_reduce_attr *at = n->attr;
    gr_shape s = n->src[0]->shape;

    for (int i = 0; i < s.n_dims; i++)
        if (at->axes & GR_AXIS(i))
            s.dim[i] = 1;
    return s;
}

/* How many elements become one. */
static int64_t n_reduced(const gr_node *n)
{
    const gr_reduce_attr *at = n->attr;
    int64_t count = 1;

    for (int i = 0; i < n->src[0]->shape.n_dims; i++)
        if (at->axes & GR_AXIS(i))
            count *= n->src[0]->shape.dim[i];
    return count;
}

static gr_status reduce_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    const gr_reduce_attr *at = n->attr;
    const char *site = n->site;
    gr_value *x = n->src[0], *dy;

    if (!gr_dtype_is_float(x->dtype))
        return GR_OK;
    dy = gr_reshape_at(site, g, d_out[0], kept_shape(n));
    if (at->fn == GR_MEAN)
        dy = gr_mapk_at(site, g, "mul", dy, 1.0 / (double)n_reduced(n));
    if (at->fn == GR_MAX) {
        gr_value *y = gr_reshape_at(site, g, &n->out[0], kept_shape(n));
        gr_value *is_max = gr_cast_at(site, g, gr_map2_at(site, g, "eq", x, y), at->dtype);
        gr_value *ties = gr_reduce_at(site, g, "sum", is_max, at->axes, true);

        dy = gr_map2_at(site, g, "mul", is_max, gr_map2_at(site, g, "div", dy, ties));
    }
    d_src[0] = gr_cast_at(site, g, gr_broadcast_at(site, g, dy, x->shape), x->dtype);
    return gr_graph_status(g);
}

static const void *reduce_retype(gr_graph *g, const gr_node *n, gr_dtype t)
{
    gr_reduce_attr *attr = gr_arena_new(g->arena, gr_reduce_attr);

    if (!attr)
        return NULL;
    memcpy(attr, n->attr, sizeof(*attr));
    attr->dtype = t;
    return attr;
}

static void reduce_print(const gr_node *n, gr_text *out)
{
    const gr_reduce_attr *at = n->attr;

    gr_text_addf(out, " %s over", names[at->fn]);
    for (int i = 0; i < n->src[0]->shape.n_dims; i++)
        if (at->axes & GR_AXIS(i))
            gr_text_addf(out, " %d", i);
}

/* The least is the negative of the greatest negative: exact, and the gradient follows. u8
 * and bool have no negatives: they go through i32. */
static gr_value *least(const char *site, gr_graph *g, gr_value *a, unsigned axes, bool keep)
{
    gr_dtype t = gr_value_dtype(a);
    bool is_narrow = t == GR_U8 || t == GR_BOOL;
    gr_value *x = is_narrow ? gr_cast_at(site, g, a, GR_I32) : a;

    x = gr_reduce_at(site, g, "max", gr_map1_at(site, g, "neg", x), axes, keep);
    x = gr_map1_at(site, g, "neg", x);
    return is_narrow ? gr_cast_at(site, g, x, t) : x;
}

/* Sums of ones in f32 are exact up to 2^24, and fast. */
gr_value *gr_count_nonzero_at(const char *site, gr_graph *g, gr_value *a, unsigned axes, bool keep)
{
    gr_shape shape = gr_value_shape(a);
    gr_dtype t = gr_shape_count(&shape) <= 1 << 24 ? GR_F32 : GR_I64;
    gr_value *zero = gr_fill_at(site, g, gr_value_dtype(a), GR_SCALAR, 0);
    gr_value *ones = gr_cast_at(site, g, gr_map2_at(site, g, "ne", a, zero), t);

    return gr_cast_at(site, g, gr_reduce_at(site, g, "sum", ones, axes, keep), GR_I64);
}

gr_value *gr_reduce_at(const char *site, gr_graph *g, const char *fn, gr_value *a, unsigned axes,
                       bool keep)
{
    gr_reduce_attr attr = { .axes = axes, .keep = keep, .dtype = wide(gr_value_dtype(a)) };
    int id = 0;

    if (!fn) {
        gr_graph_fail(g, site, "reduce: the name of its function is NULL");
        return NULL;
    }
    if (strcmp(fn, "min") == 0)
        return least(site, g, a, axes, keep);
    while (id < N_NAMES && strcmp(names[id], fn) != 0)
        id++;
    if (id == N_NAMES) {
        gr_graph_fail(g, site, "reduce: '%s' is not one of sum, mean, max, min", fn);
        return NULL;
    }
    attr.fn = (gr_reduce_fn)id;
    if (axes == GR_AXES_ALL)
        attr.axes = (1u << gr_value_shape(a).n_dims) - 1;
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_reduce,
                                              .site = site,
                                              .src = &a,
                                              .n_src = 1,
                                              .attr = &attr,
                                              .attr_bytes = sizeof(attr) });
}

const gr_op gr_op_reduce = {
    .name = "reduce",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_WIDE,
    .infer = reduce_infer,
    .grad = reduce_grad,
    .retype = reduce_retype,
    .print = reduce_print,
    .kernels = gr_reduce_cpu,
};

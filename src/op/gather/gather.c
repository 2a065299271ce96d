/*
 * Rows by index.
 *
 *   gather        y[i, :] = table[index[i], :]          dtable = scatter_add(dy, index),
 *                                                       without the rows of `padding`
 *   scatter_add   y[j, :] = sum of rows[i, :] over the i with index[i] == j, in the order
 *                 of i                                  drows = gather(dy, index)
 *
 * An index out of range cannot be seen when the graph is built: kernels write it to the
 * launch's fault and read or write row 0 or nothing instead, and the run fails.
 */
#include "op/gather/gather.h"

#include "gradus/index.h"
#include "gradus/ops.h"

#include <string.h>

static bool is_index(gr_dtype t)
{
    return t == GR_I32 || t == GR_I64;
}

/* out = lead followed by all but the first `skip` dimensions of row. */
static gr_status join_shapes(gr_shape *out, const gr_shape *lead, const gr_shape *row, int skip)
{
    if (lead->n_dims + row->n_dims - skip > GR_MAX_DIMS)
        return gr_fail(GR_ERR_ARG, "the result would have %d dimensions, more than %d",
                       lead->n_dims + row->n_dims - skip, GR_MAX_DIMS);
    *out = *lead;
    for (int i = skip; i < row->n_dims; i++)
        out->dim[out->n_dims++] = row->dim[i];
    return GR_OK;
}

static gr_status gather_infer(gr_node *n)
{
    const gr_gather_attr *at = n->attr;
    const gr_value *table = n->src[0], *index = n->src[1];

    if (!is_index(index->dtype))
        return gr_fail(GR_ERR_ARG, "indices must be i32 or i64");
    if (table->shape.n_dims < 1)
        return gr_fail(GR_ERR_ARG, "the table has no rows: it is a single number");
    if (at->padding < -1 || at->padding >= table->shape.dim[0])
        return gr_fail(GR_ERR_ARG, "the padding row %lld is not in the table",
                       (long long)at->padding);
    n->out[0].dtype = table->dtype;
    return join_shapes(&n->out[0].shape, &index->shape, &table->shape, 1);
}

/* dy with zeros in the rows of the padding index. */
static gr_value *without_padding(gr_graph *g, const gr_node *n, gr_value *dy)
{
    const gr_gather_attr *at = n->attr;
    gr_value *index = n->src[1];
    gr_shape s = index->shape;

    if (at->padding < 0)
        return dy;
    while (s.n_dims < dy->shape.n_dims)
        s.dim[s.n_dims++] = 1;
    index = gr_reshape_at(n->site, g, index, s);
    return gr_map3_at(n->site, g, "where", gr_mapk_at(n->site, g, "ne", index, (double)at->padding),
                      dy, gr_fill_at(n->site, g, dy->dtype, GR_SCALAR, 0));
}

static gr_value *add_scatter(gr_graph *g, const char *site, gr_value *const src[2],
                             const gr_scatter_attr *attr)
{
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_scatter_add,
                                              .site = site,
                                              .src = src,
                                              .n_src = 2,
                                              .attr = attr,
                                              .attr_bytes = sizeof(*attr) });
}

static gr_status gather_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    const gr_value *table = n->src[0];
    gr_scatter_attr attr = { .n_rows = table->shape.dim[0], .dtype = table->dtype };

    if (!gr_dtype_is_float(table->dtype))
        return GR_OK;
    if (attr.dtype == GR_F16 || attr.dtype == GR_BF16)
        attr.dtype = GR_F32;
    d_src[0] = add_scatter(g, n->site, (gr_value *[]){ without_padding(g, n, d_out[0]), n->src[1] },
                           &attr);
    d_src[0] = gr_cast_at(n->site, g, d_src[0], table->dtype);
    return gr_graph_status(g);
}

gr_value *gr_embedding_at(const char *site, gr_graph *g, gr_value *table, gr_value *index,
                          int64_t padding)
{
    gr_gather_attr attr = { .padding = padding };

    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_gather,
                                              .site = site,
                                              .src = (gr_value *[]){ table, index },
                                              .n_src = 2,
                                              .attr = &attr,
                                              .attr_bytes = sizeof(attr) });
}

gr_value *gr_gather_at(const char *site, gr_graph *g, gr_value *table, gr_value *index)
{
    return gr_embedding_at(site, g, table, index, -1);
}

const gr_op gr_op_gather = {
    .name = "gather",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_FOLLOW,
    .infer = gather_infer,
    .grad = gather_grad,
    .kernels = gr_gather_cpu,
};

/* ---- scatter_add ---- */

static gr_status scatter_infer(gr_node *n)
{
    const gr_scatter_attr *at = n->attr;
    const gr_shape *rows = &n->src[0]->shape, *index = &n->src[1]->shape;
    gr_shape lead = { .n_dims = 1, .dim = { at->n_rows } };

    if (!is_index(n->src[1]->dtype))
        return gr_fail(GR_ERR_ARG, "indices must be i32 or i64");
    if (!gr_dtype_is_float(n->src[0]->dtype) || !gr_dtype_is_float(at->dtype))
        return gr_fail(GR_ERR_ARG, "takes and gives floating types only");
    if (rows->n_dims < index->n_dims ||
        memcmp(rows->dim, index->dim, (size_t)index->n_dims * sizeof(index->dim[0])) != 0)
        return gr_fail(GR_ERR_ARG, "the rows' shape must begin with the indices' shape");
    n->out[0].dtype = at->dtype;
    return join_shapes(&n->out[0].shape, &lead, rows, index->n_dims);
}

static gr_status scatter_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    d_src[0] = gr_gather_at(n->site, g, d_out[0], n->src[1]);
    d_src[0] = gr_cast_at(n->site, g, d_src[0], n->src[0]->dtype);
    return gr_graph_status(g);
}

static const void *scatter_retype(gr_graph *g, const gr_node *n, gr_dtype t)
{
    gr_scatter_attr *attr = gr_arena_new(g->arena, gr_scatter_attr);

    if (!attr)
        return NULL;
    memcpy(attr, n->attr, sizeof(*attr));
    attr->dtype = t;
    return attr;
}

static void scatter_print(const gr_node *n, gr_text *out)
{
    const gr_scatter_attr *at = n->attr;

    gr_text_addf(out, " into %lld rows", (long long)at->n_rows);
}

gr_value *gr_scatter_add_at(const char *site, gr_graph *g, gr_value *rows, gr_value *index,
                            int64_t n_rows)
{
    gr_scatter_attr attr = { .n_rows = n_rows, .dtype = gr_value_dtype(rows) };

    if (attr.dtype == GR_F16 || attr.dtype == GR_BF16)
        attr.dtype = GR_F32;
    return add_scatter(g, site, (gr_value *[]){ rows, index }, &attr);
}

const gr_op gr_op_scatter_add = {
    .name = "scatter_add",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_WIDE,
    .infer = scatter_infer,
    .grad = scatter_grad,
    .retype = scatter_retype,
    .print = scatter_print,
    .kernels = gr_scatter_add_cpu,
};

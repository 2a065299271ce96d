/* Rules and builders of synchronised batch norm. */
#include "op/norm/sync.h"

/* ---- rules ---- */

static gr_status want_vectors(const gr_node *n, int n_vectors)
{
    const gr_value *first = n->src[0];

    for (int s = 0; s < n_vectors; s++)
        if (n->src[s]->shape.n_dims != 1 || !gr_shape_equal(&n->src[s]->shape, &first->shape) ||
            n->src[s]->dtype != first->dtype || !gr_dtype_is_float(first->dtype))
            return gr_fail(GR_ERR_ARG, "takes %d vectors of one length and floating type",
                           n_vectors);
    return GR_OK;
}

static gr_status want_stats(const gr_node *n)
{
    GR_TRY(want_vectors(n, 2));
    if (n->src[2]->shape.n_dims != 0 || n->src[2]->dtype != n->src[0]->dtype)
        return gr_fail(GR_ERR_ARG, "takes a count that is one number of the vectors' type");
    return GR_OK;
}

static gr_status share_stats_infer(gr_node *n)
{
    const gr_sync_attr *a = n->attr;

    GR_TRY(want_stats(n));
    n->out[0].shape = GR_SHAPE(a->n_ranks, 2 * n->src[0]->shape.dim[0] + 1);
    n->out[0].dtype = n->src[0]->dtype;
    return GR_OK;
}

static gr_status share_sums_infer(gr_node *n)
{
    GR_TRY(want_vectors(n, 2));
    n->out[0].shape = GR_SHAPE(2, n->src[0]->shape.dim[0]);
    n->out[0].dtype = n->src[0]->dtype;
    return GR_OK;
}

/* The length of the vectors that a sync node gives; -1: its sources make no sense. */
static int64_t channels(const gr_node *n, bool stats)
{
    const gr_shape *s = &n->src[0]->shape;

    if (n->n_src != 1)
        return s->n_dims == 1 ? s->dim[0] : -1;
    if (s->n_dims != 2 || (stats ? s->dim[1] % 2 != 1 : s->dim[0] != 2))
        return -1;
    return stats ? (s->dim[1] - 1) / 2 : s->dim[1];
}

static gr_status sync_infer(gr_node *n, bool stats)
{
    int64_t c;

    if (n->n_src != 1 && n->n_src != (stats ? 3 : 2))
        return gr_fail(GR_ERR_ARG, "takes %d inputs or one, got %d", stats ? 3 : 2, n->n_src);
    c = channels(n, stats);
    if (c < 0)
        return gr_fail(GR_ERR_ARG, "takes what its share node gives");
    for (int o = 0; o < n->n_out; o++) {
        n->out[o].shape = o < 2 ? gr_shape_of(1, &c) : GR_SCALAR;
        n->out[o].dtype = n->src[0]->dtype;
    }
    return GR_OK;
}

static gr_status sync_stats_infer(gr_node *n)
{
    if (n->n_src == 3)
        GR_TRY(want_stats(n));
    return sync_infer(n, true);
}

static gr_status sync_sums_infer(gr_node *n)
{
    if (n->n_src == 2)
        GR_TRY(want_vectors(n, 2));
    return sync_infer(n, false);
}

static void print_name(const gr_node *n, gr_text *out)
{
    gr_text_addf(out, " '%s'", ((const gr_sync_attr *)n->attr)->name);
}

const gr_op gr_op_share_stats = {
    .name = "share_stats",
    .n_src = 3,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = share_stats_infer,
    .print = print_name,
    .kernels = gr_share_stats_cpu,
};

const gr_op gr_op_sync_stats = {
    .name = "sync_stats",
    .n_src = GR_ANY_COUNT,
    .n_out = 3,
    .amp = GR_AMP_KEEP,
    .infer = sync_stats_infer,
    .print = print_name,
    .kernels = gr_sync_stats_cpu,
};

const gr_op gr_op_share_sums = {
    .name = "share_sums",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = share_sums_infer,
    .print = print_name,
    .kernels = gr_share_sums_cpu,
};

const gr_op gr_op_sync_sums = {
    .name = "sync_sums",
    .n_src = GR_ANY_COUNT,
    .n_out = 2,
    .amp = GR_AMP_KEEP,
    .infer = sync_sums_infer,
    .print = print_name,
    .kernels = gr_sync_sums_cpu,
};

/* ---- builders ---- */

static gr_node *add(gr_graph *g, const char *site, const gr_op *op, gr_node *from,
                    const gr_sync_attr *a)
{
    gr_value *src[3] = { &from->out[0], &from->out[1], from->n_out > 2 ? &from->out[2] : NULL };

    return gr_graph_add(g, &(gr_build){ .op = op,
                                        .site = site,
                                        .src = src,
                                        .n_src = from->n_out,
                                        .attr = a,
                                        .attr_bytes = sizeof(*a) });
}

gr_node *gr_sync_stats_add(gr_graph *g, const char *site, gr_node *stats, const char *name)
{
    gr_sync_attr a = { .name = name, .key = stats->id };

    return add(g, site, &gr_op_sync_stats, stats, &a);
}

gr_node *gr_sync_sums_add(gr_graph *g, const gr_node *norm, gr_node *sums, const char *name)
{
    gr_sync_attr a = { .name = name, .key = norm->id };

    return add(g, norm->site, &gr_op_sync_sums, sums, &a);
}

bool gr_sync_is_open(const gr_node *n)
{
    return (n->op == &gr_op_sync_stats || n->op == &gr_op_sync_sums) && n->n_src > 1;
}

gr_value *gr_sync_share(gr_graph *g, const gr_node *n, int rank, int n_ranks)
{
    gr_sync_attr a = *(const gr_sync_attr *)n->attr;
    const gr_op *op = n->op == &gr_op_sync_stats ? &gr_op_share_stats : &gr_op_share_sums;

    a.rank = rank;
    a.n_ranks = n_ranks;
    return gr_graph_add_value(g, &(gr_build){ .op = op,
                                              .site = n->site,
                                              .src = n->src,
                                              .n_src = n->n_src,
                                              .attr = &a,
                                              .attr_bytes = sizeof(a) });
}

void gr_sync_close(gr_node *n, gr_value *reduced)
{
    n->src[0] = reduced;
    n->n_src = 1;
}

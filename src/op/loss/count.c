/* Rules, builders and kernels of counts over all ranks: a few numbers. */
#include "op/loss/count.h"

static gr_status want_scalars(const gr_node *n)
{
    for (int s = 0; s < n->n_src; s++)
        if (gr_shape_count(&n->src[s]->shape) != 1 || n->src[s]->dtype != GR_F32)
            return gr_fail(GR_ERR_ARG, "count %d is not one number of f32", s);
    return GR_OK;
}

static gr_status share_infer(gr_node *n)
{
    int64_t k = n->n_src;

    GR_TRY(want_scalars(n));
    n->out[0].shape = gr_shape_of(1, &k);
    n->out[0].dtype = GR_F64;
    return GR_OK;
}

static gr_status sync_infer(gr_node *n)
{
    if (gr_sync_counts_is_open(n))
        GR_TRY(want_scalars(n));
    else if (n->n_src != 1 || gr_shape_count(&n->src[0]->shape) != n->n_out)
        return gr_fail(GR_ERR_ARG, "takes the row of its share node");
    for (int i = 0; i < n->n_out; i++) {
        n->out[i].shape = GR_SCALAR;
        n->out[i].dtype = GR_F32;
    }
    return GR_OK;
}

static gr_status run_share(const gr_launch *l)
{
    for (int i = 0; i < l->node->n_src; i++)
        ((double *)l->out[0])[i] = (double)*(const float *)l->src[i];
    return GR_OK;
}

static gr_status run_sync(const gr_launch *l)
{
    const gr_count_sync_attr *a = l->node->attr;

    for (int i = 0; i < l->node->n_out; i++)
        *(float *)l->out[i] = (float)(((const double *)l->src[0])[i] / a->n_ranks);
    return GR_OK;
}

static const char *reject_open(const gr_node *n)
{
    return gr_sync_counts_is_open(n) ? "its numbers have not been exchanged" : NULL;
}

static const gr_kernel share_cpu[] = {
    { .name = "reference", .run = run_share },
    { .name = NULL },
};

static const gr_kernel sync_cpu[] = {
    { .name = "reference", .reject = reject_open, .run = run_sync },
    { .name = NULL },
};

const gr_op gr_op_share_counts = {
    .name = "share_counts",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = share_infer,
    .kernels = share_cpu,
};

const gr_op gr_op_sync_counts = {
    .name = "sync_counts",
    .n_src = GR_ANY_COUNT,
    .n_out = GR_ANY_COUNT,
    .amp = GR_AMP_KEEP,
    .infer = sync_infer,
    .kernels = sync_cpu,
};

gr_node *gr_sync_counts_add(gr_graph *g, gr_value **counts, int n, const gr_count_sync_attr *a)
{
    return gr_graph_add(g, &(gr_build){ .op = &gr_op_sync_counts,
                                        .site = "loss",
                                        .src = counts,
                                        .n_src = n,
                                        .n_out = n,
                                        .attr = a,
                                        .attr_bytes = sizeof(*a) });
}

bool gr_sync_counts_is_open(const gr_node *n)
{
    return n->op == &gr_op_sync_counts && n->src[0]->dtype == GR_F32;
}

gr_value *gr_share_counts_add(gr_graph *g, const gr_node *n)
{
    return gr_graph_add_value(
        g, &(gr_build){
               .op = &gr_op_share_counts, .site = n->site, .src = n->src, .n_src = n->n_src });
}

void gr_sync_counts_close(gr_node *n, gr_value *reduced)
{
    n->src[0] = reduced;
    n->n_src = 1;
}

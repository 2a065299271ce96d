/* Rules, builders and kernels of counts and sums over all ranks: a few numbers. */
#include "op/loss/count.h"

/* Numbers in each source. */
static int64_t width_of(const gr_node *n)
{
    int64_t k = gr_shape_count(&n->src[0]->shape);

    return k > 0 ? k : 1;
}

static gr_status want_rows(const gr_node *n, int64_t width)
{
    for (int s = 0; s < n->n_src; s++)
        if (gr_shape_count(&n->src[s]->shape) != width || n->src[s]->dtype != GR_F32)
            return gr_fail(GR_ERR_ARG, "count %d is not %lld of f32", s, (long long)width);
    return GR_OK;
}

static int64_t synced_width(const gr_node *n)
{
    const gr_count_sync_attr *a = n->attr;

    return a->n_elem > 0 ? a->n_elem : 1;
}

static gr_status share_infer(gr_node *n)
{
    int64_t k = n->n_src * width_of(n);

    GR_TRY(want_rows(n, width_of(n)));
    n->out[0].shape = gr_shape_of(1, &k);
    n->out[0].dtype = GR_F64;
    return GR_OK;
}

static gr_status sync_infer(gr_node *n)
{
    const gr_count_sync_attr *a = n->attr;

    if (gr_sync_counts_is_open(n))
        GR_TRY(want_rows(n, synced_width(n)));
    else if (n->n_src != 1 || gr_shape_count(&n->src[0]->shape) != n->n_out * synced_width(n))
        return gr_fail(GR_ERR_ARG, "takes the row of its share node");
    for (int i = 0; i < n->n_out; i++) {
        n->out[i].shape = a->n_elem > 0 ? GR_SHAPE(a->n_elem) : GR_SCALAR;
        n->out[i].dtype = GR_F32;
    }
    return GR_OK;
}

static gr_status run_share(const gr_launch *l)
{
    int64_t width = width_of(l->node);
    double *out = l->out[0];

    for (int i = 0; i < l->node->n_src; i++)
        for (int64_t e = 0; e < width; e++)
            *out++ = (double)((const float *)l->src[i])[e];
    return GR_OK;
}

static gr_status run_sync(const gr_launch *l)
{
    const gr_count_sync_attr *a = l->node->attr;
    const double *row = l->src[0];
    int64_t width = synced_width(l->node);

    for (int i = 0; i < l->node->n_out; i++)
        for (int64_t e = 0; e < width; e++)
            ((float *)l->out[i])[e] = (float)(*row++ / a->n_ranks);
    return GR_OK;
}

static gr_status sync_grad(gr_graph *g, gr_node *n, gr_value *const *d_out, gr_value **d_src)
{
    for (int i = 0; i < n->n_src; i++)
        d_src[i] = d_out[i];
    return gr_graph_status(g);
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
    .grad = sync_grad,
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

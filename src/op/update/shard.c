/* Rules of the norm of gradients that are cut up between ranks. */
#include "op/update/shard.h"

static void place(gr_value *v, gr_dtype t, int64_t n)
{
    v->shape = gr_shape_of(1, &n);
    v->dtype = t;
    v->space = GR_SPACE_EXCHANGE;
}

static gr_status squares_infer(gr_node *n)
{
    const gr_shard_norm *a = (const gr_shard_norm *)n->attr;

    for (int i = 0; i < a->n_pieces; i++) {
        const gr_norm_piece *p = &a->piece[i];

        if (p->share < 0 || p->share >= n->n_src || n->src[p->share]->dtype != GR_F32 ||
            p->at + p->n > gr_shape_count(&n->src[p->share]->shape))
            return gr_fail(GR_ERR_ARG, "piece %d does not lie in a share", i);
    }
    place(&n->out[0], GR_F64, a->n_blocks);
    place(&n->out[1], GR_F32, a->n_cut_elems);
    return GR_OK;
}

static gr_status control_infer(gr_node *n)
{
    const gr_shard_control_attr *a = (const gr_shard_control_attr *)n->attr;
    int first = a->of.has_scale;

    if (n->n_src != first + 2)
        return gr_fail(GR_ERR_ARG, "takes %d sources, got %d", first + 2, n->n_src);
    if (n->src[first]->dtype != GR_F64 ||
        gr_shape_count(&n->src[first]->shape) != a->norm.n_blocks ||
        gr_shape_count(&n->src[first + 1]->shape) != a->norm.n_cut_elems)
        return gr_fail(GR_ERR_ARG, "sums and cuts are not those of shard_squares");
    n->out[0].shape = gr_shape_of(1, (const int64_t[]){ GR_CONTROL_COUNT });
    n->out[0].dtype = GR_F32;
    return GR_OK;
}

static void squares_print(const gr_node *n, gr_text *out)
{
    const gr_shard_norm *a = (const gr_shard_norm *)n->attr;

    gr_text_addf(out, " blocks=%lld cut=%d", (long long)a->n_blocks, a->n_cuts);
}

static void control_print(const gr_node *n, gr_text *out)
{
    const gr_shard_control_attr *a = (const gr_shard_control_attr *)n->attr;

    gr_text_addf(out, " max_norm=%g%s", a->of.max_norm, a->of.has_scale ? " scale" : "");
}

const gr_op gr_op_shard_squares = {
    .name = "shard_squares",
    .n_src = GR_ANY_COUNT,
    .n_out = 2,
    .amp = GR_AMP_KEEP,
    .infer = squares_infer,
    .print = squares_print,
    .kernels = gr_shard_squares_cpu,
};

const gr_op gr_op_shard_control = {
    .name = "shard_control",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = control_infer,
    .print = control_print,
    .kernels = gr_shard_control_cpu,
};

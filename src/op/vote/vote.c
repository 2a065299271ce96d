/* Rules of the operators in vote.h. None has a gradient: they come after the backward pass. */
#include "op/vote/vote.h"
#include "op/update/update.h"

static gr_status want(const gr_node *n, int s, gr_dtype t, const gr_shape *shape)
{
    char a[GR_SHAPE_TEXT], b[GR_SHAPE_TEXT];
    const gr_value *v = n->src[s];

    if (v->dtype == t && gr_shape_equal(&v->shape, shape))
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "input %d must be %s %s, not %s %s", s, gr_dtype_name(t),
                   gr_shape_text(shape, a, sizeof(a)), gr_dtype_name(v->dtype),
                   gr_shape_text(&v->shape, b, sizeof(b)));
}

/* Output o is the new value of the variable in source s. */
static void in_place(gr_node *n, int o, int s)
{
    n->out[o].shape = n->src[s]->shape;
    n->out[o].dtype = n->src[s]->dtype;
    n->out[o].space = n->src[s]->space;
    n->out[o].alias = n->src[s];
    n->out[o].var = n->src[s]->var;
}

static gr_status vote_infer(gr_node *n)
{
    const gr_shape scalar = GR_SCALAR;
    const gr_value *loss = n->src[1];
    char text[GR_SHAPE_TEXT];

    GR_TRY(want(n, 0, GR_I32, &scalar));
    if (gr_shape_count(&loss->shape) != 1 || !gr_dtype_is_float(loss->dtype))
        return gr_fail(GR_ERR_ARG, "input 1 must be one floating number, not %s %s",
                       gr_dtype_name(loss->dtype), gr_shape_text(&loss->shape, text, sizeof(text)));
    in_place(n, 0, 0);
    n->out[1].shape = GR_SHAPE(GR_VOTE_COUNT);
    n->out[1].dtype = GR_I32;
    return GR_OK;
}

const gr_op gr_op_vote = {
    .name = "vote",
    .n_src = 2,
    .n_out = 2,
    .amp = GR_AMP_KEEP,
    .infer = vote_infer,
    .kernels = gr_vote_cpu,
};

static gr_status verdict_infer(gr_node *n)
{
    const gr_shape record = GR_SHAPE(GR_RECORD_COUNT), control = GR_SHAPE(GR_CONTROL_COUNT),
                   vote = GR_SHAPE(GR_VOTE_COUNT);

    GR_TRY(want(n, 0, GR_I32, &record));
    GR_TRY(want(n, 1, GR_F32, &control));
    GR_TRY(want(n, 2, GR_I32, &vote));
    in_place(n, 0, 0);
    n->out[1].shape = control;
    n->out[1].dtype = GR_F32;
    return GR_OK;
}

static void verdict_print(const gr_node *n, gr_text *out)
{
    gr_text_add(out, ((const gr_verdict_attr *)n->attr)->halts ? " halts" : "");
}

const gr_op gr_op_verdict = {
    .name = "verdict",
    .n_src = 3,
    .n_out = 2,
    .amp = GR_AMP_KEEP,
    .infer = verdict_infer,
    .print = verdict_print,
    .kernels = gr_verdict_cpu,
};

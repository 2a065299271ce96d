/*
 * Rules of the operators in update.h: what they take, and that each state output lies
 * where the variable lay. None has a gradient: they come after the backward pass.
 */
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

static gr_status want_count(const gr_node *n, int count)
{
    if (n->n_src == count)
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "takes %d inputs, got %d", count, n->n_src);
}

static gr_status want_control(const gr_node *n, int s)
{
    gr_shape four = gr_shape_of(1, (const int64_t[]){ GR_CONTROL_COUNT });

    return want(n, s, GR_F32, &four);
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

static gr_status accumulate_infer(gr_node *n)
{
    GR_TRY(want(n, 0, GR_F32, &n->src[0]->shape));
    n->out[0].shape = n->src[0]->shape;
    n->out[0].dtype = GR_F32;
    return GR_OK;
}

const gr_op gr_op_accumulate = {
    .name = "accumulate",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .has_effect = true, /* what it sums up is read in another run */
    .infer = accumulate_infer,
    .kernels = gr_accumulate_cpu,
};

static gr_status accumulate_scaled_infer(gr_node *n)
{
    gr_shape scalar = GR_SCALAR;

    GR_TRY(want(n, 1, GR_F32, &scalar));
    return accumulate_infer(n);
}

const gr_op gr_op_accumulate_scaled = {
    .name = "accumulate_scaled",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .has_effect = true,
    .infer = accumulate_scaled_infer,
    .kernels = gr_accumulate_scaled_cpu,
};

static gr_status control_infer(gr_node *n)
{
    const gr_control_attr *a = n->attr;
    gr_shape scalar = GR_SCALAR;

    if (n->n_src < 1 + a->has_scale)
        return gr_fail(GR_ERR_ARG, "takes at least one gradient");
    if (a->has_scale)
        GR_TRY(want(n, 0, GR_F32, &scalar));
    for (int s = a->has_scale; s < n->n_src; s++)
        GR_TRY(want(n, s, GR_F32, &n->src[s]->shape));
    n->out[0].shape = gr_shape_of(1, (const int64_t[]){ GR_CONTROL_COUNT });
    n->out[0].dtype = GR_F32;
    return GR_OK;
}

static void control_print(const gr_node *n, gr_text *out)
{
    const gr_control_attr *a = n->attr;

    gr_text_addf(out, " max_norm=%g%s", a->max_norm, a->has_scale ? " scale" : "");
}

const gr_op gr_op_grad_control = {
    .name = "grad_control",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = control_infer,
    .print = control_print,
    .kernels = gr_grad_control_cpu,
};

static gr_status count_infer(gr_node *n)
{
    const gr_count_attr *a = n->attr;
    gr_shape scalar = GR_SCALAR;

    GR_TRY(want_count(n, 2 + a->has_control));
    GR_TRY(want(n, 0, GR_I64, &scalar));
    GR_TRY(want(n, 1, GR_I64, &scalar));
    if (a->has_control)
        GR_TRY(want_control(n, 2));
    in_place(n, 0, 0);
    in_place(n, 1, 1);
    return GR_OK;
}

const gr_op gr_op_count_step = {
    .name = "count_step",
    .n_src = GR_ANY_COUNT,
    .n_out = 2,
    .amp = GR_AMP_KEEP,
    .infer = count_infer,
    .kernels = gr_count_step_cpu,
};

static gr_status scale_infer(gr_node *n)
{
    gr_shape scalar = GR_SCALAR;

    GR_TRY(want(n, 0, GR_F32, &scalar));
    GR_TRY(want(n, 1, GR_I64, &scalar));
    GR_TRY(want_control(n, 2));
    in_place(n, 0, 0);
    in_place(n, 1, 1);
    return GR_OK;
}

const gr_op gr_op_scale_update = {
    .name = "scale_update",
    .n_src = 3,
    .n_out = 2,
    .amp = GR_AMP_KEEP,
    .infer = scale_infer,
    .kernels = gr_scale_update_cpu,
};

static gr_status check_range(int64_t first, int64_t n, int64_t count)
{
    if (first >= 0 && n >= 0 && first <= count && n <= count - first)
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "elements %lld to %lld of %lld", (long long)first,
                   (long long)first + (long long)n, (long long)count);
}

/* The shape of what goes along with the parameter in source s: its own, or its part's. */
static gr_status companion_shape(const gr_node *n, int s, const gr_update_part *part, gr_shape *out)
{
    *out = n->src[s]->shape;
    if (!part)
        return GR_OK;
    GR_TRY(check_range(part->of.first, part->of.n, gr_shape_count(out)));
    if (!part->in_whole)
        *out = gr_shape_of(1, &part->of.n);
    return GR_OK;
}

/* Source 1 of an update: the gradient of source 0, or a row in which that of the part lies. */
static gr_status want_grad(const gr_node *n, const gr_update_attr *a)
{
    const gr_value *grad = n->src[1];

    if (!a->has_part)
        return want(n, 1, GR_F32, &n->src[0]->shape);
    GR_TRY(want(n, 1, GR_F32, &grad->shape));
    return check_range(a->part.grad_at, a->part.of.n, gr_shape_count(&grad->shape));
}

static const gr_update_part *part_of(const gr_update_attr *a)
{
    return a->has_part ? &a->part : NULL;
}

static void print_part(const gr_update_part *part, gr_text *out)
{
    if (part)
        gr_text_addf(out, " part=%lld+%lld%s", (long long)part->of.first, (long long)part->of.n,
                     part->in_whole ? " in whole" : "");
}

/* The copy in 16 bits, if there is one, becomes output `o`. */
static gr_status infer_copy(gr_node *n, const gr_update_attr *a, int o)
{
    int s = n->n_src - 1;

    if (n->n_out != o + a->has_copy)
        return gr_fail(GR_ERR_ARG, "gives %d results, asked for %d", o + a->has_copy, n->n_out);
    if (!a->has_copy)
        return GR_OK;
    if (gr_dtype_bytes(n->src[s]->dtype) != 2 || !gr_dtype_is_float(n->src[s]->dtype))
        return gr_fail(GR_ERR_ARG, "the copy must be bf16 or f16, not %s",
                       gr_dtype_name(n->src[s]->dtype));
    GR_TRY(want(n, s, n->src[s]->dtype, &n->src[0]->shape));
    in_place(n, o, s);
    return GR_OK;
}

static gr_status sgd_infer(gr_node *n)
{
    const gr_sgd_attr *a = n->attr;
    bool has_buffer = a->momentum != 0;
    const gr_shape *shape = &n->src[0]->shape;
    int buffer = 2 + a->of.has_control;
    gr_shape own;

    GR_TRY(want_count(n, buffer + has_buffer + a->of.has_copy));
    GR_TRY(want(n, 0, GR_F32, shape));
    GR_TRY(want_grad(n, &a->of));
    if (a->of.has_control)
        GR_TRY(want_control(n, 2));
    in_place(n, 0, 0);
    /* Without momentum the second output is an empty token. */
    n->out[1].shape = gr_shape_of(1, (const int64_t[]){ 0 });
    n->out[1].dtype = GR_F32;
    n->out[1].space = GR_SPACE_NONE;
    GR_TRY(companion_shape(n, 0, part_of(&a->of), &own));
    if (has_buffer) {
        GR_TRY(want(n, buffer, GR_F32, &own));
        in_place(n, 1, buffer);
    }
    return infer_copy(n, &a->of, 2);
}

static void print_own(const gr_update_attr *a, gr_text *out)
{
    gr_text_addf(out, " weight_decay=%g", a->weight_decay);
    if (a->lr_scale != 1)
        gr_text_addf(out, " lr_scale=%g", a->lr_scale);
    if (a->clip_value > 0)
        gr_text_addf(out, " clip_value=%g", a->clip_value);
    if (a->has_copy)
        gr_text_add(out, " copy");
    print_part(part_of(a), out);
}

static void sgd_print(const gr_node *n, gr_text *out)
{
    const gr_sgd_attr *a = n->attr;

    gr_text_addf(out, " momentum=%g%s", a->momentum, a->nesterov ? " nesterov" : "");
    print_own(&a->of, out);
}

const gr_op gr_op_sgd = {
    .name = "sgd",
    .n_src = GR_ANY_COUNT,
    .n_out = GR_ANY_COUNT,
    .amp = GR_AMP_KEEP,
    .infer = sgd_infer,
    .print = sgd_print,
    .kernels = gr_sgd_cpu,
};

static gr_status adamw_infer(gr_node *n)
{
    const gr_adamw_attr *a = n->attr;
    const gr_shape *shape = &n->src[0]->shape;
    gr_shape scalar = GR_SCALAR, own;
    int first = 3 + a->of.has_control;

    GR_TRY(want_count(n, 5 + a->of.has_control + a->of.has_copy));
    GR_TRY(want(n, 0, GR_F32, shape));
    GR_TRY(want_grad(n, &a->of));
    GR_TRY(want(n, 2, GR_I64, &scalar));
    if (a->of.has_control)
        GR_TRY(want_control(n, 3));
    GR_TRY(companion_shape(n, 0, part_of(&a->of), &own));
    GR_TRY(want(n, first, GR_F32, &own));
    GR_TRY(want(n, first + 1, GR_F32, &own));
    in_place(n, 0, 0);
    in_place(n, 1, first);
    in_place(n, 2, first + 1);
    return infer_copy(n, &a->of, 3);
}

static void adamw_print(const gr_node *n, gr_text *out)
{
    const gr_adamw_attr *a = n->attr;

    gr_text_addf(out, " beta1=%g beta2=%g eps=%g%s", a->beta1, a->beta2, a->eps,
                 a->l2 ? " l2" : "");
    print_own(&a->of, out);
}

const gr_op gr_op_adamw = {
    .name = "adamw",
    .n_src = GR_ANY_COUNT,
    .n_out = GR_ANY_COUNT,
    .amp = GR_AMP_KEEP,
    .infer = adamw_infer,
    .print = adamw_print,
    .kernels = gr_adamw_cpu,
};

static gr_status ema_infer(gr_node *n)
{
    const gr_ema_attr *a = n->attr;
    gr_shape scalar = GR_SCALAR, own;

    GR_TRY(want_count(n, 3 + a->has_control));
    GR_TRY(want(n, 1, GR_F32, a->has_part ? &n->src[1]->shape : &n->src[0]->shape));
    GR_TRY(companion_shape(n, 1, a->has_part ? &a->part : NULL, &own));
    GR_TRY(want(n, 0, GR_F32, &own));
    GR_TRY(want(n, 2, GR_I64, &scalar));
    if (a->has_control)
        GR_TRY(want_control(n, 3));
    in_place(n, 0, 0);
    return GR_OK;
}

static void ema_print(const gr_node *n, gr_text *out)
{
    const gr_ema_attr *a = n->attr;

    gr_text_addf(out, " decay=%g", a->decay);
    print_part(a->has_part ? &a->part : NULL, out);
}

const gr_op gr_op_ema = {
    .name = "ema",
    .n_src = GR_ANY_COUNT,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = ema_infer,
    .print = ema_print,
    .kernels = gr_ema_cpu,
};

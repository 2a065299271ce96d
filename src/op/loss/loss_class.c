/*
 * Losses over classes: cross-entropy in its forms, entropy, Kullback-Leibler. Builders only:
 * they are compositions of softmax_xent, log_softmax, map and reduce.
 */
#include "gradus/loss.h"
#include "op/loss/loss.h"
#include "op/xent/xent.h"

/* [.., c] as rows, and labels [..] as one per row; false after a failure. */
static bool as_rows(const char *site, gr_graph *g, gr_value **logits, gr_value **labels)
{
    gr_shape x = gr_value_shape(*logits), y = gr_value_shape(*labels), lead = x;
    char text[2][GR_SHAPE_TEXT];

    if (!gr_graph_given(g, site, "cross_entropy", *logits) ||
        !gr_graph_given(g, site, "cross_entropy", *labels))
        return false;
    lead.n_dims--;
    if (x.n_dims < 1 || !gr_shape_equal(&lead, &y)) {
        gr_graph_fail(g, site,
                      "cross_entropy: logits %s need labels without the last dimension, "
                      "not %s",
                      gr_shape_text(&x, text[0], sizeof(text[0])),
                      gr_shape_text(&y, text[1], sizeof(text[1])));
        return false;
    }
    if (x.n_dims == 2)
        return true;
    *logits = gr_reshape_at(site, g, *logits, GR_SHAPE(gr_shape_count(&y), x.dim[x.n_dims - 1]));
    *labels = gr_reshape_at(site, g, *labels, GR_SHAPE(gr_shape_count(&y)));
    return *logits && *labels;
}

/* What options left out are. */
static gr_cross_entropy_options options_of(const gr_cross_entropy_options *o)
{
    return o ? *o : (gr_cross_entropy_options)GR_CROSS_ENTROPY_INIT;
}

/* One loss per row. */
static gr_value *rows_of(const char *site, gr_graph *g, gr_value *logits, gr_value *labels,
                         const gr_cross_entropy_options *o)
{
    gr_xent_attr at = { .has_ignore = true,
                        .ignore = o->ignore_index,
                        .smoothing = o->label_smoothing };

    return gr_xent_add(site, g, logits, labels, o->weight, at);
}

gr_value *gr_cross_entropy_each_at(const char *site, gr_graph *g, gr_value *logits,
                                   gr_value *labels, const gr_cross_entropy_options *o)
{
    const gr_cross_entropy_options all = options_of(o);
    gr_shape shape = gr_value_shape(labels);
    gr_value *loss;

    if (!as_rows(site, g, &logits, &labels))
        return NULL;
    loss = rows_of(site, g, logits, labels, &all);
    return loss && shape.n_dims != 1 ? gr_reshape_at(site, g, loss, shape) : loss;
}

/* Labels that count; with weights the sum of theirs. Computed from integers and constants, so
 * that no gradient passes here. */
static gr_value *count_of(const char *site, gr_graph *g, gr_value *labels,
                          const gr_cross_entropy_options *o, gr_dtype t)
{
    gr_value *valid = gr_mapk_at(site, g, "ne", labels, (double)o->ignore_index), *w;

    if (!o->weight) {
        w = gr_count_nonzero_at(site, g, valid, GR_AXES_ALL, false);
        return w ? gr_cast_at(site, g, w, t) : NULL;
    }
    labels = gr_map2_at(site, g, "mul", labels, valid); /* ignored ones: class 0, then nothing */
    w = labels ? gr_gather_at(site, g, o->weight, labels) : NULL;
    w = w ? gr_map2_at(site, g, "mul", w, valid) : NULL;
    return w ? gr_reduce_at(site, g, "sum", w, GR_AXES_ALL, false) : NULL;
}

gr_value *gr_cross_entropy_parts_at(const char *site, gr_graph *g, gr_value *logits,
                                    gr_value *labels, const gr_cross_entropy_options *o,
                                    gr_value **count)
{
    const gr_cross_entropy_options all = options_of(o);
    gr_value *loss;

    *count = NULL;
    if (!as_rows(site, g, &logits, &labels))
        return NULL;
    loss = rows_of(site, g, logits, labels, &all);
    if (!loss)
        return NULL;
    *count = count_of(site, g, labels, &all, gr_value_dtype(loss));
    return gr_reduce_at(site, g, "sum", loss, GR_AXES_ALL, false);
}

gr_value *gr_cross_entropy_mean_at(const char *site, gr_graph *g, gr_value *logits,
                                   gr_value *labels, const gr_cross_entropy_options *o)
{
    gr_value *count, *sum = gr_cross_entropy_parts_at(site, g, logits, labels, o, &count);

    return gr_loss_ratio(site, g, sum, count);
}

gr_value *gr_soft_cross_entropy_each_at(const char *site, gr_graph *g, gr_value *logits,
                                        gr_value *target)
{
    gr_value *y;

    if (!gr_graph_given(g, site, "soft_cross_entropy", logits))
        return NULL;
    y = gr_log_softmax_at(site, g, logits, -1);
    y = gr_map2_at(site, g, "mul", y, target);
    if (!y)
        return NULL;
    y = gr_reduce_at(site, g, "sum", y, GR_AXIS(y->shape.n_dims - 1), false);
    return y ? gr_map1_at(site, g, "neg", y) : NULL;
}

/* exp(lp) lp: the softmax again, from its logarithm. */
gr_value *gr_neg_entropy_at(const char *site, gr_graph *g, gr_value *logits)
{
    static const gr_program program = {
        .n_src = 1,
        .n_instr = 2,
        .instr = { { GR_FN_EXP, { 0, -1, -1 }, 0 }, { GR_FN_MUL, { 0, 1, -1 }, 0 } },
    };
    gr_value *lp, *y;

    if (!gr_graph_given(g, site, "neg_entropy", logits))
        return NULL;
    lp = gr_log_softmax_at(site, g, logits, -1);
    y = gr_loss_map(site, g, &lp, &program);
    return y ? gr_reduce_at(site, g, "sum", y, GR_AXIS(y->shape.n_dims - 1), false) : NULL;
}

gr_value *gr_entropy_loss_at(const char *site, gr_graph *g, gr_value *logits, gr_value *w)
{
    gr_value *e = gr_neg_entropy_at(site, g, logits), *count;

    e = e ? gr_map2_at(site, g, "mul", e, w) : NULL;
    count = e ? gr_count_nonzero_at(site, g, e, GR_AXES_ALL, false) : NULL;
    if (!count)
        return NULL;
    count = gr_cast_at(site, g, count, e->dtype);
    e = gr_reduce_at(site, g, "sum", e, GR_AXES_ALL, false);
    e = gr_loss_ratio(site, g, e, count);
    return e ? gr_map1_at(site, g, "neg", e) : NULL;
}

/* t > 0 ? t (log t - lp) : 0, where log of 1 stands in for the log of 0. */
gr_value *gr_kl_each_at(const char *site, gr_graph *g, gr_value *log_p, gr_value *target)
{
    static const gr_program program = {
        .n_src = 2,
        .n_instr = 8,
        .instr = { { GR_FN_CONST, { -1, -1, -1 }, 0 },
                   { GR_FN_CONST, { -1, -1, -1 }, 1 },
                   { GR_FN_GT, { 1, 2, -1 }, 0 },
                   { GR_FN_WHERE, { 4, 1, 3 }, 0 },
                   { GR_FN_LOG, { 5, -1, -1 }, 0 },
                   { GR_FN_SUB, { 6, 0, -1 }, 0 },
                   { GR_FN_MUL, { 1, 7, -1 }, 0 },
                   { GR_FN_WHERE, { 4, 8, 2 }, 0 } },
    };

    return gr_loss_map(site, g, (gr_value *[]){ log_p, target }, &program);
}

/* one_hot and confusion: shape rules and builders. Neither has a gradient. */
#include "op/classes/classes.h"

#include "gradus/loss.h"

#include <string.h>

#define MAX_CONFUSED 4096 /* classes of a confusion matrix */

static bool is_label(gr_dtype t)
{
    return t == GR_I32 || t == GR_I64 || t == GR_U8;
}

static gr_status one_hot_infer(gr_node *n)
{
    const gr_classes_attr *at = (const gr_classes_attr *)n->attr;
    gr_shape s = n->src[0]->shape;

    if (!is_label(n->src[0]->dtype))
        return gr_fail(GR_ERR_ARG, "labels must be i32, i64 or u8");
    if (at->n < 1)
        return gr_fail(GR_ERR_ARG, "%lld classes", (long long)at->n);
    if (s.n_dims == GR_MAX_DIMS)
        return gr_fail(GR_ERR_ARG, "labels have %d dimensions already", GR_MAX_DIMS);
    s.dim[s.n_dims++] = at->n;
    GR_TRY(gr_shape_check(&s, at->dtype));
    n->out[0].shape = s;
    n->out[0].dtype = at->dtype;
    return GR_OK;
}

static gr_status confusion_infer(gr_node *n)
{
    const gr_classes_attr *at = (const gr_classes_attr *)n->attr;

    if (!is_label(n->src[0]->dtype) || !is_label(n->src[1]->dtype))
        return gr_fail(GR_ERR_ARG, "labels must be i32, i64 or u8");
    if (!gr_shape_equal(&n->src[0]->shape, &n->src[1]->shape))
        return gr_fail(GR_ERR_ARG, "there must be one prediction per target");
    if (at->n < 1 || at->n > MAX_CONFUSED)
        return gr_fail(GR_ERR_ARG, "%lld classes, must be in [1, %d]", (long long)at->n,
                       MAX_CONFUSED);
    n->out[0].shape = GR_SHAPE(at->n, at->n);
    n->out[0].dtype = GR_I64;
    return GR_OK;
}

static void classes_print(const gr_node *n, gr_text *out)
{
    const gr_classes_attr *at = (const gr_classes_attr *)n->attr;

    gr_text_addf(out, " %lld classes", (long long)at->n);
}

const gr_op gr_op_one_hot = {
    .name = "one_hot",
    .n_src = 1,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = one_hot_infer,
    .print = classes_print,
    .kernels = gr_one_hot_cpu,
};

const gr_op gr_op_confusion = {
    .name = "confusion",
    .n_src = 2,
    .n_out = 1,
    .amp = GR_AMP_KEEP,
    .infer = confusion_infer,
    .print = classes_print,
    .kernels = gr_confusion_cpu,
};

gr_value *gr_one_hot_at(const char *site, gr_graph *g, gr_value *labels, int64_t n, gr_dtype t)
{
    gr_classes_attr at;

    memset(&at, 0, sizeof(at));
    at.n = n;
    at.dtype = t;
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_one_hot,
                                              .site = site,
                                              .src = &labels,
                                              .n_src = 1,
                                              .attr = &at,
                                              .attr_bytes = sizeof(at) });
}

gr_value *gr_confusion_at(const char *site, gr_graph *g, gr_value *target, gr_value *predicted,
                          int64_t n)
{
    gr_classes_attr at;

    memset(&at, 0, sizeof(at));
    at.n = n;
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_confusion,
                                              .site = site,
                                              .src = (gr_value *[]){ target, predicted },
                                              .n_src = 2,
                                              .attr = &at,
                                              .attr_bytes = sizeof(at) });
}

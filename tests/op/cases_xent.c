/*
 * Cases of softmax_xent and its gradient. exp is at most 2 ulp off in the kernels, and
 * what is summed after it is of size 1: that is the tolerance of a sum.
 */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/ops.h"
#include "op/xent/xent.h"

static gr_value *build(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    (void)c;
    return gr_softmax_xent(g, src[0], src[1]);
}

/* The loss with options; a third source is the weight of the classes. */
static gr_value *build_with(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_xent_add(GR_HERE, g, src[0], src[1], c->n_src > 2 ? src[2] : NULL,
                       *(const gr_xent_attr *)c->arg);
}

/* There is no public builder: autodiff makes this one. lse and d_loss come as sources. */
static gr_value *build_grad(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_xent_attr attr = { .dtype = c->arg ? *(const gr_dtype *)c->arg : gr_value_dtype(src[0]) };
    gr_build b = { .op = &gr_op_softmax_xent_grad,
                   .site = GR_HERE,
                   .src = src,
                   .n_src = c->n_src,
                   .attr = &attr,
                   .attr_bytes = sizeof(attr) };

    return gr_graph_add_value(g, &b);
}

static const gr_dtype to_f32 = GR_F32, to_bf16 = GR_BF16, to_f16 = GR_F16, to_i32 = GR_I32;

#define LOSS(text, ...) \
    .name = (text), .op = "softmax_xent", .build = build, .n_src = 2, .src = { __VA_ARGS__ }
#define WITH(text, options, n, ...)                                                             \
    .name = (text), .op = "softmax_xent", .build = build_with, .arg = &(options), .n_src = (n), \
    .src = { __VA_ARGS__ }
#define GRAD(text, ...)                                                         \
    .name = (text), .op = "softmax_xent_grad", .build = build_grad, .n_src = 4, \
    .src = { __VA_ARGS__ }
#define LABELS(t, n, ...) DRIVER_RANGE(t, 0, (n)-1, __VA_ARGS__)
#define LSE(...)          DRIVER_RANGE(GR_F32, 2, 4, __VA_ARGS__)

static const gr_xent_attr ignored = { .has_ignore = true, .ignore = 3 },
                          outside = { .has_ignore = true, .ignore = 255 },
                          smooth = { .smoothing = 0.1 }, none = { 0 },
                          too_smooth = { .smoothing = 2 },
                          all = { .has_ignore = true, .ignore = 3, .smoothing = 0.25 };

/* clang-format off */
static const driver_case cases[] = {
    { LOSS("xent", DRIVER_F32(6, 10), LABELS(GR_I64, 10, 6)),
      .grad = 1, .n_reduced = 10, .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    { LOSS("xent by i32", DRIVER_F32(6, 10), LABELS(GR_I32, 10, 6)),
      .grad = 1, .n_reduced = 10, .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    { LOSS("xent of one class", DRIVER_F32(5, 1), DRIVER_RANGE(GR_I32, 0, 1e-9, 5)),
      .grad = 1, .n_reduced = 1, .flags = DRIVER_FLOATS },
    { LOSS("xent of a vector of classes", DRIVER_F32(5, 16), LABELS(GR_I32, 16, 5)),
      .grad = 1, .n_reduced = 16, .flags = DRIVER_FLOATS },
    { LOSS("xent of many classes", DRIVER_F32(9, 1003), LABELS(GR_I64, 1003, 9)),
      .grad = 1, .n_reduced = 1003, .flags = DRIVER_FLOATS },
    { LOSS("xent on threads", DRIVER_F32(301, 17), LABELS(GR_I64, 17, 301)),
      .grad = 1, .n_reduced = 17, .flags = DRIVER_FLOATS },
    { LOSS("xent of large numbers", DRIVER_RANGE(GR_F32, -300, 300, 8, 12),
           LABELS(GR_I32, 12, 8)), .grad = 1, .n_reduced = 12, .scale = 300,
      .flags = DRIVER_GOLDEN },
    { LOSS("xent of no row", DRIVER_F32(0, 10), LABELS(GR_I64, 10, 0)),
      .grad = 1, .flags = DRIVER_FLOATS },
    { LOSS("xent with special numbers", DRIVER_F32(60, 10), LABELS(GR_I64, 10, 60)),
      .n_reduced = 10, .flags = DRIVER_SPECIAL },
    { LOSS("xent, label too great", DRIVER_F32(6, 10), DRIVER_RANGE(GR_I64, 10, 10, 6)),
      .flags = DRIVER_FAULTS },
    { LOSS("xent, label negative", DRIVER_F32(6, 10), DRIVER_RANGE(GR_I32, -100, -100, 6)),
      .flags = DRIVER_FAULTS },
    { LOSS("xent, float labels", DRIVER_F32(6, 10), DRIVER_F32(6)), .want = "i32 or i64" },
    { LOSS("xent, integer logits", DRIVER_SRC(GR_I32, 6, 10), LABELS(GR_I32, 10, 6)),
      .want = "floating" },
    { LOSS("xent, logits of a cube", DRIVER_F32(6, 10, 2), LABELS(GR_I32, 10, 6)),
      .want = "[rows, classes]" },
    { LOSS("xent, other rows", DRIVER_F32(6, 10), LABELS(GR_I32, 10, 5)), .want = "one label" },

    { WITH("xent, ignored", ignored, 2, DRIVER_F32(40, 10), LABELS(GR_I64, 10, 40)),
      .grad = 1, .n_reduced = 10, .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    { WITH("xent, all ignored", outside, 2, DRIVER_F32(40, 10),
           DRIVER_RANGE(GR_I32, 255, 255, 40)), .grad = 1, .n_reduced = 10,
      .flags = DRIVER_FLOATS },
    { WITH("xent, smooth", smooth, 2, DRIVER_F32(6, 37), LABELS(GR_I64, 37, 6)),
      .grad = 1, .n_reduced = 37, .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    { WITH("xent, weighted", none, 3, DRIVER_F32(6, 21), LABELS(GR_I64, 21, 6),
           DRIVER_RANGE(GR_F32, 0.1, 2, 21)),
      .grad = 1, .n_reduced = 21, .scale = 2, .flags = DRIVER_GOLDEN },
    { WITH("xent with all options", all, 3, DRIVER_F32(40, 21), LABELS(GR_I64, 21, 40),
           DRIVER_RANGE(GR_F32, 0.1, 2, 21)),
      .grad = 1, .n_reduced = 21, .scale = 4, .flags = DRIVER_GOLDEN },
    { WITH("xent with all options, wide", all, 3, DRIVER_SRC(GR_BF16, 9, 531),
           LABELS(GR_I64, 531, 9), DRIVER_RANGE(GR_F32, 0.1, 2, 531)),
      .n_reduced = 531, .scale = 2 },
    { WITH("xent, not the ignored label", outside, 2, DRIVER_F32(6, 10),
           DRIVER_RANGE(GR_I32, 254, 254, 6)), .flags = DRIVER_FAULTS },
    { WITH("xent, too smooth", too_smooth, 2, DRIVER_F32(6, 10), LABELS(GR_I32, 10, 6)),
      .want = "label smoothing is 2" },
    { WITH("xent, other weights", none, 3, DRIVER_F32(6, 10), LABELS(GR_I32, 10, 6),
           DRIVER_F32(9)), .want = "one per class: [10]" },

    { GRAD("xent grad", DRIVER_F32(6, 10), LABELS(GR_I64, 10, 6), LSE(6), DRIVER_F32(6)),
      .n_reduced = 2 },
    { GRAD("xent grad to bf16", DRIVER_F32(6, 37), LABELS(GR_I64, 10, 6), LSE(6), DRIVER_F32(6)),
      .n_reduced = 2, .arg = &to_bf16 },
    { GRAD("xent grad to f16", DRIVER_F32(6, 37), LABELS(GR_I64, 10, 6), LSE(6), DRIVER_F32(6)),
      .n_reduced = 2, .arg = &to_f16 },
    { GRAD("xent grad of bf16 to f32", DRIVER_SRC(GR_BF16, 6, 37), LABELS(GR_I64, 10, 6), LSE(6),
           DRIVER_F32(6)), .n_reduced = 2, .arg = &to_f32 },
    { GRAD("xent grad, label too great", DRIVER_F32(6, 10), DRIVER_RANGE(GR_I64, 10, 10, 6),
           LSE(6), DRIVER_F32(6)), .flags = DRIVER_FAULTS },
    { GRAD("xent grad, other rows", DRIVER_F32(6, 10), LABELS(GR_I64, 10, 6), LSE(5),
           DRIVER_F32(6)), .want = "one number per row" },
    { GRAD("xent grad to integers", DRIVER_F32(6, 10), LABELS(GR_I64, 10, 6), LSE(6),
           DRIVER_F32(6)), .arg = &to_i32, .want = "floating" },
};
/* clang-format on */

const driver_family driver_xent = { "xent", cases, DRIVER_COUNT(cases) };

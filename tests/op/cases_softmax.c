/*
 * Cases of softmax, log_softmax, logsumexp and the gradients. exp is at most 2 ulp off in the
 * kernels, and what is summed after it is of size 1: the tolerance of a sum.
 */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/ops.h"
#include "op/softmax/softmax.h"

static gr_value *build_softmax(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_softmax_at("case", g, src[0], *(const int *)c->arg);
}

static gr_value *build_log(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_log_softmax_at("case", g, src[0], *(const int *)c->arg);
}

static gr_value *build_lse(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_logsumexp_at("case", g, src[0], *(const int *)c->arg, true);
}

static gr_value *build_grad(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    bool is_log = strcmp(c->op, "log_softmax_grad") == 0;

    return gr_graph_add_value(
        g, &(gr_build){ .op = is_log ? &gr_op_log_softmax_grad : &gr_op_softmax_grad,
                        .site = "case",
                        .src = src,
                        .n_src = c->n_src,
                        .attr = c->arg,
                        .attr_bytes = sizeof(gr_softmax_attr) });
}

static const int last = -1, first = 0, second = 1, third = 2, beyond = 3, before = -4;
static const gr_softmax_attr over_1 = { 1, GR_F32 }, over_0 = { 0, GR_F32 },
                             over_1_to_bf16 = { 1, GR_BF16 }, to_integers = { 1, GR_I32 };

#define CASE(text, name_of_op, fn, over, terms, ...)                                         \
    .name = (text), .op = (name_of_op), .build = (fn), .arg = &(over), .n_reduced = (terms), \
    .n_src = 1, .src = { __VA_ARGS__ }
#define SOFTMAX(text, over, terms, ...) \
    CASE(text, "softmax", build_softmax, over, terms, __VA_ARGS__)
#define LOG(text, over, terms, ...) CASE(text, "log_softmax", build_log, over, terms, __VA_ARGS__)
#define LSE(text, over, terms, ...) CASE(text, "logsumexp", build_lse, over, terms, __VA_ARGS__)
#define GRAD(text, name_of_op, attr, ...)                                                \
    .name = (text), .op = (name_of_op), .build = build_grad, .arg = &(attr), .n_src = 2, \
    .src = { __VA_ARGS__ }
#define GOLDEN .grad = 1, .flags = DRIVER_FLOATS | DRIVER_GOLDEN
#define FLOATS .grad = 1, .flags = DRIVER_FLOATS
#define LARGE  DRIVER_RANGE(GR_F32, -300, 300, 8, 12)
/* -inf in all types but f64, where it is some number. */
#define NO_SHARE    DRIVER_RANGE(GR_F32, -1e39, -1e39, 5, 20)
#define SHARES(...) DRIVER_RANGE(GR_F32, 0, 0.2, __VA_ARGS__)
#define LOGS(...)   DRIVER_RANGE(GR_F32, -4, 0, __VA_ARGS__)

/* clang-format off */
static const driver_case cases[] = {
    { SOFTMAX("softmax", last, 10, DRIVER_F32(6, 10)), GOLDEN },
    { SOFTMAX("softmax down columns", first, 6, DRIVER_F32(6, 10)), GOLDEN },
    { SOFTMAX("softmax of the middle", second, 5, DRIVER_F32(3, 5, 7)), GOLDEN },
    { SOFTMAX("softmax of one", last, 1, DRIVER_F32(5, 1)), FLOATS },
    { SOFTMAX("softmax of a row", first, 37, DRIVER_F32(37)), FLOATS },
    { SOFTMAX("softmax of vectors", last, 32, DRIVER_F32(7, 32)), FLOATS },
    { SOFTMAX("softmax of long rows", last, 1003, DRIVER_F32(9, 1003)), FLOATS },
    { SOFTMAX("softmax on threads", last, 21, DRIVER_F32(401, 21)), FLOATS },
    { SOFTMAX("softmax of wide columns", second, 21, DRIVER_F32(3, 21, 67)), FLOATS },
    { SOFTMAX("softmax of columns on threads", first, 9, DRIVER_F32(9, 1100)), FLOATS },
    { SOFTMAX("softmax of many samples", second, 4, DRIVER_F32(300, 4, 18)), FLOATS },
    { SOFTMAX("softmax of large numbers", last, 12, LARGE), .grad = 1, .flags = DRIVER_GOLDEN },
    { SOFTMAX("softmax of nothing", last, 1, DRIVER_F32(3, 0)), FLOATS },
    { SOFTMAX("softmax of no row", last, 1, DRIVER_F32(0, 3)), FLOATS },
    { SOFTMAX("softmax without a share", last, 20, NO_SHARE), .flags = DRIVER_FLOATS },
    { SOFTMAX("softmax without a share, columns", first, 5, NO_SHARE), .flags = DRIVER_FLOATS },
    { SOFTMAX("softmax with special numbers", last, 20, DRIVER_F32(60, 20)),
      .flags = DRIVER_SPECIAL },
    { SOFTMAX("softmax with special numbers, columns", first, 20, DRIVER_F32(20, 60)),
      .flags = DRIVER_SPECIAL },
    { SOFTMAX("softmax of integers", last, 1, DRIVER_SRC(GR_I32, 6, 10)), .want = "floating" },
    { SOFTMAX("softmax beyond", beyond, 1, DRIVER_F32(6, 10, 2)), .want = "there are 3" },
    { SOFTMAX("softmax before", before, 1, DRIVER_F32(6, 10, 2)), .want = "there are 3" },

    { LOG("log softmax", last, 10, DRIVER_F32(6, 10)), GOLDEN },
    { LOG("log softmax of the middle", second, 5, DRIVER_F32(3, 5, 7)), GOLDEN },
    { LOG("log softmax of the end", third, 35, DRIVER_F32(3, 5, 35)), FLOATS },
    { LOG("log softmax of long rows", last, 1003, DRIVER_F32(9, 1003)), FLOATS },
    { LOG("log softmax on threads", last, 21, DRIVER_F32(401, 21)), FLOATS },
    { LOG("log softmax of wide columns", second, 21, DRIVER_F32(3, 21, 67)), FLOATS },
    { LOG("log softmax of large numbers", last, 12, LARGE), .scale = 300, .grad = 1,
      .flags = DRIVER_GOLDEN },
    { LOG("log softmax of one", last, 1, DRIVER_F32(5, 1)), FLOATS },
    { LOG("log softmax of nothing", last, 1, DRIVER_F32(3, 0)), FLOATS },
    { LOG("log softmax of no row", last, 1, DRIVER_F32(0, 3)), FLOATS },
    { LOG("log softmax without a share", last, 20, NO_SHARE), .flags = DRIVER_FLOATS },
    { LOG("log softmax with special numbers", last, 20, DRIVER_F32(60, 20)),
      .flags = DRIVER_SPECIAL },
    { LOG("log softmax beyond", beyond, 1, DRIVER_F32(6, 10, 2)), .want = "there are 3" },

    { LSE("logsumexp", last, 10, DRIVER_F32(6, 10)), GOLDEN },
    { LSE("logsumexp of the middle", second, 5, DRIVER_F32(3, 5, 7)), GOLDEN },
    { LSE("logsumexp of long rows", last, 1003, DRIVER_F32(9, 1003)), FLOATS },
    { LSE("logsumexp of wide columns", second, 21, DRIVER_F32(3, 21, 67)), FLOATS },
    { LSE("logsumexp of one", last, 1, DRIVER_F32(5, 1)), FLOATS },
    { LSE("logsumexp of nothing", last, 1, DRIVER_F32(3, 0)), .flags = DRIVER_FLOATS },
    { LSE("logsumexp without a share", last, 20, NO_SHARE), .flags = DRIVER_FLOATS },
    { LSE("logsumexp of large numbers", last, 12, LARGE), .scale = 300 },
    { LSE("logsumexp of integers", last, 1, DRIVER_SRC(GR_I32, 6, 10)), .want = "floating" },

    { GRAD("softmax grad", "softmax_grad", over_1, SHARES(6, 10), DRIVER_F32(6, 10)),
      .n_reduced = 10, .flags = DRIVER_FLOATS },
    { GRAD("softmax grad, columns", "softmax_grad", over_0, SHARES(6, 30), DRIVER_F32(6, 30)),
      .n_reduced = 6, .flags = DRIVER_FLOATS },
    { GRAD("softmax grad to bf16", "softmax_grad", over_1_to_bf16, SHARES(6, 37),
           DRIVER_SRC(GR_BF16, 6, 37)), .n_reduced = 37 },
    { GRAD("softmax grad to integers", "softmax_grad", to_integers, SHARES(6, 10),
           DRIVER_F32(6, 10)), .want = "floating" },
    { GRAD("softmax grad, other shape", "softmax_grad", over_1, SHARES(6, 10), DRIVER_F32(6, 11)),
      .want = "shape of y" },
    { GRAD("log softmax grad", "log_softmax_grad", over_1, LOGS(6, 10), DRIVER_F32(6, 10)),
      .n_reduced = 10, .flags = DRIVER_FLOATS },
    { GRAD("log softmax grad, columns", "log_softmax_grad", over_0, LOGS(6, 30),
           DRIVER_F32(6, 30)), .n_reduced = 6, .flags = DRIVER_FLOATS },
    { GRAD("log softmax grad to bf16", "log_softmax_grad", over_1_to_bf16, LOGS(6, 37),
           DRIVER_F32(6, 37)), .n_reduced = 37 },
    { GRAD("log softmax grad, other shape", "log_softmax_grad", over_1, LOGS(6, 10),
           DRIVER_F32(6, 11)), .want = "shape of y" },
};
/* clang-format on */

const driver_family driver_softmax = { "softmax", cases, DRIVER_COUNT(cases) };

/* Cases of take, top_k, knn, cross and constant. */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/index.h"
#include "op/take/take.h"

static gr_value *build_select(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_index_select(g, src[0], *(const int *)c->arg, src[1]);
}

static gr_value *build_along(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_take_along(g, src[0], *(const int *)c->arg, src[1]);
}

/* There is no builder: autodiff makes this one. */
static gr_value *build_back(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_take_attr attr = *(const gr_take_attr *)c->arg;
    gr_build b = { .op = &gr_op_take_grad,
                   .site = GR_HERE,
                   .src = src,
                   .n_src = 2,
                   .attr = &attr,
                   .attr_bytes = sizeof(attr) };

    attr.dtype = gr_value_dtype(src[0]) == GR_F64 ? GR_F64 : GR_F32;
    return gr_graph_add_value(g, &b);
}

typedef struct top_arg {
    int64_t k;
    bool smallest;
} top_arg;

static gr_value *build_top(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const top_arg *a = c->arg;

    return gr_top_k(g, src[0], a->k, a->smallest, NULL);
}

static gr_value *build_knn(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_knn(g, src[0], c->n_src > 1 ? src[1] : NULL, *(const gr_knn_config *)c->arg, NULL);
}

static gr_value *build_cross(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    (void)c;
    return gr_cross(g, src[0], src[1]);
}

static const float three[] = { 1, -2.5f, 3e38f };
static const int64_t four[] = { 1, INT64_MIN, INT64_MAX, -7 };

static gr_value *build_constant(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    (void)src;
    if (c->arg == four)
        return gr_constant(g, GR_I64, GR_SHAPE(2, 2), c->arg);
    return gr_constant(g, GR_F32, GR_SHAPE(3), c->arg);
}

static const int first = 0, second = 1, last = -1, far = 5;
static const gr_take_attr back_1 = { .axis = 1, .n = 4 },
                          back_each = { .axis = 1, .is_each = true, .n = 4 };
static const top_arg one = { 1, false }, least = { 1, true }, top_4 = { 4, false },
                     low_4 = { 4, true }, top_7 = { 7, false }, top_70 = { 70, true },
                     top_8 = { 8, false }, top_0 = { 0, false };
static const gr_knn_config near_3 = { 3, false }, near_3_flat = { 3, true },
                           near_30 = { 30, false }, near_0 = { 0, false };

#define TAKE(text, how, axis, ...)                                                             \
    .name = (text), .op = "take", .build = build_##how, .arg = &(axis), .n_src = 2, .grad = 1, \
    .src = { __VA_ARGS__ }
#define BACK(text, attr, ...)                                                                      \
    .name = (text), .op = "take_grad", .build = build_back, .arg = &(attr), .n_src = 2, .grad = 1, \
    .src = { __VA_ARGS__ }
#define TOP(text, top, ...)                                                                  \
    .name = (text), .op = "top_k", .build = build_top, .arg = &(top), .n_src = 1, .grad = 1, \
    .src = { __VA_ARGS__ }
#define KNN(text, n, near, ...)                                                    \
    .name = (text), .op = "knn", .build = build_knn, .arg = &(near), .n_src = (n), \
    .src = { __VA_ARGS__ }
#define CROSS(text, ...)                                                        \
    .name = (text), .op = "cross", .build = build_cross, .n_src = 2, .grad = 3, \
    .src = { __VA_ARGS__ }
#define INDEX(t, n, ...) DRIVER_RANGE(t, 0, (n)-1, __VA_ARGS__)
#define COPIES           .flags = DRIVER_FLOATS | DRIVER_EXACT
#define GOLDEN           .flags = DRIVER_FLOATS | DRIVER_EXACT | DRIVER_GOLDEN

/* clang-format off */
static const driver_case cases[] = {
    { TAKE("index select", select, second, DRIVER_F32(3, 5, 4), INDEX(GR_I32, 5, 7)), GOLDEN, .n_reduced = 7 },
    { TAKE("index select of the last", select, last, DRIVER_F32(3, 5), INDEX(GR_I64, 5, 3)), GOLDEN, .n_reduced = 3 },
    { TAKE("index select on threads", select, second, DRIVER_F32(20, 33, 17), INDEX(GR_I64, 33, 40)), COPIES, .n_reduced = 8 },
    { TAKE("index select by columns", select, second, DRIVER_F32(1, 90, 128), INDEX(GR_I64, 90, 40)), COPIES, .n_reduced = 8 },
    { TAKE("index select of none", select, second, DRIVER_F32(3, 5), INDEX(GR_I64, 5, 0)), COPIES },
    { .name = "index select of integers", .op = "take", .build = build_select, .arg = &second, .n_src = 2,
      .src = { DRIVER_SRC(GR_I64, 3, 5), INDEX(GR_I64, 5, 3) }, .flags = DRIVER_EXACT },
    { TAKE("index select too far", select, second, DRIVER_F32(3, 5), DRIVER_RANGE(GR_I64, 5, 5, 3)), .flags = DRIVER_FAULTS },
    { TAKE("index select by a matrix", select, second, DRIVER_F32(3, 5), INDEX(GR_I64, 5, 3, 2)), .want = "a list" },
    { TAKE("index select by floats", select, second, DRIVER_F32(3, 5), DRIVER_F32(3)), .want = "i32 or i64" },
    { TAKE("index select along nothing", select, far, DRIVER_F32(3, 5), INDEX(GR_I64, 5, 3)), .want = "not one of 2" },

    { TAKE("take along the last", along, last, DRIVER_F32(3, 5), INDEX(GR_I64, 5, 3, 7)), GOLDEN, .n_reduced = 7 },
    { TAKE("take along the first", along, first, DRIVER_F32(4, 3, 2), INDEX(GR_I32, 4, 6, 3, 2)), GOLDEN, .n_reduced = 6 },
    { TAKE("take along on threads", along, second, DRIVER_F32(40, 30, 9), INDEX(GR_I32, 30, 40, 20, 9)), COPIES, .n_reduced = 5 },
    { TAKE("take before the first", along, last, DRIVER_F32(3, 5), DRIVER_RANGE(GR_I64, -1, -1, 3, 2)), .flags = DRIVER_FAULTS },
    { TAKE("take along other rows", along, last, DRIVER_F32(3, 5), INDEX(GR_I64, 5, 2, 5)), .want = "differs beside" },

    { BACK("back", back_1, DRIVER_F32(3, 6, 5), INDEX(GR_I32, 4, 6)), .flags = DRIVER_FLOATS, .n_reduced = 6 },
    { BACK("back, each", back_each, DRIVER_F32(3, 6, 5), INDEX(GR_I64, 4, 3, 6, 5)), .flags = DRIVER_FLOATS, .n_reduced = 6 },
    { BACK("back on threads", back_1, DRIVER_F32(50, 60, 5), INDEX(GR_I32, 4, 60)), .flags = DRIVER_FLOATS, .n_reduced = 30 },
    { BACK("back too far", back_1, DRIVER_F32(3, 6, 5), DRIVER_RANGE(GR_I32, 4, 4, 6)), .flags = DRIVER_FAULTS },
    { BACK("back with few indices", back_1, DRIVER_F32(3, 6, 5), INDEX(GR_I32, 4, 5)), .want = "for each element" },
    { BACK("back of integers", back_1, DRIVER_SRC(GR_I32, 3, 6, 5), INDEX(GR_I32, 4, 6)), .want = "floating" },

    { TOP("greatest", one, DRIVER_F32(5, 7)), COPIES },
    { TOP("smallest", least, DRIVER_F32(5, 7)), COPIES },
    { TOP("four greatest", top_4, DRIVER_F32(3, 4, 9)), GOLDEN },
    { TOP("four smallest", low_4, DRIVER_F32(3, 9)), GOLDEN },
    { TOP("all in order", top_7, DRIVER_F32(5, 7)), COPIES },
    { TOP("many smallest", top_70, DRIVER_F32(11, 100)), COPIES },
    { TOP("top of long rows", top_4, DRIVER_F32(7, 700)), COPIES },
    { TOP("top of many rows", top_4, DRIVER_F32(300, 40)), COPIES },
    { TOP("top of equals", top_4, DRIVER_RANGE(GR_F32, 2, 2, 3, 9)), .flags = DRIVER_FLOATS | DRIVER_EXACT | DRIVER_SPECIAL },
    { TOP("top of odd numbers", top_7, DRIVER_F32(20, 17)), .flags = DRIVER_FLOATS | DRIVER_EXACT | DRIVER_SPECIAL },
    { TOP("smallest of odd numbers", low_4, DRIVER_F32(20, 17)), .flags = DRIVER_FLOATS | DRIVER_EXACT | DRIVER_SPECIAL },
    { TOP("top of single numbers", one, DRIVER_F32(5, 1)), COPIES },
    { TOP("top of no rows", top_4, DRIVER_F32(0, 7)), COPIES },
    { TOP("top of too few", top_8, DRIVER_F32(5, 7)), .want = "the 8 best of 7" },
    { TOP("top none", top_0, DRIVER_F32(5, 7)), .want = "the 0 best" },
    { TOP("top of integers", top_4, DRIVER_SRC(GR_I32, 5, 7)), .want = "floating" },

    { KNN("neighbours", 1, near_3, DRIVER_F32(2, 11, 3)), GOLDEN },
    { KNN("neighbours with a mask", 2, near_3, DRIVER_F32(2, 11, 3), DRIVER_SRC(GR_BOOL, 2, 11)), COPIES },
    { KNN("neighbours in the batch", 2, near_3_flat, DRIVER_F32(3, 9, 3), DRIVER_SRC(GR_U8, 3, 9)), COPIES },
    { KNN("neighbours at one place", 1, near_3, DRIVER_RANGE(GR_F32, 1, 1, 2, 7, 3)), COPIES },
    { KNN("more neighbours than points", 1, near_30, DRIVER_F32(2, 5, 2)), COPIES },
    { KNN("neighbours of a lonely point", 1, near_3, DRIVER_F32(4, 1, 3)), COPIES },
    { KNN("neighbours on threads", 1, near_30, DRIVER_F32(2, 150, 3)), COPIES },
    { KNN("neighbours of odd points", 1, near_3, DRIVER_F32(2, 20, 3)), .flags = DRIVER_FLOATS | DRIVER_SPECIAL },
    { KNN("neighbours of none", 1, near_3, DRIVER_F32(2, 0, 3)), COPIES },
    { KNN("no neighbours", 1, near_0, DRIVER_F32(2, 11, 3)), .want = "the 0 nearest" },
    { KNN("neighbours of a matrix", 1, near_3, DRIVER_F32(11, 3)), .want = "[b, l, d]" },
    { KNN("neighbours of integers", 1, near_3, DRIVER_SRC(GR_I32, 2, 11, 3)), .want = "floating" },
    { KNN("mask of another shape", 2, near_3, DRIVER_F32(2, 11, 3), DRIVER_SRC(GR_BOOL, 2, 10)), .want = "for each point" },
    { KNN("mask of floats", 2, near_3, DRIVER_F32(2, 11, 3), DRIVER_F32(2, 11)), .want = "bool or u8" },

    { CROSS("cross", DRIVER_F32(5, 3), DRIVER_F32(5, 3)), .flags = DRIVER_FLOATS | DRIVER_GOLDEN, .n_reduced = 2, .scale = 4 },
    { CROSS("cross on threads", DRIVER_F32(7, 600, 3), DRIVER_F32(7, 600, 3)), .flags = DRIVER_FLOATS, .n_reduced = 2, .scale = 4 },
    { CROSS("cross of one", DRIVER_F32(1, 3), DRIVER_F32(1, 3)), .flags = DRIVER_FLOATS, .n_reduced = 2, .scale = 4 },
    { CROSS("cross of none", DRIVER_F32(0, 3), DRIVER_F32(0, 3)), .flags = DRIVER_FLOATS },
    { CROSS("cross of pairs", DRIVER_F32(5, 2), DRIVER_F32(5, 2)), .want = "[..., 3]" },
    { CROSS("cross of other shapes", DRIVER_F32(5, 3), DRIVER_F32(1, 3)), .want = "one shape" },
    { CROSS("cross of integers", DRIVER_SRC(GR_I32, 5, 3), DRIVER_SRC(GR_I32, 5, 3)), .want = "floating" },

    { .name = "constant", .op = "constant", .build = build_constant, .arg = three, .flags = DRIVER_EXACT },
    { .name = "constant of i64", .op = "constant", .build = build_constant, .arg = four, .flags = DRIVER_EXACT },
    { .name = "constant of nothing", .op = "constant", .build = build_constant, .want = "no elements" },
};
/* clang-format on */

const driver_family driver_index = { "index", cases, DRIVER_COUNT(cases) };

/* Cases of arg_reduce and arg_scatter: nothing is rounded. */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/ops.h"
#include "op/argmax/argmax.h"

static gr_value *build(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_arg_reduce_at("case", g, c->fn, src[0], *(const int *)c->arg, true, NULL);
}

static gr_value *build_scatter(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_graph_add_value(g, &(gr_build){ .op = &gr_op_arg_scatter,
                                              .site = "case",
                                              .src = src,
                                              .n_src = c->n_src,
                                              .attr = c->arg,
                                              .attr_bytes = sizeof(gr_arg_scatter_attr) });
}

static const int last = -1, first = 0, second = 1, beyond = 2;
static const gr_arg_scatter_attr to_5 = { 1, 5 }, to_50 = { 1, 50 }, of_first = { 0, 3 };

#define CASE(text, function, over, ...)                                                   \
    .name = (text), .op = "arg_reduce", .build = build, .fn = (function), .arg = &(over), \
    .n_src = 1, .src = { __VA_ARGS__ }
#define SCATTER(text, attr, ...)                                                             \
    .name = (text), .op = "arg_scatter", .build = build_scatter, .arg = &(attr), .n_src = 2, \
    .src = { __VA_ARGS__ }
#define EXACT  .flags = DRIVER_EXACT
#define FLOATS .grad = 1, .flags = DRIVER_FLOATS | DRIVER_EXACT
#define GOLDEN .grad = 1, .flags = DRIVER_FLOATS | DRIVER_EXACT | DRIVER_GOLDEN

/* clang-format off */
static const driver_case cases[] = {
    { CASE("max of rows", "max", last, DRIVER_F32(6, 10)), GOLDEN },
    { CASE("min of rows", "min", last, DRIVER_F32(6, 10)), GOLDEN },
    { CASE("max of columns", "max", first, DRIVER_F32(6, 10)), GOLDEN },
    { CASE("max of points", "max", second, DRIVER_F32(3, 9, 37)), GOLDEN },
    { CASE("min of points", "min", second, DRIVER_F32(3, 9, 37)), FLOATS },
    { CASE("max of one", "max", second, DRIVER_F32(3, 1, 4)), FLOATS },
    { CASE("max of many rows", "max", last, DRIVER_F32(900, 21)), FLOATS },
    { CASE("max of long rows", "max", last, DRIVER_F32(7, 1003)), FLOATS },
    { CASE("max of many points", "max", second, DRIVER_F32(2, 200, 67)), FLOATS },
    { CASE("no max", "max", last, DRIVER_F32(0, 3)), FLOATS },
    { CASE("max of equals", "max", last, DRIVER_SRC(GR_I32, 40, 30)), EXACT },
    { CASE("min of equals, i64", "min", first, DRIVER_SRC(GR_I64, 40, 30)), EXACT },
    { CASE("max of u8", "max", last, DRIVER_SRC(GR_U8, 40, 30)), EXACT },
    { CASE("max of bool", "max", last, DRIVER_SRC(GR_BOOL, 40, 5)), EXACT },
    { CASE("max with special numbers", "max", last, DRIVER_F32(60, 20)),
      .flags = DRIVER_SPECIAL | DRIVER_EXACT },
    { CASE("min with special numbers", "min", first, DRIVER_F32(20, 60)),
      .flags = DRIVER_SPECIAL | DRIVER_EXACT },
    { CASE("max of nothing", "max", last, DRIVER_F32(3, 0)), .want = "no element" },
    { CASE("max beyond", "max", beyond, DRIVER_F32(3, 4)), .want = "there are 2" },
    { CASE("no such function", "median", last, DRIVER_F32(3, 4)), .want = "'median'",
      .flags = DRIVER_NO_SHAPES },

    { SCATTER("scatter", to_5, DRIVER_RANGE(GR_I64, 0, 4, 7, 1, 3), DRIVER_F32(7, 1, 3)),
      .flags = DRIVER_FLOATS | DRIVER_EXACT },
    { SCATTER("scatter of many", to_50, DRIVER_RANGE(GR_I64, 0, 49, 70, 1, 33),
              DRIVER_F32(70, 1, 33)), .flags = DRIVER_FLOATS | DRIVER_EXACT },
    { SCATTER("scatter nothing", of_first, DRIVER_RANGE(GR_I64, 0, 2, 1, 0), DRIVER_F32(1, 0)),
      EXACT },
    { SCATTER("scatter by i32", to_5, DRIVER_RANGE(GR_I32, 0, 4, 7, 1), DRIVER_F32(7, 1)),
      .want = "must be i64" },
    { SCATTER("scatter, other shape", to_5, DRIVER_RANGE(GR_I64, 0, 4, 7, 2), DRIVER_F32(7, 2)),
      .want = "must be 1" },
};
/* clang-format on */

const driver_family driver_argmax = { "argmax", cases, DRIVER_COUNT(cases) };

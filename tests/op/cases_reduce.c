/*
 * Cases of reduce: every function, over the first, the last, middle, several and all
 * dimensions, kept or not, over one and over no element, and lengths around the vectors.
 */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/ops.h"

typedef struct reduce_arg {
    unsigned axes;
    bool keep;
} reduce_arg;

static gr_value *build(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const reduce_arg *a = c->arg;

    return gr_reduce_at(GR_HERE, g, c->fn, src[0], a->axes, a->keep);
}

static const reduce_arg none = { 0, false }, first = { GR_AXIS(0), false },
                        second = { GR_AXIS(1), false }, third = { GR_AXIS(2), false },
                        outer = { GR_AXIS(0) | GR_AXIS(2), false },
                        outer_kept = { GR_AXIS(0) | GR_AXIS(2), true },
                        second_kept = { GR_AXIS(1), true }, all = { GR_AXES_ALL, false },
                        all_kept = { GR_AXES_ALL, true },
                        zigzag = { GR_AXIS(0) | GR_AXIS(2) | GR_AXIS(4), false };

#define CASE(text, function, over, terms, ...)                                                    \
    .name = (text), .op = "reduce", .build = build, .fn = (function), .arg = &(over), .n_src = 1, \
    .n_reduced = (terms), .src = { __VA_ARGS__ }
#define REFUSED(text, function, over, why, ...)                                                   \
    .name = (text), .op = "reduce", .build = build, .fn = (function), .arg = &(over), .n_src = 1, \
    .want = (why), .src = { __VA_ARGS__ }
#define FLOATS .grad = 1, .flags = DRIVER_FLOATS
#define GOLDEN .grad = 1, .flags = DRIVER_FLOATS | DRIVER_GOLDEN
/* The greatest is one of them: no rounding. Its gradient, a quotient by the number of
 * ties, rounds once. */
#define FLOATS_EXACT .flags = DRIVER_FLOATS | DRIVER_EXACT
#define EXACT        .flags = DRIVER_EXACT
#define SPECIAL      .flags = DRIVER_FLOATS | DRIVER_SPECIAL

/* clang-format off */
static const driver_case cases[] = {
    { CASE("sum of rows", "sum", second, 37, DRIVER_F32(5, 37)), GOLDEN },
    { CASE("sum of columns", "sum", first, 9, DRIVER_F32(9, 37)), GOLDEN },
    { CASE("sum of the middle", "sum", second, 4, DRIVER_F32(3, 4, 5)), GOLDEN },
    { CASE("sum of both ends", "sum", outer, 15, DRIVER_F32(3, 4, 5)), GOLDEN },
    { CASE("sum of both ends, kept", "sum", outer_kept, 15, DRIVER_F32(3, 4, 5)), GOLDEN },
    { CASE("sum of the end", "sum", third, 5, DRIVER_F32(3, 4, 5)), FLOATS },
    { CASE("sum of all", "sum", all, 60, DRIVER_F32(3, 4, 5)), GOLDEN },
    { CASE("sum of all, kept", "sum", all_kept, 60, DRIVER_F32(3, 4, 5)), FLOATS },
    { CASE("sum zigzag", "sum", zigzag, 24, DRIVER_F32(2, 3, 4, 5, 3)), FLOATS },
    { CASE("sum over nothing named", "sum", none, 1, DRIVER_F32(3, 4)), FLOATS },
    { CASE("sum over one", "sum", second, 1, DRIVER_F32(3, 1, 4)), FLOATS },
    { CASE("sum over one, kept", "sum", second_kept, 1, DRIVER_F32(3, 1, 4)), FLOATS },
    { CASE("sum of a number", "sum", all, 1, { .dtype = GR_F32, .shape = DRIVER_DIMS0 }), FLOATS },
    { CASE("sum of no element", "sum", first, 0, DRIVER_F32(0, 3)), FLOATS },
    { CASE("no sums", "sum", second, 0, DRIVER_F32(0, 3)), FLOATS },
    { CASE("bias gradient", "sum", first, 128, DRIVER_F32(128, 512)),
      .grad = 1, .flags = DRIVER_FLOATS | DRIVER_LARGE },
    { CASE("columns beyond a stretch", "sum", first, 33, DRIVER_F32(33, 611)), FLOATS },
    { CASE("columns in the middle", "sum", second, 7, DRIVER_F32(3, 7, 300)), FLOATS },
    { CASE("a long row", "sum", second, 5003, DRIVER_F32(2, 5003)), FLOATS },

    { CASE("mean of rows", "mean", second, 37, DRIVER_F32(5, 37)), GOLDEN },
    { CASE("mean of columns", "mean", first, 9, DRIVER_F32(9, 37)), GOLDEN },
    { CASE("mean of all", "mean", all, 60, DRIVER_F32(3, 4, 5)), GOLDEN },
    { CASE("mean of both ends, kept", "mean", outer_kept, 15, DRIVER_F32(3, 4, 5)), FLOATS },
    { CASE("mean of no element", "mean", first, 0, DRIVER_F32(0, 3)), SPECIAL },

    { CASE("max of rows", "max", second, 0, DRIVER_F32(5, 37)), GOLDEN },
    { CASE("max of columns", "max", first, 0, DRIVER_F32(9, 37)), GOLDEN },
    { CASE("max of both ends, kept", "max", outer_kept, 0, DRIVER_F32(3, 4, 5)), GOLDEN },
    { CASE("max of all", "max", all, 0, DRIVER_F32(3, 4, 5)), .grad = 1, FLOATS_EXACT },
    { CASE("max of many columns", "max", first, 0, DRIVER_F32(33, 611)), FLOATS_EXACT },
    { CASE("max of a long row", "max", second, 0, DRIVER_F32(2, 5003)), FLOATS_EXACT },
    { CASE("max of no element", "max", first, 0, DRIVER_F32(0, 3)), FLOATS_EXACT },
    { CASE("max of whole numbers", "max", second, 0, DRIVER_SRC(GR_I32, 4, 9)), EXACT },
    { CASE("max of i64 columns", "max", first, 0, DRIVER_SRC(GR_I64, 4, 9)), EXACT },
    { CASE("max of no u8", "max", first, 0, DRIVER_SRC(GR_U8, 0, 3)), EXACT },
    { CASE("any", "max", second, 0, DRIVER_SRC(GR_BOOL, 4, 3)), EXACT },

    { CASE("sum of i32", "sum", second, 0, DRIVER_SRC(GR_I32, 4, 9)), EXACT },
    { CASE("sum of i64", "sum", first, 0, DRIVER_SRC(GR_I64, 4, 9)), EXACT },

    /* -inf and NaN must come through wherever they stand; rows of the rest overflow. */
    { CASE("max with special numbers", "max", second, 0, DRIVER_F32(300, 5)), SPECIAL },
    { CASE("max with special numbers, columns", "max", first, 0, DRIVER_F32(5, 300)), SPECIAL },

    { REFUSED("beyond the rank", "sum", third, "dimension 2, but there are 2", DRIVER_F32(3, 4)) },
    { REFUSED("mean of integers", "mean", first, "cast first", DRIVER_SRC(GR_I32, 3, 4)) },
    { REFUSED("sum of bool", "sum", first, "cast first", DRIVER_SRC(GR_BOOL, 3, 4)) },
    { REFUSED("no such function", "median", first, "'median'", DRIVER_F32(3, 4)),
      .flags = DRIVER_NO_SHAPES },
};
/* clang-format on */

const driver_family driver_reduce = { "reduce", cases, DRIVER_COUNT(cases) };

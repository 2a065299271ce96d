/*
 * Cases of map: every row of the table of scalar functions, broadcasting in all the
 * layouts that the tiled kernels tell apart, all types, programs of many instructions.
 *
 * A single function that rounds once must give the reference's bits (EXACT). exp, log,
 * tanh and sigmoid are at most 2 ulp off in the kernels and 1 in libm: within the usual
 * tolerance.
 */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/ops.h"
#include "op/map/program.h"

/* ---- builders ---- */

static gr_value *build_fn(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    if (c->n_src == 1)
        return gr_map1_at(GR_HERE, g, c->fn, src[0]);
    if (c->n_src == 2)
        return gr_map2_at(GR_HERE, g, c->fn, src[0], src[1]);
    return gr_map3_at(GR_HERE, g, c->fn, src[0], src[1], src[2]);
}

static gr_value *build_k(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_mapk_at(GR_HERE, g, c->fn, src[0], *(const double *)c->arg);
}

static gr_value *build_cast(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_cast(g, src[0], *(const gr_dtype *)c->arg);
}

static gr_value *build_broadcast(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_broadcast(g, src[0], *(const gr_shape *)c->arg);
}

typedef struct fill_arg {
    gr_dtype dtype;
    gr_shape shape;
    double k;
} fill_arg;

static gr_value *build_fill(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const fill_arg *a = (const fill_arg *)c->arg;

    (void)src;
    return gr_fill(g, a->dtype, a->shape, a->k);
}

/* A program as it stands in c->arg; its sources must have the result's rank or less, and
 * the first one its shape. */
static gr_value *build_program(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_program p = *(const gr_program *)c->arg;

    p.shape = gr_value_shape(src[0]);
    p.dtype = gr_value_dtype(src[0]);
    return gr_map_add(g, GR_HERE, src, &p);
}

/* clang-format off */

/* ---- programs ---- */

#define CONST(x)            { GR_FN_CONST, { -1, -1, -1 }, x }
#define ONE(f, a)           { GR_FN_##f, { a, -1, -1 }, 0 }
#define TWO(f, a, b)        { GR_FN_##f, { a, b, -1 }, 0 }
#define THREE(f, a, b, c)   { GR_FN_##f, { a, b, c }, 0 }

/* relu(x + b): the end of a dense layer, one loop in the kernels. */
static const gr_program add_relu = {
    .n_src = 2, .n_instr = 2, .instr = { TWO(ADD, 0, 1), ONE(RELU, 2) }
};

/* The same inside of a program, where slots are shared and the sum may not be lost. */
static const gr_program add_relu_inside = {
    .n_src = 2,
    .n_instr = 6,
    .instr = { TWO(ADD, 0, 1), ONE(RELU, 2), TWO(MUL, 0, 0), TWO(SUB, 4, 1), TWO(MUL, 5, 3),
               TWO(ADD, 6, 3) },
};

/* relu of a sum that is needed again: not one loop. */
static const gr_program add_relu_shared = {
    .n_src = 2, .n_instr = 3, .instr = { TWO(ADD, 0, 1), ONE(RELU, 2), TWO(MUL, 3, 2) }
};

/* Like gelu by tanh: constants, and registers used again and again. */
static const gr_program gelu = {
    .n_src = 1,
    .n_instr = 11,
    .instr = { CONST(0.044715), CONST(0.7978845608028654), CONST(0.5), ONE(SQUARE, 0),
               TWO(MUL, 4, 0), TWO(MUL, 5, 1), TWO(ADD, 0, 6), TWO(MUL, 7, 2), ONE(TANH, 8),
               TWO(MUL, 3, 0), TWO(MUL, 9, 10) },
};

/* Every kind of rule in one program, over three sources of different layouts. */
static const gr_program mixed = {
    .n_src = 3,
    .n_instr = 17,
    .instr = { TWO(ADD, 0, 1), ONE(SIGMOID, 3), TWO(MUL, 4, 2), ONE(EXP, 5), TWO(MAX, 6, 0),
               CONST(1.5), TWO(ADD, 7, 8), ONE(SQUARE, 9), TWO(ADD, 10, 8), ONE(LOG, 11),
               ONE(SQRT, 11), TWO(DIV, 12, 13), TWO(GT, 0, 1), THREE(WHERE, 15, 14, 4),
               ONE(ABS, 16), TWO(MIN, 17, 5), TWO(SUB, 18, 2) },
};

/* ---- the table ---- */

static const double two_and_half = 2.5, three = 3;
static const gr_dtype to_f64 = GR_F64, to_bf16 = GR_BF16, to_f16 = GR_F16, to_i32 = GR_I32,
                      to_i64 = GR_I64, to_u8 = GR_U8, to_bool = GR_BOOL, to_f32 = GR_F32;
static const gr_shape wide = DRIVER_DIMS(3, 4, 5), long_rows = DRIVER_DIMS(4, 300),
                      other = DRIVER_DIMS(3, 4);
static const fill_arg fill_f32 = { GR_F32, DRIVER_DIMS(3, 700), -1.25 },
                      fill_bf16 = { GR_BF16, DRIVER_DIMS(33), 3.0 },
                      fill_i64 = { GR_I64, DRIVER_DIMS(2000), -7.0 },
                      fill_none = { GR_F32, DRIVER_DIMS(0, 4), 1.0 },
                      fill_half = { GR_I32, DRIVER_DIMS(4), 0.5 };

/* size: of the terms of the gradient. With tanh and sigmoid it is written through the
 * result, whose rounding counts where 1 - y is small. */
#define UNARY(f, from, to, keep_away, size, extra)                                           \
    { .name = f, .op = "map", .build = build_fn, .fn = f, .n_src = 1,                        \
      .src = { { .dtype = GR_F32, .shape = DRIVER_DIMS(3, 13), .lo = (from), .hi = (to),     \
                 .away = (keep_away) } },                                                    \
      .grad = 1, .scale = (size), .flags = DRIVER_FLOATS | DRIVER_GOLDEN | (extra) },        \
    { .name = f " of odd numbers", .op = "map", .build = build_fn, .fn = f, .n_src = 1,      \
      .src = { DRIVER_RANGE(GR_F32, -90, 90, 1999) }, .flags = DRIVER_FLOATS | DRIVER_SPECIAL }

#define BINARY(f, extra)                                                                     \
    { .name = f, .op = "map", .build = build_fn, .fn = f, .n_src = 2,                        \
      .src = { DRIVER_F32(5, 7), DRIVER_F32(7) }, .grad = 3,                                 \
      .flags = DRIVER_FLOATS | DRIVER_GOLDEN | (extra) },                                    \
    { .name = f " of odd numbers", .op = "map", .build = build_fn, .fn = f, .n_src = 2,      \
      .src = { DRIVER_F32(1999), DRIVER_F32(1999) }, .flags = DRIVER_FLOATS | DRIVER_SPECIAL }

/* Few different numbers, so that some are equal. */
#define TEST(f)                                                                              \
    { .name = f, .op = "map", .build = build_fn, .fn = f, .n_src = 2,                        \
      .src = { DRIVER_RANGE(GR_I32, 0, 2, 6, 5), DRIVER_RANGE(GR_I32, 0, 2, 5) },            \
      .flags = DRIVER_GOLDEN | DRIVER_EXACT },                                               \
    { .name = f " of floats", .op = "map", .build = build_fn, .fn = f, .n_src = 2,           \
      .src = { DRIVER_F32(1999), DRIVER_F32(1999) },                                         \
      .flags = DRIVER_FLOATS | DRIVER_SPECIAL | DRIVER_EXACT }

/* A gradient by the result: b is that result. 1 - b * b may be contracted, which matters
 * where it nearly cancels; the terms are of size 1. */
#define BY_RESULT(f, from, to, keep_away)                                                    \
    { .name = f, .op = "map", .build = build_fn, .fn = f, .n_src = 2,                        \
      .src = { DRIVER_F32(3, 37), { .dtype = GR_F32, .shape = DRIVER_DIMS(37), .lo = (from), \
                                    .hi = (to), .away = (keep_away) } },                     \
      .grad = 3, .scale = 2, .flags = DRIVER_FLOATS }

/* One broadcast of two sources. */
#define LAYOUT(what, f, a, b, extra)                                                         \
    { .name = what, .op = "map", .build = build_fn, .fn = f, .n_src = 2,                     \
      .src = { { .dtype = GR_F32, .shape = a }, { .dtype = GR_F32, .shape = b } },           \
      .grad = 3, .n_reduced = 1, .flags = DRIVER_FLOATS | (extra) }

/* Two sources of any types. */
#define TYPES(what, f, t, u, extra)                                                          \
    { .name = what, .op = "map", .build = build_fn, .fn = f, .n_src = 2,                     \
      .src = { DRIVER_SRC(t, 4, 300), DRIVER_SRC(u, 300) }, .flags = (extra) }

#define CAST(what, from, to, arg_)                                                           \
    { .name = what, .op = "map", .build = build_cast, .arg = &arg_, .n_src = 1,              \
      .src = { DRIVER_RANGE(from, to, 200, 1037) }, .flags = DRIVER_EXACT }

#define BAD(what, f, n, a, b, text)                                                          \
    { .name = what, .op = "map", .build = build_fn, .fn = f, .n_src = n, .src = { a, b },    \
      .want = text }

static const driver_case cases[] = {
    UNARY("neg", -2, 2, 0, 0, DRIVER_EXACT),
    UNARY("exp", -2, 2, 0, 0, 0),
    UNARY("log", 0.2, 3, 0, 0, 0),
    UNARY("sqrt", 0.2, 3, 0, 0, DRIVER_EXACT),
    UNARY("square", -2, 2, 0, 0, DRIVER_EXACT),
    UNARY("abs", -2, 2, 0.1, 0, DRIVER_EXACT),
    UNARY("tanh", -2, 2, 0, 1, 0),
    UNARY("sigmoid", -2, 2, 0, 1, 0),
    UNARY("relu", -2, 2, 0.1, 0, DRIVER_EXACT),
    { .name = "sign", .op = "map", .build = build_fn, .fn = "sign", .n_src = 1,
      .src = { { .dtype = GR_F32, .shape = DRIVER_DIMS(3, 13), .away = 0.1 } },
      .flags = DRIVER_FLOATS | DRIVER_GOLDEN | DRIVER_EXACT },
    BINARY("add", DRIVER_EXACT),
    BINARY("sub", DRIVER_EXACT),
    BINARY("mul", DRIVER_EXACT),
    BINARY("max", DRIVER_EXACT),
    BINARY("min", DRIVER_EXACT),
    { .name = "div", .op = "map", .build = build_fn, .fn = "div", .n_src = 2,
      .src = { DRIVER_F32(5, 7), { .dtype = GR_F32, .shape = DRIVER_DIMS(5, 1), .away = 0.5 } },
      .grad = 3, .flags = DRIVER_FLOATS | DRIVER_GOLDEN | DRIVER_EXACT },
    { .name = "where", .op = "map", .build = build_fn, .fn = "where", .n_src = 3,
      .src = { DRIVER_SRC(GR_BOOL, 4, 6), DRIVER_F32(4, 6), DRIVER_F32(6) }, .grad = 6,
      .flags = DRIVER_FLOATS | DRIVER_GOLDEN | DRIVER_EXACT },
    TEST("eq"), TEST("ne"), TEST("lt"), TEST("le"), TEST("gt"), TEST("ge"),
    BY_RESULT("tanh_grad", -1, 1, 0),
    BY_RESULT("sigmoid_grad", 0, 1, 0),
    { .name = "relu_grad", .op = "map", .build = build_fn, .fn = "relu_grad", .n_src = 2,
      .src = { DRIVER_F32(3, 37), { .dtype = GR_F32, .shape = DRIVER_DIMS(37), .away = 0.1 } },
      .grad = 1, .flags = DRIVER_FLOATS | DRIVER_EXACT },
    { .name = "equal arguments of max", .op = "map", .build = build_fn, .fn = "max", .n_src = 2,
      .src = { DRIVER_F32(4), DRIVER_F32(4) }, .grad = 3, .flags = DRIVER_GOLDEN },

    LAYOUT("same shape", "mul", DRIVER_DIMS(11, 300), DRIVER_DIMS(11, 300), 0),
    LAYOUT("one element", "mul", DRIVER_DIMS(1), DRIVER_DIMS(1), 0),
    LAYOUT("no dimensions", "mul", DRIVER_DIMS0, DRIVER_DIMS0, 0),
    LAYOUT("scalar on the right", "mul", DRIVER_DIMS(5, 301), DRIVER_DIMS0, 0),
    LAYOUT("scalar on the left", "sub", DRIVER_DIMS(1, 1, 1), DRIVER_DIMS(5, 301), 0),
    LAYOUT("wide row", "add", DRIVER_DIMS(9, 700), DRIVER_DIMS(700), 0),
    LAYOUT("wider than a tile", "add", DRIVER_DIMS(3, 2500), DRIVER_DIMS(1, 2500), 0),
    LAYOUT("narrow row", "add", DRIVER_DIMS(701, 3), DRIVER_DIMS(3), 0),
    LAYOUT("narrow row that does not divide", "mul", DRIVER_DIMS(100, 37), DRIVER_DIMS(37), 0),
    LAYOUT("wide column", "mul", DRIVER_DIMS(9, 700), DRIVER_DIMS(9, 1), 0),
    LAYOUT("narrow column", "mul", DRIVER_DIMS(901, 5), DRIVER_DIMS(901, 1), 0),
    LAYOUT("both stretched", "mul", DRIVER_DIMS(37, 1), DRIVER_DIMS(1, 41), 0),
    LAYOUT("both stretched, wide", "sub", DRIVER_DIMS(5, 1), DRIVER_DIMS(600), 0),
    LAYOUT("middle", "mul", DRIVER_DIMS(4, 1, 300), DRIVER_DIMS(4, 5, 1), 0),
    LAYOUT("many dimensions", "mul", DRIVER_DIMS(2, 3, 1, 5, 1, 7), DRIVER_DIMS(3, 4, 1, 6, 1), 0),
    LAYOUT("long period", "add", DRIVER_DIMS(3, 40, 40), DRIVER_DIMS(40, 40), 0),
    LAYOUT("period and column", "add", DRIVER_DIMS(6, 7, 1, 9), DRIVER_DIMS(7, 8, 1), 0),
    LAYOUT("no rows", "add", DRIVER_DIMS(0, 5), DRIVER_DIMS(5), 0),
    LAYOUT("no columns", "add", DRIVER_DIMS(5, 0), DRIVER_DIMS(5, 1), 0),
    LAYOUT("large", "add", DRIVER_DIMS(300, 1031), DRIVER_DIMS(1031), DRIVER_LARGE),
    LAYOUT("large and flat", "mul", DRIVER_DIMS(300007), DRIVER_DIMS(300007), DRIVER_LARGE),

    TYPES("i32 and i64", "add", GR_I32, GR_I64, DRIVER_EXACT),
    TYPES("i64 and u8", "mul", GR_I64, GR_U8, DRIVER_EXACT),
    TYPES("u8 and bool", "sub", GR_U8, GR_BOOL, DRIVER_EXACT),
    TYPES("bool and bool", "max", GR_BOOL, GR_BOOL, DRIVER_EXACT),
    TYPES("f32 and i32", "mul", GR_F32, GR_I32, DRIVER_FLOATS | DRIVER_EXACT),
    TYPES("bool and f32", "mul", GR_BOOL, GR_F32, DRIVER_FLOATS | DRIVER_EXACT),
    TYPES("bf16 and f16", "add", GR_BF16, GR_F16, DRIVER_EXACT),
    TYPES("i64 and bf16", "sub", GR_I64, GR_BF16, DRIVER_EXACT),
    TYPES("f64 and f32", "div", GR_F64, GR_F32, DRIVER_FLOATS | DRIVER_EXACT),
    TYPES("compare i64", "lt", GR_I64, GR_I32, DRIVER_EXACT),
    { .name = "integer functions", .op = "map", .build = build_fn, .fn = "sign", .n_src = 1,
      .src = { DRIVER_SRC(GR_I32, 777) }, .flags = DRIVER_EXACT },
    { .name = "abs of integers", .op = "map", .build = build_fn, .fn = "abs", .n_src = 1,
      .src = { DRIVER_SRC(GR_I64, 777) }, .flags = DRIVER_EXACT },
    { .name = "where of integers", .op = "map", .build = build_fn, .fn = "where", .n_src = 3,
      .src = { DRIVER_SRC(GR_BOOL, 33), DRIVER_SRC(GR_I64, 5, 33), DRIVER_SRC(GR_I32, 33) },
      .flags = DRIVER_EXACT },

    { .name = "constant", .op = "map", .build = build_k, .fn = "mul", .arg = &two_and_half,
      .n_src = 1, .src = { DRIVER_F32(7, 301) }, .grad = 1,
      .flags = DRIVER_FLOATS | DRIVER_EXACT },
    { .name = "constant test", .op = "map", .build = build_k, .fn = "ge", .arg = &three,
      .n_src = 1, .src = { DRIVER_SRC(GR_I32, 301) }, .flags = DRIVER_EXACT },
    { .name = "cast to f64", .op = "map", .build = build_cast, .arg = &to_f64, .n_src = 1,
      .src = { DRIVER_F32(1037) }, .grad = 0, .flags = DRIVER_EXACT | DRIVER_SPECIAL },
    { .name = "cast to bf16", .op = "map", .build = build_cast, .arg = &to_bf16, .n_src = 1,
      .src = { DRIVER_F32(1037) }, .flags = DRIVER_EXACT | DRIVER_SPECIAL },
    { .name = "cast to f16", .op = "map", .build = build_cast, .arg = &to_f16, .n_src = 1,
      .src = { DRIVER_F32(1037) }, .flags = DRIVER_EXACT | DRIVER_SPECIAL },
    { .name = "cast to i32", .op = "map", .build = build_cast, .arg = &to_i32, .n_src = 1,
      .src = { DRIVER_RANGE(GR_F32, -5e9, 5e9, 1037) }, .flags = DRIVER_EXACT | DRIVER_SPECIAL },
    { .name = "cast to i64", .op = "map", .build = build_cast, .arg = &to_i64, .n_src = 1,
      .src = { DRIVER_RANGE(GR_F32, -2e19, 2e19, 1037) },
      .flags = DRIVER_EXACT | DRIVER_SPECIAL },
    { .name = "cast to u8", .op = "map", .build = build_cast, .arg = &to_u8, .n_src = 1,
      .src = { DRIVER_RANGE(GR_F32, -99, 400, 1037) }, .flags = DRIVER_EXACT | DRIVER_SPECIAL },
    { .name = "cast to bool", .op = "map", .build = build_cast, .arg = &to_bool, .n_src = 1,
      .src = { DRIVER_F32(1037) }, .flags = DRIVER_EXACT | DRIVER_SPECIAL },
    CAST("cast f64 to f32", GR_F64, -200, to_f32), CAST("cast f64 to f16", GR_F64, -200, to_f16),
    CAST("cast f64 to bf16", GR_F64, -200, to_bf16), CAST("cast f64 to i32", GR_F64, -200, to_i32),
    CAST("cast f64 to u8", GR_F64, -200, to_u8), CAST("cast f64 to i64", GR_F64, -200, to_i64),
    CAST("cast f64 to bool", GR_F64, -200, to_bool),
    CAST("cast bf16 to f32", GR_BF16, -200, to_f32), CAST("cast f16 to f32", GR_F16, -200, to_f32),
    CAST("cast f16 to bf16", GR_F16, -200, to_bf16), CAST("cast bf16 to f64", GR_BF16, -200, to_f64),
    CAST("cast f16 to f64", GR_F16, -200, to_f64), CAST("cast i32 to f32", GR_I32, -200, to_f32),
    CAST("cast i64 to f32", GR_I64, -200, to_f32), CAST("cast u8 to f32", GR_U8, 0, to_f32),
    CAST("cast i32 to bf16", GR_I32, -200, to_bf16), CAST("cast i64 to f64", GR_I64, -200, to_f64),
    CAST("cast i32 to f64", GR_I32, -200, to_f64), CAST("cast u8 to f64", GR_U8, 0, to_f64),
    CAST("cast i64 to i32", GR_I64, -200, to_i32), CAST("cast i64 to u8", GR_I64, -200, to_u8),
    CAST("cast i32 to i64", GR_I32, -200, to_i64), CAST("cast i32 to bool", GR_I32, -2, to_bool),
    CAST("cast u8 to i64", GR_U8, 0, to_i64),
    { .name = "broadcast", .op = "map", .build = build_broadcast, .arg = &wide, .n_src = 1,
      .src = { DRIVER_F32(4, 1) }, .grad = 1, .n_reduced = 1,
      .flags = DRIVER_FLOATS | DRIVER_EXACT },
    { .name = "broadcast of rows", .op = "map", .build = build_broadcast, .arg = &long_rows,
      .n_src = 1, .src = { DRIVER_F32(300) }, .grad = 1, .n_reduced = 1,
      .flags = DRIVER_FLOATS | DRIVER_EXACT },
    { .name = "fill f32", .op = "map", .build = build_fill, .arg = &fill_f32,
      .flags = DRIVER_EXACT },
    { .name = "fill bf16", .op = "map", .build = build_fill, .arg = &fill_bf16,
      .flags = DRIVER_EXACT },
    { .name = "fill i64", .op = "map", .build = build_fill, .arg = &fill_i64,
      .flags = DRIVER_EXACT },
    { .name = "fill nothing", .op = "map", .build = build_fill, .arg = &fill_none,
      .flags = DRIVER_EXACT },

    { .name = "add and relu", .op = "map", .build = build_program, .arg = &add_relu, .n_src = 2,
      .src = { DRIVER_F32(6, 400), DRIVER_F32(400) }, .grad = 3, .n_reduced = 1,
      .flags = DRIVER_FLOATS | DRIVER_EXACT },
    { .name = "add and relu inside", .op = "map", .build = build_program, .arg = &add_relu_inside,
      .n_src = 2, .src = { DRIVER_F32(6, 400), DRIVER_F32(6, 1) }, .grad = 3, .n_reduced = 1,
      .slack = 4 /* six instructions */, .flags = DRIVER_FLOATS },
    { .name = "add and relu shared", .op = "map", .build = build_program, .arg = &add_relu_shared,
      .n_src = 2, .src = { DRIVER_F32(6, 400), DRIVER_F32(400) }, .grad = 3, .n_reduced = 1,
      .flags = DRIVER_FLOATS },
    { .name = "gelu", .op = "map", .build = build_program, .arg = &gelu, .n_src = 1,
      .src = { DRIVER_F32(5, 333) }, .grad = 1, .scale = 1,
      .slack = 4 /* eleven instructions */, .flags = DRIVER_FLOATS },
    { .name = "mixed", .op = "map", .build = build_program, .arg = &mixed, .n_src = 3,
      .src = { DRIVER_F32(19, 23), DRIVER_F32(23), DRIVER_F32(19, 1) }, .grad = 7,
      .n_reduced = 1, .slack = 16 /* seventeen instructions, powers of e among them */,
      .flags = DRIVER_FLOATS },

    BAD("other shapes", "add", 2, DRIVER_F32(3, 5), DRIVER_F32(4),
        "shape [4] does not broadcast with [3, 5]"),
    BAD("other leading shapes", "mul", 2, DRIVER_F32(2, 3, 5), DRIVER_F32(3, 3, 5),
        "does not broadcast"),
    BAD("0 against 2", "mul", 2, DRIVER_F32(0, 5), DRIVER_F32(2, 5), "does not broadcast"),
    BAD("integer division", "div", 2, DRIVER_SRC(GR_I32, 4), DRIVER_SRC(GR_I32, 4),
        "'div' is not defined on integers"),
    { .name = "no such function", .op = "map", .build = build_fn, .fn = "sinus", .n_src = 1,
      .src = { DRIVER_F32(4) }, .flags = DRIVER_NO_SHAPES,
      .want = "no scalar function 'sinus'" },
    { .name = "wrong arity", .op = "map", .build = build_fn, .fn = "add", .n_src = 1,
      .src = { DRIVER_F32(4) }, .flags = DRIVER_NO_SHAPES,
      .want = "'add' takes 2 arguments, not 1" },
    { .name = "half among integers", .op = "map", .build = build_k, .fn = "add",
      .arg = &two_and_half, .n_src = 1, .src = { DRIVER_SRC(GR_I32, 4) },
      .want = "constant 2.5 with integers" },
    { .name = "integers by a float", .op = "map", .build = build_fn, .fn = "where", .n_src = 3,
      .src = { DRIVER_F32(4), DRIVER_SRC(GR_I64, 4), DRIVER_SRC(GR_I64, 4) },
      .flags = DRIVER_NO_SHAPES, .want = "needs an integer or bool condition" },
    { .name = "fill of halves", .op = "map", .build = build_fill, .arg = &fill_half,
      .want = "constant 0.5 with integers" },
    { .name = "broadcast to less", .op = "map", .build = build_broadcast, .arg = &other,
      .n_src = 1, .src = { DRIVER_F32(2, 3, 4) },
      .want = "[2, 3, 4] does not broadcast to [3, 4]" },
};
/* clang-format on */

const driver_family driver_map = { "map", cases, DRIVER_COUNT(cases) };

/*
 * Cases of map, second part: the scalar functions beyond arithmetic, activations and their
 * gradients, tests, integers, and the builders with constants.
 *
 * Gradients that are instructions of their own (gelu_grad and its kin) are cases of two
 * sources: the gradient, and the argument. Terms of the sum in them are of size 1.
 */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/ops.h"

#include <math.h>

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

static gr_value *build_clamp(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const double *ends = (const double *)c->arg;

    return gr_clamp(g, src[0], ends[0], ends[1]);
}

static gr_value *build_pow(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_pow(g, src[0], *(const double *)c->arg);
}

static gr_value *build_fill(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_masked_fill(g, src[0], src[1], *(const double *)c->arg);
}

static gr_value *build_scale_shift(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    (void)c;
    return gr_scale_shift(g, src[0], src[1], src[2]);
}

/* clang-format off */

static const double tenth = 0.1, one_and_half = 1.5, two = 2, three = 3, minus_half = -0.5,
                    minus_inf = -HUGE_VAL;
static const double ends[] = { -0.75, 1.25 }, whole_ends[] = { -2, 3 }, no_ends[] = { 2, 1 };

#define FLOATS(from, to, keep_away, ...)                                                     \
    { .dtype = GR_F32, .shape = DRIVER_DIMS(__VA_ARGS__), .lo = (from), .hi = (to),          \
      .has_range = true, .away = (keep_away) }

#define ONE(f, from, to, keep_away, size, grads, extra)                                      \
    { .name = f, .op = "map", .build = build_fn, .fn = f, .n_src = 1,                        \
      .src = { FLOATS(from, to, keep_away, 3, 13) }, .grad = (grads), .scale = (size),       \
      .flags = DRIVER_FLOATS | DRIVER_GOLDEN | (extra) },                                    \
    { .name = f " of odd numbers", .op = "map", .build = build_fn, .fn = f, .n_src = 1,      \
      .src = { FLOATS(-90, 90, 0, 1999) }, .scale = (size),                                  \
      .flags = DRIVER_FLOATS | DRIVER_SPECIAL | (extra) }

/* a is the gradient, b the argument. */
#define GRAD(f)                                                                              \
    { .name = f, .op = "map", .build = build_fn, .fn = f, .n_src = 2,                        \
      .src = { DRIVER_F32(3, 37), DRIVER_RANGE(GR_F32, -3, 3, 37) }, .grad = 3, .scale = 2,  \
      .flags = DRIVER_FLOATS },                                                              \
    { .name = f " far out", .op = "map", .build = build_fn, .fn = f, .n_src = 2,             \
      .src = { DRIVER_F32(1999), DRIVER_RANGE(GR_F32, -60, 60, 1999) }, .scale = 2,          \
      .flags = DRIVER_FLOATS }

#define LOGIC(f, n)                                                                          \
    { .name = f, .op = "map", .build = build_fn, .fn = f, .n_src = n,                        \
      .src = { DRIVER_RANGE(GR_I32, 0, 1, 6, 5), DRIVER_RANGE(GR_I32, 0, 1, 5) },            \
      .flags = DRIVER_GOLDEN | DRIVER_EXACT },                                               \
    { .name = f " of floats", .op = "map", .build = build_fn, .fn = f, .n_src = n,           \
      .src = { DRIVER_F32(1999), DRIVER_F32(1999) },                                         \
      .flags = DRIVER_FLOATS | DRIVER_SPECIAL | DRIVER_EXACT }

#define WHOLE(f, t, u)                                                                       \
    { .name = f, .op = "map", .build = build_fn, .fn = f, .n_src = 2,                        \
      .src = { DRIVER_RANGE(t, -40, 40, 7, 31), { .dtype = u, .shape = DRIVER_DIMS(31),      \
               .lo = -9, .hi = 9, .has_range = true, .away = 1 } },                          \
      .flags = DRIVER_GOLDEN | DRIVER_EXACT }

static const driver_case cases[] = {
    ONE("rsqrt", 0.2, 3, 0, 0, 1, 0),
    ONE("reciprocal", -2, 2, 0.5, 0, 1, 0),
    ONE("log1p", -0.8, 3, 0, 0, 1, 0),
    ONE("expm1", -2, 2, 0, 1, 1, 0),
    ONE("sin", -7, 7, 0, 1, 1, 0),
    ONE("cos", -7, 7, 0, 1, 1, 0),
    ONE("acos", -0.9, 0.9, 0, 1, 1, 0),
    ONE("erf", -2, 2, 0, 0, 1, 0),
    ONE("softplus", -3, 3, 0, 0, 1, 0),
    ONE("silu", -3, 3, 0, 1, 1, 0),
    ONE("gelu", -3, 3, 0, 1, 1, 0),
    ONE("gelu_tanh", -3, 3, 0, 1, 1, 0),
    ONE("floor", -3, 3, 0, 0, 0, DRIVER_EXACT),
    ONE("ceil", -3, 3, 0, 0, 0, DRIVER_EXACT),
    ONE("round", -3, 3, 0, 0, 0, DRIVER_EXACT),
    GRAD("silu_grad"), GRAD("gelu_grad"), GRAD("gelu_tanh_grad"),
    { .name = "pow", .op = "map", .build = build_fn, .fn = "pow", .n_src = 2,
      .src = { FLOATS(0.3, 2, 0, 5, 7), FLOATS(-2, 2, 0, 7) }, .grad = 3, .scale = 1,
      .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    { .name = "atan2", .op = "map", .build = build_fn, .fn = "atan2", .n_src = 2,
      .src = { FLOATS(-2, 2, 0.3, 5, 7), FLOATS(-2, 2, 0.3, 7) }, .grad = 3, .scale = 1,
      .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    { .name = "lerp", .op = "map", .build = build_fn, .fn = "lerp", .n_src = 3,
      .src = { DRIVER_F32(4, 6), DRIVER_F32(6), DRIVER_RANGE(GR_F32, 0, 1, 4, 1) }, .grad = 7,
      .scale = 2, .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    { .name = "clamp", .op = "map", .build = build_fn, .fn = "clamp", .n_src = 3,
      .src = { FLOATS(-3, 3, 0.1, 4, 6), FLOATS(-2, -1, 0, 6), FLOATS(1, 2, 0, 6) }, .grad = 7,
      .flags = DRIVER_FLOATS | DRIVER_GOLDEN | DRIVER_EXACT },
    { .name = "leaky_relu", .op = "map", .build = build_fn, .fn = "leaky_relu", .n_src = 2,
      .src = { FLOATS(-2, 2, 0.1, 5, 7), FLOATS(0.01, 0.9, 0, 7) }, .grad = 3,
      .flags = DRIVER_FLOATS | DRIVER_GOLDEN | DRIVER_EXACT },
    { .name = "elu", .op = "map", .build = build_fn, .fn = "elu", .n_src = 2,
      .src = { FLOATS(-2, 2, 0.1, 5, 7), FLOATS(0.5, 2, 0, 7) }, .grad = 3, .scale = 1,
      .flags = DRIVER_FLOATS | DRIVER_GOLDEN },
    LOGIC("and", 2), LOGIC("or", 2), LOGIC("not", 1), LOGIC("isnan", 1), LOGIC("isfinite", 1),
    WHOLE("floor_div", GR_I32, GR_I32),
    WHOLE("mod", GR_I64, GR_I32),
    { .name = "floor_div by 0", .op = "map", .build = build_fn, .fn = "floor_div", .n_src = 2,
      .src = { DRIVER_RANGE(GR_I64, -40, 40, 99), DRIVER_RANGE(GR_I64, -1, 1, 99) },
      .flags = DRIVER_EXACT },
    { .name = "mod by 0", .op = "map", .build = build_fn, .fn = "mod", .n_src = 2,
      .src = { DRIVER_RANGE(GR_I64, -40, 40, 99), DRIVER_RANGE(GR_I64, -1, 1, 99) },
      .flags = DRIVER_EXACT },

    { .name = "leaky_relu by a constant", .op = "map", .build = build_k, .fn = "leaky_relu",
      .arg = &tenth, .n_src = 1, .src = { FLOATS(-2, 2, 0.1, 7, 301) }, .grad = 1,
      .flags = DRIVER_FLOATS | DRIVER_EXACT },
    { .name = "clamp by constants", .op = "map", .build = build_clamp, .arg = ends, .n_src = 1,
      .src = { FLOATS(-2, 2, 0, 7, 301) }, .grad = 1, .flags = DRIVER_FLOATS | DRIVER_EXACT },
    { .name = "clamp of odd numbers", .op = "map", .build = build_clamp, .arg = ends, .n_src = 1,
      .src = { DRIVER_F32(1999) }, .flags = DRIVER_FLOATS | DRIVER_EXACT | DRIVER_SPECIAL },
    { .name = "clamp of integers", .op = "map", .build = build_clamp, .arg = whole_ends,
      .n_src = 1, .src = { DRIVER_SRC(GR_I32, 777) }, .flags = DRIVER_EXACT },
    { .name = "power 1.5", .op = "map", .build = build_pow, .arg = &one_and_half, .n_src = 1,
      .src = { FLOATS(0.1, 3, 0, 5, 33) }, .grad = 1, .scale = 1, .flags = DRIVER_FLOATS },
    { .name = "power 2", .op = "map", .build = build_pow, .arg = &two, .n_src = 1,
      .src = { DRIVER_F32(5, 33) }, .grad = 1, .flags = DRIVER_FLOATS | DRIVER_EXACT },
    { .name = "power 3", .op = "map", .build = build_pow, .arg = &three, .n_src = 1,
      .src = { DRIVER_F32(5, 33) }, .grad = 1, .scale = 1, .flags = DRIVER_FLOATS },
    { .name = "power -1/2", .op = "map", .build = build_pow, .arg = &minus_half, .n_src = 1,
      .src = { FLOATS(0.2, 3, 0, 5, 33) }, .grad = 1, .flags = DRIVER_FLOATS },
    { .name = "masked_fill", .op = "map", .build = build_fill, .arg = &tenth, .n_src = 2,
      .src = { DRIVER_F32(4, 300), DRIVER_SRC(GR_BOOL, 300) }, .grad = 1,
      .flags = DRIVER_FLOATS | DRIVER_EXACT },
    { .name = "masked_fill with infinity", .op = "map", .build = build_fill, .arg = &minus_inf,
      .n_src = 2, .src = { DRIVER_F32(4, 300), DRIVER_SRC(GR_BOOL, 4, 1) },
      .flags = DRIVER_FLOATS | DRIVER_EXACT },
    { .name = "masked_fill of integers", .op = "map", .build = build_fill, .arg = &three,
      .n_src = 2, .src = { DRIVER_SRC(GR_I64, 40), DRIVER_SRC(GR_BOOL, 40) },
      .flags = DRIVER_EXACT },
    { .name = "scale_shift over tokens", .op = "map", .build = build_scale_shift, .n_src = 3,
      .src = { DRIVER_F32(3, 9, 40), DRIVER_F32(3, 1, 40), DRIVER_F32(3, 1, 40) }, .grad = 7,
      .n_reduced = 1, .flags = DRIVER_FLOATS },
    { .name = "scale_shift by channels", .op = "map", .build = build_scale_shift, .n_src = 3,
      .src = { DRIVER_F32(2, 300), DRIVER_F32(300), DRIVER_F32(300) }, .grad = 7,
      .n_reduced = 1, .flags = DRIVER_FLOATS },

    { .name = "clamp to nothing", .op = "clamp", .build = build_clamp, .arg = no_ends, .n_src = 1,
      .src = { DRIVER_F32(4) }, .flags = DRIVER_NO_SHAPES, .want = "from 2 to 1 leaves nothing" },
    { .name = "mod of floats", .op = "map", .build = build_fn, .fn = "mod", .n_src = 2,
      .src = { DRIVER_F32(4), DRIVER_F32(4) }, .want = "'mod' is defined on integers only" },
    { .name = "gelu of integers", .op = "map", .build = build_fn, .fn = "gelu", .n_src = 1,
      .src = { DRIVER_SRC(GR_I32, 4) }, .want = "'gelu' is not defined on integers" },
    { .name = "masked_fill by floats", .op = "masked_fill", .build = build_fill, .arg = &three,
      .n_src = 2, .src = { DRIVER_SRC(GR_I64, 40), DRIVER_F32(40) }, .flags = DRIVER_NO_SHAPES,
      .want = "the mask of integers" },
    { .name = "masked_fill of other shapes", .op = "map", .build = build_fill, .arg = &three,
      .n_src = 2, .src = { DRIVER_F32(4, 5), DRIVER_SRC(GR_BOOL, 4) },
      .want = "shape [4] does not broadcast with [4, 5]" },
};
/* clang-format on */

const driver_family driver_scalar = { "scalar", cases, DRIVER_COUNT(cases) };

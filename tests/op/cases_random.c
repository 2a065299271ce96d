/*
 * Cases of random and dropout: every kernel must draw what the reference draws. What is not
 * numbers against numbers (their distribution, what they depend on) is in test_random.c.
 *
 * The batch is dimension 0 of the first source.
 */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/random.h"
#include "op/random/random.h"

/* Far into a training, and not the first rank. */
static const gr_scalars late = {
    .lr = 0.1f, .step = 123456, .seed = 0x123456789abcdef, .sample = 40
};

static gr_value *build_random(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const gr_random_attr *a = (const gr_random_attr *)c->arg;

    (void)src;
    switch (a->kind) {
    case GR_RANDOM_UNIFORM: return gr_random_uniform(g, a->dtype, a->shape, a->a, a->b);
    case GR_RANDOM_NORMAL: return gr_random_normal(g, a->dtype, a->shape, a->a, a->b);
    case GR_RANDOM_BERNOULLI: return gr_random_bernoulli(g, a->dtype, a->shape, a->a);
    case GR_RANDOM_INT:
        return gr_random_int(g, a->dtype, a->shape, a->from, a->from + (int64_t)a->range);
    case GR_RANDOM_PERM: return gr_random_perm(g, a->dtype, a->shape);
    }
    return NULL;
}

static gr_value *build_keyed(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const gr_random_attr *a = (const gr_random_attr *)c->arg;

    switch ((int)a->kind) {
    case GR_RANDOM_UNIFORM:
        return gr_random_uniform_keyed(g, src[0], a->dtype, a->shape, a->a, a->b);
    case GR_RANDOM_NORMAL: return gr_random_normal_keyed(g, src[0], a->dtype, a->shape, a->a, a->b);
    case GR_RANDOM_INT:
        return gr_random_int_keyed(g, src[0], a->dtype, a->shape, a->from,
                                   a->from + (int64_t)a->range);
    default: return gr_random_perm_keyed(g, src[0], a->dtype, a->shape);
    }
}

static gr_value *build_dropout(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_dropout(g, src[0], *(const double *)c->arg);
}

static gr_value *build_drop_path(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_drop_path(g, src[0], *(const double *)c->arg);
}

/* A value that is no multiple of the batch of 5. */
static gr_value *build_shared(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_dropout(g, src[1], *(const double *)c->arg);
}

/* clang-format off */
static const double tenth = 0.1, half = 0.5, most = 0.999, more = 1.5, one = 1;

#define ATTR(name_, kind_, t, a_, b_, from_, range_, ...)                                    \
    static const gr_random_attr name_ = { .kind = GR_RANDOM_##kind_, .dtype = t, .a = a_,    \
        .b = b_, .from = from_, .range = range_, .shape = DRIVER_DIMS(__VA_ARGS__) }
ATTR(uniform, UNIFORM, GR_F32, -3, 5, 0, 0, 5, 1300);
ATTR(uniform_f64, UNIFORM, GR_F64, -3, 5, 0, 0, 5, 70);
ATTR(uniform_bf16, UNIFORM, GR_BF16, 0, 1, 0, 0, 5, 1300);
ATTR(uniform_end, UNIFORM, GR_BF16, 0.5, 1, 0, 0, 5, 1300);
ATTR(uniform_point, UNIFORM, GR_F32, 0.1, 0.1, 0, 0, 5, 70); /* 0.1 is more in f32 */
ATTR(uniform_f16, UNIFORM, GR_F16, 0, 1, 0, 0, 5, 1300);
ATTR(uniform_shared, UNIFORM, GR_F32, 0, 1, 0, 0, 3, 2000);
ATTR(uniform_rows, UNIFORM, GR_F32, 0, 1, 0, 0, 15, 77);
ATTR(uniform_one, UNIFORM, GR_F32, 0, 1, 0, 0, 1);
ATTR(uniform_none, UNIFORM, GR_F32, 0, 1, 0, 0, 5, 0);
ATTR(uniform_large, UNIFORM, GR_F32, 0, 1, 0, 0, 5, 30011);
ATTR(normal, NORMAL, GR_F32, 1, 2, 0, 0, 5, 1300);
ATTR(normal_f64, NORMAL, GR_F64, 0, 1, 0, 0, 5, 70);
ATTR(normal_bf16, NORMAL, GR_BF16, 0, 1, 0, 0, 7, 33);
ATTR(normal_odd, NORMAL, GR_F32, 0, 1, 0, 0, 5, 17);
ATTR(bernoulli, BERNOULLI, GR_BOOL, 0.3, 0, 0, 0, 5, 333);
ATTR(bernoulli_f32, BERNOULLI, GR_F32, 0.3, 0, 0, 0, 5, 333);
ATTR(bernoulli_1, BERNOULLI, GR_U8, 1, 0, 0, 0, 5, 99);
ATTR(ints, INT, GR_I64, 0, 0, -7, 1000, 5, 333);
ATTR(ints_i32, INT, GR_I32, 0, 0, 0, 1000, 5, 333);
ATTR(ints_wide, INT, GR_I64, 0, 0, 0, (uint64_t)1 << 32, 5, 333);
ATTR(perm, PERM, GR_I64, 0, 0, 0, 0, 5, 3, 40);
ATTR(perm_shared, PERM, GR_I32, 0, 0, 0, 0, 200);
ATTR(bad_type, UNIFORM, GR_I32, 0, 1, 0, 0, 4);
ATTR(bad_ends, UNIFORM, GR_F32, 1, 0, 0, 0, 4);
ATTR(bad_std, NORMAL, GR_F32, 1, -1, 0, 0, 4);
ATTR(bad_p, BERNOULLI, GR_F32, 1.5, 0, 0, 0, 4);
ATTR(bad_range, INT, GR_I64, 0, 0, 5, 0, 4);
ATTR(bad_whole, INT, GR_F32, 0, 0, 0, 10, 4);

#define RANDOM(what, a_, extra)                                                              \
    { .name = what, .op = "random", .build = build_random, .arg = &a_, .n_src = 1,           \
      .src = { DRIVER_F32(5, 2) }, .scale = 8, .scalars = &late, .flags = (extra) }
#define KEYED(what, a_, extra)                                                               \
    { .name = what, .op = "random", .build = build_keyed, .arg = &a_, .n_src = 1,            \
      .src = { DRIVER_SRC(GR_I64, 5) }, .scale = 8, .scalars = &late, .flags = (extra) }
#define NO_KEYS(what, type, text, ...)                                                       \
    { .name = what, .op = "random", .build = build_keyed, .arg = &uniform, .n_src = 1,       \
      .src = { DRIVER_SRC(type, __VA_ARGS__) }, .flags = DRIVER_NO_SHAPES, .want = text }
#define DROP(what, build_, p, t, extra, ...)                                                 \
    { .name = what, .op = "dropout", .build = build_, .arg = &p, .n_src = 1,                 \
      .src = { DRIVER_SRC(t, __VA_ARGS__) }, .grad = 1, .scalars = &late,                    \
      .flags = DRIVER_FLOATS | DRIVER_EXACT | (extra) }
#define BAD(what, a_, text)                                                                  \
    { .name = what, .op = "random", .build = build_random, .arg = &a_, .n_src = 1,           \
      .src = { DRIVER_F32(4) }, .flags = DRIVER_NO_SHAPES, .want = text }

static const driver_case cases[] = {
    RANDOM("uniform", uniform, 0), RANDOM("uniform f64", uniform_f64, 0),
    RANDOM("uniform bf16", uniform_bf16, DRIVER_EXACT),
    RANDOM("uniform bf16 up to the end", uniform_end, DRIVER_EXACT),
    RANDOM("uniform from a number to itself", uniform_point, DRIVER_EXACT),
    RANDOM("uniform f16", uniform_f16, DRIVER_EXACT),
    RANDOM("uniform for all", uniform_shared, DRIVER_EXACT),
    RANDOM("uniform, rows of samples", uniform_rows, DRIVER_EXACT),
    RANDOM("one uniform number", uniform_one, DRIVER_EXACT),
    RANDOM("no uniform number", uniform_none, DRIVER_EXACT),
    RANDOM("many uniform numbers", uniform_large, DRIVER_EXACT | DRIVER_LARGE),
    RANDOM("normal", normal, 0), RANDOM("normal f64", normal_f64, 0),
    RANDOM("normal bf16", normal_bf16, 0), RANDOM("normal, odd", normal_odd, 0),
    RANDOM("bernoulli", bernoulli, DRIVER_EXACT),
    RANDOM("bernoulli f32", bernoulli_f32, DRIVER_EXACT),
    RANDOM("bernoulli of certainty", bernoulli_1, DRIVER_EXACT),
    RANDOM("integers", ints, DRIVER_EXACT), RANDOM("integers i32", ints_i32, DRIVER_EXACT),
    RANDOM("integers of 32 bits", ints_wide, DRIVER_EXACT),
    RANDOM("permutations", perm, DRIVER_EXACT),
    RANDOM("a permutation for all", perm_shared, DRIVER_EXACT),

    KEYED("uniform by keys", uniform, 0), KEYED("uniform by keys, f64", uniform_f64, 0),
    KEYED("uniform by keys, rows of samples", uniform_rows, DRIVER_EXACT),
    KEYED("uniform by keys, large", uniform_large, DRIVER_EXACT | DRIVER_LARGE),
    KEYED("normal by keys", normal, 0), KEYED("normal by keys, odd", normal_odd, 0),
    KEYED("integers by keys", ints, DRIVER_EXACT), KEYED("permutations by keys", perm, DRIVER_EXACT),
    NO_KEYS("keys of i32", GR_I32, "keys are i64", 5),
    NO_KEYS("a table of keys", GR_I64, "keys are i64", 5, 2),
    NO_KEYS("too many keys", GR_I64, "7 keys, but", 7),

    DROP("dropout", build_dropout, tenth, GR_F32, 0, 5, 1300),
    DROP("dropout of rows of samples", build_dropout, half, GR_F32, 0, 5, 7, 9),
    DROP("dropout of one sample", build_dropout, half, GR_F32, 0, 1, 2500),
    DROP("dropout of nearly all", build_dropout, most, GR_F32, 0, 3, 700),
    DROP("dropout of one number each", build_dropout, half, GR_F32, 0, 300),
    DROP("dropout of nothing", build_dropout, half, GR_F32, 0, 0, 4),
    DROP("dropout, large", build_dropout, tenth, GR_F32, DRIVER_LARGE, 7, 30011),
    DROP("dropout of odd numbers", build_dropout, half, GR_F32, DRIVER_SPECIAL, 5, 399),
    DROP("drop_path", build_drop_path, half, GR_F32, 0, 20, 130),
    DROP("drop_path of long samples", build_drop_path, half, GR_F32, 0, 9, 1500),
    DROP("drop_path of one number each", build_drop_path, tenth, GR_F32, 0, 77),
    { .name = "dropout for all", .op = "dropout", .build = build_shared, .arg = &half, .n_src = 2,
      .src = { DRIVER_F32(5, 2), DRIVER_F32(3, 400) }, .grad = 2, .scalars = &late,
      .flags = DRIVER_FLOATS | DRIVER_EXACT },

    BAD("uniform integers", bad_type, "uniform numbers are of a floating type"),
    BAD("uniform backwards", bad_ends, "uniform from 1 to 0"),
    BAD("normal backwards", bad_std, "deviation -1"),
    BAD("bernoulli beyond 1", bad_p, "the probability is 1.5"),
    BAD("integers from nothing", bad_range, "a range of 0 numbers"),
    BAD("integers as floats", bad_whole, "whole numbers are i32 or i64"),
    { .name = "dropout of more than all", .op = "dropout", .build = build_dropout, .arg = &more,
      .n_src = 1, .src = { DRIVER_F32(4, 3) }, .want = "the probability is 1.5" },
    { .name = "dropout of all", .op = "dropout", .build = build_dropout, .arg = &one,
      .n_src = 1, .src = { DRIVER_F32(4, 3) }, .want = "the probability is 1," },
    { .name = "dropout of integers", .op = "dropout", .build = build_dropout, .arg = &half,
      .n_src = 1, .src = { DRIVER_SRC(GR_I32, 4, 3) }, .want = "must be of a floating type" },
};
/* clang-format on */

const driver_family driver_random = { "random", cases, DRIVER_COUNT(cases) };

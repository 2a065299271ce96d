/* Cases of one_hot and confusion: integers, so every kernel gives the same bits. */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/loss.h"

typedef struct hot {
    int64_t n;
    gr_dtype dtype;
} hot;

static gr_value *build_one_hot(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const hot *h = (const hot *)c->arg;

    return gr_one_hot(g, src[0], h->n, h->dtype);
}

static gr_value *build_confusion(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_confusion(g, src[0], src[1], *(const int64_t *)c->arg);
}

/* clang-format off */
static const hot five = { 5, GR_F32 }, five_bool = { 5, GR_BOOL }, five_i64 = { 5, GR_I64 },
                 no_class = { 0, GR_F32 };
static const int64_t n_classes = 5, too_many = 5000, no_classes = 0;

#define HOT(what, a, from, to, type, extra, ...)                                             \
    { .name = what, .op = "one_hot", .build = build_one_hot, .arg = &a, .n_src = 1,          \
      .src = { DRIVER_RANGE(type, from, to, __VA_ARGS__) }, .flags = DRIVER_EXACT | (extra) }
#define CONFUSED(what, t, u, from, to, extra, ...)                                           \
    { .name = what, .op = "confusion", .build = build_confusion, .arg = &n_classes,          \
      .n_src = 2, .src = { DRIVER_RANGE(t, from, to, __VA_ARGS__),                           \
                           DRIVER_RANGE(u, 0, 4, __VA_ARGS__) },                             \
      .flags = DRIVER_EXACT | (extra) }

static const driver_case cases[] = {
    HOT("one_hot", five, 0, 4, GR_I64, DRIVER_GOLDEN, 3, 7),
    HOT("one_hot of u8 as bool", five_bool, 0, 4, GR_U8, 0, 40),
    HOT("one_hot beyond the classes", five_i64, -2, 6, GR_I32, 0, 40),
    HOT("one_hot of one label", five, 0, 4, GR_I32, 0, 1),
    HOT("one_hot of no label", five, 0, 4, GR_I32, 0, 0),
    { .name = "one_hot of no class", .op = "one_hot", .build = build_one_hot, .arg = &no_class,
      .n_src = 1, .src = { DRIVER_SRC(GR_I32, 4) }, .want = "0 classes" },
    { .name = "one_hot of floats", .op = "one_hot", .build = build_one_hot, .arg = &five,
      .n_src = 1, .src = { DRIVER_F32(4) }, .want = "i32, i64 or u8" },

    CONFUSED("confusion", GR_I64, GR_I32, 0, 4, DRIVER_GOLDEN, 300),
    CONFUSED("confusion of images", GR_U8, GR_I64, 0, 7, 0, 3, 11, 13),
    CONFUSED("confusion of many", GR_I64, GR_I64, -3, 7, 0, 70001),
    CONFUSED("confusion of one", GR_I32, GR_U8, 0, 4, 0, 1),
    CONFUSED("confusion of nothing", GR_I64, GR_I64, 0, 4, 0, 0),
    { .name = "confusion, wrong prediction", .op = "confusion", .build = build_confusion,
      .arg = &n_classes, .n_src = 2, .src = { DRIVER_RANGE(GR_I64, 0, 4, 9),
                                              DRIVER_RANGE(GR_I64, 5, 5, 9) },
      .flags = DRIVER_FAULTS },
    { .name = "confusion of other shapes", .op = "confusion", .build = build_confusion,
      .arg = &n_classes, .n_src = 2, .src = { DRIVER_SRC(GR_I64, 9), DRIVER_SRC(GR_I64, 8) },
      .want = "one prediction per target" },
    { .name = "confusion of floats", .op = "confusion", .build = build_confusion,
      .arg = &n_classes, .n_src = 2, .src = { DRIVER_F32(9), DRIVER_SRC(GR_I64, 9) },
      .want = "i32, i64 or u8" },
    { .name = "confusion of no class", .op = "confusion", .build = build_confusion,
      .arg = &no_classes, .n_src = 2, .src = { DRIVER_SRC(GR_I64, 9), DRIVER_SRC(GR_I64, 9) },
      .want = "0 classes" },
    { .name = "confusion of too many classes", .op = "confusion", .build = build_confusion,
      .arg = &too_many, .n_src = 2, .src = { DRIVER_SRC(GR_I64, 9), DRIVER_SRC(GR_I64, 9) },
      .want = "5000 classes" },
};
/* clang-format on */

const driver_family driver_classes = { "classes", cases, DRIVER_COUNT(cases) };

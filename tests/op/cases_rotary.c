/* Cases of rotary: a turned number is a sum of two products. */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/attention.h"

static gr_value *build(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_rotary(g, src[0], c->n_src > 1 ? src[1] : NULL, c->arg);
}

static const gr_rotary_opts interleaved = { .interleaved = true }, two_heads = { .heads = 2 },
                            two_axes = { .base = 100, .axes = 2 },
                            interleaved_axes = { .base = 100, .axes = 2, .interleaved = true },
                            short_table = { .max_position = 8 }, three_axes = { .axes = 3 },
                            four_heads = { .heads = 4 }, few_positions = { .max_position = 3 };

#define CASE(text, opts, n, ...)                                                 \
    .name = (text), .op = "rotary", .build = build, .arg = (opts), .n_src = (n), \
    .src = { __VA_ARGS__ }, .n_reduced = 2, .grad = 1
#define X(...)     DRIVER_F32(__VA_ARGS__)
#define AT(t, ...) DRIVER_RANGE(t, 0, 36, __VA_ARGS__)
#define FLOATS     .flags = DRIVER_FLOATS
#define GOLDEN     .flags = DRIVER_FLOATS | DRIVER_GOLDEN

/* clang-format off */
static const driver_case cases[] = {
    { CASE("halves", NULL, 1, X(2, 5, 3, 8)), GOLDEN },
    { CASE("interleaved", &interleaved, 1, X(2, 5, 3, 8)), GOLDEN },
    { CASE("some heads", &two_heads, 1, X(2, 5, 3, 8)), GOLDEN },
    { CASE("positions", NULL, 2, X(2, 5, 3, 8), AT(GR_I32, 2, 5)), GOLDEN },
    { CASE("positions of all samples", NULL, 2, X(2, 5, 3, 8), AT(GR_I64, 5)), FLOATS },
    { CASE("two axes", &two_axes, 2, X(2, 5, 3, 8), AT(GR_I64, 5, 2)), GOLDEN },
    { CASE("two axes of samples", &two_axes, 2, X(2, 5, 3, 8), AT(GR_I32, 2, 5, 2)), GOLDEN },
    { CASE("two axes, interleaved", &interleaved_axes, 2, X(2, 5, 3, 12), AT(GR_I32, 2, 5, 2)),
      FLOATS },
    { CASE("size 2", NULL, 1, X(1, 3, 2, 2)), FLOATS },
    { CASE("size 64", NULL, 1, X(2, 40, 3, 64)), FLOATS },
    { CASE("size 66", NULL, 1, X(1, 7, 3, 66)), FLOATS },
    { CASE("size 66, interleaved", &interleaved, 1, X(1, 7, 3, 66)), FLOATS },
    { CASE("on threads", NULL, 1, X(2, 70, 4, 64)), .flags = DRIVER_FLOATS | DRIVER_LARGE },
    { CASE("no token", NULL, 1, X(2, 0, 3, 8)), FLOATS },
    { CASE("no size", NULL, 1, X(2, 5, 3, 0)), FLOATS },
    { CASE("a position too great", &short_table, 2, X(2, 5, 3, 8), DRIVER_RANGE(GR_I32, 8, 9, 5)),
      .flags = DRIVER_FAULTS },
    { CASE("a negative position", NULL, 2, X(2, 5, 3, 8), DRIVER_RANGE(GR_I64, -2, -1, 2, 5)),
      .flags = DRIVER_FAULTS },

    { CASE("integers", NULL, 1, DRIVER_SRC(GR_I32, 2, 5, 3, 8)), .want = "floating" },
    { CASE("three dimensions", NULL, 1, X(2, 5, 8)), .want = "[batch, tokens, heads, head size]" },
    { CASE("odd size", NULL, 1, X(2, 5, 3, 7)), .want = "7 numbers" },
    { CASE("odd size of two axes", &two_axes, 2, X(2, 5, 3, 6), AT(GR_I64, 5, 2)),
      .want = "6 numbers" },
    { CASE("three axes", &three_axes, 1, X(2, 5, 3, 6)), .want = "not 3" },
    { CASE("two axes without positions", &two_axes, 1, X(2, 5, 3, 8)), .want = "need positions" },
    { CASE("float positions", NULL, 2, X(2, 5, 3, 8), X(5)), .want = "i32 or i64" },
    { CASE("other positions", NULL, 2, X(2, 5, 3, 8), AT(GR_I32, 2)), .want = "[5] or [2, 5]" },
    { CASE("positions of one axis", &two_axes, 2, X(2, 5, 3, 8), AT(GR_I32, 2, 5)),
      .want = "[5, 2] or [2, 5, 2]" },
    { CASE("more heads", &four_heads, 1, X(2, 5, 3, 8)), .want = "4 of 3 heads" },
    { CASE("more tokens than positions", &few_positions, 1, X(2, 5, 3, 8)), .want = "position 3" },
};
/* clang-format on */

const driver_family driver_rotary = { "rotary", cases, DRIVER_COUNT(cases) };

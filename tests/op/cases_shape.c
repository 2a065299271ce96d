/* Cases of reshape and transpose: copies, so every kernel must give the reference's bits. */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/ops.h"

static gr_value *build_reshape(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_reshape(g, src[0], *(const gr_shape *)c->arg);
}

static gr_value *build_transpose(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_transpose(g, src[0], (const int *)c->arg);
}

static const gr_shape six_two = DRIVER_DIMS(6, 2), flat = DRIVER_DIMS(12),
                      open = DRIVER_DIMS(3, -1), scalar = DRIVER_DIMS0, none = DRIVER_DIMS(0, 7),
                      five = DRIVER_DIMS(5), open_5 = DRIVER_DIMS(5, -1),
                      open_0 = DRIVER_DIMS(0, -1), two_open = DRIVER_DIMS(-1, -1),
                      ones = DRIVER_DIMS(1, 12, 1);
static const int same[] = { 0, 1, 2, 3 }, swap[] = { 1, 0 }, heads[] = { 0, 2, 1, 3 },
                 last_first[] = { 2, 0, 1 }, reverse[] = { 4, 3, 2, 1, 0 }, twice[] = { 0, 0 },
                 beyond[] = { 0, 2 }, nchw[] = { 0, 3, 1, 2 }, nhwc[] = { 0, 2, 3, 1 },
                 patches[] = { 0, 1, 3, 5, 2, 4 };

#define CASE(text, what, attr, ...)                                                \
    .name = (text), .op = #what, .build = build_##what, .arg = (attr), .n_src = 1, \
    .src = { __VA_ARGS__ }
#define FLOATS .grad = 1, .flags = DRIVER_FLOATS | DRIVER_EXACT
#define GOLDEN .grad = 1, .flags = DRIVER_FLOATS | DRIVER_EXACT | DRIVER_GOLDEN
#define EXACT  .flags = DRIVER_EXACT

/* clang-format off */
static const driver_case cases[] = {
    { CASE("reshape", reshape, &six_two, DRIVER_F32(3, 4)), GOLDEN },
    { CASE("reshape flat", reshape, &flat, DRIVER_F32(3, 4)), FLOATS },
    { CASE("reshape with -1", reshape, &open, DRIVER_F32(2, 6)), FLOATS },
    { CASE("reshape with ones", reshape, &ones, DRIVER_F32(2, 6)), FLOATS },
    { CASE("reshape to a number", reshape, &scalar, DRIVER_F32(1, 1)), FLOATS },
    { CASE("reshape of no element", reshape, &none, DRIVER_F32(3, 0)), FLOATS },
    { CASE("reshape of whole numbers", reshape, &flat, DRIVER_SRC(GR_I64, 3, 4)), EXACT },
    { CASE("reshape to another count", reshape, &five, DRIVER_F32(3, 4)),
      .want = "12 elements are not 5" },
    { CASE("reshape, -1 does not divide", reshape, &open_5, DRIVER_F32(3, 4)),
      .want = "fits for -1" },
    { CASE("reshape, -1 beside 0", reshape, &open_0, DRIVER_F32(3, 0)), .want = "fits for -1" },
    { CASE("reshape, -1 twice", reshape, &two_open, DRIVER_F32(3, 4)), .want = "fits for -1" },

    { CASE("transpose", transpose, swap, DRIVER_F32(5, 7)), GOLDEN },
    { CASE("transpose of heads", transpose, heads, DRIVER_F32(2, 3, 4, 5)), GOLDEN },
    { CASE("transpose to the front", transpose, last_first, DRIVER_F32(3, 4, 5)), GOLDEN },
    { CASE("transpose reversed", transpose, reverse, DRIVER_F32(2, 3, 4, 3, 2)), FLOATS },
    { CASE("transpose of nothing", transpose, same, DRIVER_F32(2, 3, 2, 3)), FLOATS },
    { CASE("transpose of ones", transpose, heads, DRIVER_F32(1, 6, 1, 5)), FLOATS },
    { CASE("transpose beyond a tile", transpose, swap, DRIVER_F32(33, 67)), FLOATS },
    { CASE("transpose on threads", transpose, nchw, DRIVER_F32(2, 19, 17, 33)), FLOATS },
    { CASE("transpose of rows on threads", transpose, heads, DRIVER_F32(2, 17, 9, 64)), FLOATS },
    { CASE("transpose of 3 channels", transpose, nchw, DRIVER_F32(2, 7, 11, 3)), FLOATS },
    { CASE("transpose to 3 channels", transpose, nhwc, DRIVER_F32(2, 3, 7, 11)), FLOATS },
    { CASE("transpose of 2 channels", transpose, nchw, DRIVER_F32(1, 9, 9, 2)), FLOATS },
    { CASE("transpose to 2 channels", transpose, nhwc, DRIVER_F32(1, 2, 9, 9)), FLOATS },
    { CASE("transpose of 4 channels", transpose, nchw, DRIVER_F32(2, 5, 7, 4)), FLOATS },
    { CASE("transpose to 4 channels", transpose, nhwc, DRIVER_F32(2, 4, 5, 7)), FLOATS },
    { CASE("transpose of patches", transpose, patches, DRIVER_F32(2, 3, 4, 2, 4, 3)), FLOATS },
    { CASE("transpose of large patches", transpose, patches, DRIVER_F32(1, 2, 5, 3, 19, 6)), FLOATS },
    { CASE("transpose of 3 bytes", transpose, nchw, DRIVER_SRC(GR_U8, 2, 5, 7, 3)), EXACT },
    { CASE("transpose to 3 numbers", transpose, nhwc, DRIVER_SRC(GR_I64, 2, 3, 5, 7)), EXACT },
    { CASE("transpose of no element", transpose, swap, DRIVER_F32(0, 5)), FLOATS },
    { CASE("transpose of i64", transpose, swap, DRIVER_SRC(GR_I64, 5, 18)), EXACT },
    { CASE("transpose of u8", transpose, swap, DRIVER_SRC(GR_U8, 5, 18)), EXACT },
    { CASE("transpose of a dimension twice", transpose, twice, DRIVER_F32(3, 4)),
      .want = "each dimension once" },
    { CASE("transpose of a dimension beyond", transpose, beyond, DRIVER_F32(3, 4)),
      .want = "[0, 2]" },
};
/* clang-format on */

const driver_family driver_shape = { "shape", cases, DRIVER_COUNT(cases) };

/* Cases of concat, split, slice, pad and flip: copies, so every kernel must give the
 * reference's bits. */
#include "op/driver.h"
#include "op/families.h"

#include "gradus/ops.h"

static gr_value *build_concat(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_concat(g, src, c->n_src, *(const int *)c->arg);
}

/* Of other types than the first source, which the driver cannot vary alone. */
static gr_value *build_mixed(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    gr_dtype t = gr_value_dtype(src[0]) == GR_F32 ? GR_BF16 : GR_F32;
    gr_value *both[] = { src[0], gr_cast(g, src[1], t) };

    return gr_concat(g, both, 2, *(const int *)c->arg);
}

typedef struct split_arg {
    int axis, n, returned;
    const int64_t *sizes;
} split_arg;

static gr_value *build_split(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const split_arg *a = c->arg;
    gr_value *out[4];

    gr_split(g, src[0], a->axis, a->n, a->sizes, out);
    return out[a->returned];
}

static gr_value *build_slice(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_slice(g, src[0], c->arg);
}

typedef struct pad_arg {
    int64_t lo[4], hi[4];
    double value;
} pad_arg;

static gr_value *build_pad(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    const pad_arg *a = c->arg;

    return gr_pad(g, src[0], a->lo, a->hi, a->value);
}

static gr_value *build_flip(gr_graph *g, gr_value *const *src, const driver_case *c)
{
    return gr_flip(g, src[0], *(const unsigned *)c->arg);
}

static const int first = 0, second = 1, third = 2, last = -1, far = 3;
static const int64_t sizes_213[] = { 2, 1, 3 }, sizes_06[] = { 0, 6 }, sizes_22[] = { 2, 2 },
                     sizes_minus[] = { -1, 7 };
static const split_arg three = { 1, 3, 1, sizes_213 }, equal = { -1, 2, 0, NULL },
                       rows = { 0, 2, 1, NULL }, whole = { 0, 1, 0, NULL },
                       empty = { 1, 2, 1, sizes_06 }, short_of = { 1, 2, 0, sizes_22 },
                       minus = { 1, 2, 0, sizes_minus }, uneven = { 1, 4, 0, NULL },
                       no_axis = { 2, 2, 0, NULL }, channels = { -1, 3, 2, NULL };
static const gr_range middle[] = { GR_RANGE_ALL, { 2, 5, 1 } },
                      stepped[] = { { 1, GR_END, 2 }, { 0, -1, 3 } },
                      front[] = { { 0, 2, 1 }, GR_RANGE_ALL, GR_RANGE_ALL },
                      all_of_4[] = { GR_RANGE_ALL, { 1, -1, 1 }, { 2, 7, 2 }, GR_RANGE_ALL },
                      nothing[] = { { 3, 3, 1 }, GR_RANGE_ALL },
                      negative[] = { { -2, -1, 1 }, GR_RANGE_ALL },
                      beyond[] = { GR_RANGE_ALL, { 2, 8, 1 } },
                      long_step[] = { { 1, GR_END, INT64_MAX }, { 2, GR_END, INT64_MAX } },
                      far_start[] = { GR_RANGE_ALL, { INT64_MIN, GR_END, 1 } },
                      backwards[] = { GR_RANGE_ALL, { 5, 2, 1 } },
                      no_step[] = { GR_RANGE_ALL, { 0, 2, 0 } };
static const pad_arg sides = { { 1, 0 }, { 0, 2 }, 0 },
                     border = { { 0, 1, 2, 0 }, { 0, 2, 1, 0 }, -1.5 },
                     seven = { { 2, 1 }, { 1, 3 }, 7 }, none = { { 0 }, { 0 }, 1 },
                     less = { { 0, -1 }, { 0, 0 }, 0 };
static const unsigned flip_0 = 1, flip_last = 2, flip_12 = 6, flip_far = 8;

#define CASE(text, what, attr, n, ...)                                               \
    .name = (text), .op = #what, .build = build_##what, .arg = (attr), .n_src = (n), \
    .src = { __VA_ARGS__ }
#define MIXED(text, attr, ...)                                                       \
    .name = (text), .op = "concat", .build = build_mixed, .arg = (attr), .n_src = 2, \
    .src = { __VA_ARGS__ }
#define FLOATS(which) .grad = (which), .flags = DRIVER_FLOATS | DRIVER_EXACT
#define GOLDEN(which) .grad = (which), .flags = DRIVER_FLOATS | DRIVER_EXACT | DRIVER_GOLDEN
#define EXACT         .flags = DRIVER_EXACT

/* clang-format off */
static const driver_case cases[] = {
    { CASE("concat of channels", concat, &last, 2, DRIVER_F32(2, 3, 5), DRIVER_F32(2, 3, 7)), GOLDEN(3) },
    { CASE("concat of tokens", concat, &second, 3, DRIVER_F32(2, 3, 4), DRIVER_F32(2, 1, 4), DRIVER_F32(2, 2, 4)), GOLDEN(7) },
    { CASE("concat of rows", concat, &first, 2, DRIVER_F32(3, 4), DRIVER_F32(2, 4)), GOLDEN(3) },
    { CASE("concat of one", concat, &first, 1, DRIVER_F32(3, 4)), FLOATS(1) },
    { CASE("concat with nothing", concat, &second, 3, DRIVER_F32(2, 0), DRIVER_F32(2, 4), DRIVER_F32(2, 0)), FLOATS(7) },
    { CASE("concat of no rows", concat, &second, 2, DRIVER_F32(0, 4), DRIVER_F32(0, 3)), FLOATS(3) },
    { CASE("concat on threads", concat, &last, 2, DRIVER_F32(40, 17, 48), DRIVER_F32(40, 17, 33)), .flags = DRIVER_FLOATS | DRIVER_EXACT | DRIVER_LARGE, .grad = 3 },
    { CASE("concat of long rows", concat, &first, 2, DRIVER_F32(20011), DRIVER_F32(9001)), .flags = DRIVER_FLOATS | DRIVER_EXACT | DRIVER_LARGE, .grad = 3 },
    { CASE("concat of whole numbers", concat, &third, 2, DRIVER_SRC(GR_I64, 2, 2, 3), DRIVER_SRC(GR_I64, 2, 2, 1)), EXACT },
    { CASE("concat of bytes", concat, &second, 2, DRIVER_SRC(GR_U8, 5, 3), DRIVER_SRC(GR_U8, 5, 2)), EXACT },
    { MIXED("concat of two types", &second, DRIVER_F32(3, 4), DRIVER_F32(3, 2)), .grad = 1, .flags = DRIVER_EXACT },
    { MIXED("concat of two types, rows", &second, DRIVER_F32(300, 19), DRIVER_F32(300, 37)), .grad = 1, .flags = DRIVER_EXACT },
    { MIXED("concat of two types, few rows", &first, DRIVER_F32(70, 66), DRIVER_F32(301, 66)), .grad = 1, .flags = DRIVER_EXACT },
    { CASE("concat of other types", concat, &first, 2, DRIVER_SRC(GR_I32, 3, 4), DRIVER_SRC(GR_I64, 3, 4)), .want = "cast first" },
    { CASE("concat of float and int", concat, &first, 2, DRIVER_F32(3, 4), DRIVER_SRC(GR_I64, 3, 4)), .want = "cast first" },
    { CASE("concat of other rows", concat, &second, 2, DRIVER_F32(3, 4), DRIVER_F32(2, 4)), .want = "input 1 differs" },
    { CASE("concat of other ranks", concat, &first, 2, DRIVER_F32(3, 4), DRIVER_F32(3)), .want = "input 1 differs" },
    { CASE("concat along nothing", concat, &far, 2, DRIVER_F32(3, 4), DRIVER_F32(3, 4)), .want = "not one of 2 dimensions" },

    { CASE("split", split, &three, 1, DRIVER_F32(2, 6, 3)), FLOATS(1), .grad_outs = 7 },
    { CASE("split, one part used", split, &three, 1, DRIVER_F32(2, 6, 2)), FLOATS(1) },
    { CASE("split in halves", split, &equal, 1, DRIVER_F32(3, 8)), GOLDEN(1) },
    { CASE("split of rows", split, &rows, 1, DRIVER_F32(4, 5)), FLOATS(1), .grad_outs = 3 },
    { CASE("split into one", split, &whole, 1, DRIVER_F32(4, 5)), FLOATS(1) },
    { CASE("split with an empty part", split, &empty, 1, DRIVER_F32(2, 6)), FLOATS(1) },
    { CASE("split of one row", split, &equal, 1, DRIVER_F32(1, 2)), FLOATS(1), .grad_outs = 3 },
    { CASE("split of no rows", split, &equal, 1, DRIVER_F32(0, 8)), FLOATS(1), .grad_outs = 3 },
    { CASE("split on threads", split, &channels, 1, DRIVER_F32(9, 31, 96)), .flags = DRIVER_FLOATS | DRIVER_EXACT | DRIVER_LARGE, .grad = 1, .grad_outs = 7 },
    { CASE("split of integers", split, &equal, 1, DRIVER_SRC(GR_I32, 3, 8)), EXACT },
    { CASE("split short of it", split, &short_of, 1, DRIVER_F32(2, 6)), .want = "2 parts of 4 in all" },
    { CASE("split below nothing", split, &minus, 1, DRIVER_F32(2, 6)), .want = "cannot have -1" },
    { CASE("split unevenly", split, &uneven, 1, DRIVER_F32(2, 6)), .want = "dimension 1 has 6" },
    { CASE("split along nothing", split, &no_axis, 1, DRIVER_F32(2, 6)), .want = "not one of 2" },

    { CASE("slice", slice, middle, 1, DRIVER_F32(3, 7)), GOLDEN(1) },
    { CASE("slice with steps", slice, stepped, 1, DRIVER_F32(6, 9)), GOLDEN(1) },
    { CASE("slice of the front", slice, front, 1, DRIVER_F32(3, 2, 5)), FLOATS(1) },
    { CASE("slice of four dimensions", slice, all_of_4, 1, DRIVER_F32(2, 5, 8, 3)), GOLDEN(1) },
    { CASE("slice from the end", slice, negative, 1, DRIVER_F32(5, 4)), FLOATS(1) },
    { CASE("slice of nothing", slice, nothing, 1, DRIVER_F32(4, 3)), FLOATS(1) },
    { CASE("slice of one row", slice, middle, 1, DRIVER_F32(1, 5)), FLOATS(1) },
    { CASE("slice of no rows", slice, middle, 1, DRIVER_F32(0, 7)), FLOATS(1) },
    { CASE("slice on threads", slice, all_of_4, 1, DRIVER_F32(9, 30, 20, 31)), .flags = DRIVER_FLOATS | DRIVER_EXACT | DRIVER_LARGE, .grad = 1 },
    { CASE("slice of bytes", slice, stepped, 1, DRIVER_SRC(GR_U8, 6, 9)), EXACT },
    { CASE("slice by the longest step", slice, long_step, 1, DRIVER_F32(3, 7)), FLOATS(1) },
    { CASE("slice from far away", slice, far_start, 1, DRIVER_F32(3, 7)), .want = "-9223372036854775808 to the end by 1 of dimension 1" },
    { CASE("slice beyond", slice, beyond, 1, DRIVER_F32(3, 7)), .want = "2 to 8 by 1 of dimension 1, which has 7 elements" },
    { CASE("slice backwards", slice, backwards, 1, DRIVER_F32(3, 7)), .want = "5 to 2 by 1 of dimension 1, which has 7" },
    { CASE("slice without step", slice, no_step, 1, DRIVER_F32(3, 7)), .want = "is 0, not 1 or more" },

    { CASE("pad", pad, &sides, 1, DRIVER_F32(3, 4)), GOLDEN(1) },
    { CASE("pad images", pad, &border, 1, DRIVER_F32(2, 3, 4, 5)), GOLDEN(1) },
    { CASE("pad with nothing", pad, &none, 1, DRIVER_F32(3, 4)), FLOATS(1) },
    { CASE("pad nothing", pad, &sides, 1, DRIVER_F32(0, 4)), FLOATS(1) },
    { CASE("pad a number", pad, &sides, 1, DRIVER_F32(1, 1)), FLOATS(1) },
    { CASE("pad integers", pad, &seven, 1, DRIVER_SRC(GR_I64, 3, 4)), EXACT },
    { CASE("pad on threads", pad, &border, 1, DRIVER_F32(3, 30, 31, 20)), .flags = DRIVER_FLOATS | DRIVER_EXACT | DRIVER_LARGE, .grad = 1 },
    { CASE("pad with less", pad, &less, 1, DRIVER_F32(3, 4)), .want = "less than nothing" },

    { CASE("flip rows", flip, &flip_0, 1, DRIVER_F32(3, 4)), GOLDEN(1) },
    { CASE("flip elements", flip, &flip_last, 1, DRIVER_F32(3, 5)), FLOATS(1) },
    { CASE("flip both", flip, &flip_12, 1, DRIVER_F32(3, 5, 7)), GOLDEN(1) },
    { CASE("flip nothing", flip, &flip_last, 1, DRIVER_F32(3, 0)), FLOATS(1) },
    { CASE("flip a column", flip, &flip_last, 1, DRIVER_F32(3, 1)), FLOATS(1) },
    { CASE("flip bytes", flip, &flip_last, 1, DRIVER_SRC(GR_U8, 3, 5)), EXACT },
    { CASE("flip too far", flip, &flip_far, 1, DRIVER_F32(3, 5)), .want = "dimension 3, but there are 2" },
};
/* clang-format on */

const driver_family driver_part = { "part", cases, DRIVER_COUNT(cases) };

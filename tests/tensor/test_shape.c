/* Shapes: counts, limits, texts. */
#include "check.h"
#include "gradus/tensor.h"

static void values(void)
{
    gr_shape s = GR_SHAPE(128, 784), scalar = GR_SCALAR, empty = GR_SHAPE(3, 0, 5);
    gr_shape longer = GR_SHAPE(128, 784, 1), other = GR_SHAPE(128, 785);

    GR_CHECK_EQ(s.n_dims, 2);
    GR_CHECK_EQ(s.dim[1], 784);
    GR_CHECK_EQ(s.dim[2], 0);
    GR_CHECK_EQ(gr_shape_count(&s), 128 * 784);
    GR_CHECK_EQ(gr_shape_count(&scalar), 1);
    GR_CHECK_EQ(gr_shape_count(&empty), 0);
    GR_CHECK(gr_shape_equal(&s, &s));
    GR_CHECK(gr_shape_equal(&scalar, &scalar));
    GR_CHECK(!gr_shape_equal(&s, &longer));
    GR_CHECK(!gr_shape_equal(&s, &other));
}

static void checks(void)
{
    gr_shape s = GR_SHAPE(1, 2, 3, 4, 5, 6, 7, 8);

    GR_CHECK_OK(gr_shape_check(&s, GR_F64));
    s = GR_SHAPE(2, -3);
    GR_CHECK_FAILS(gr_shape_check(&s, GR_F32), GR_ERR_ARG, "[2, -3]: dimension 1 is negative");
    s = GR_SHAPE((int64_t)1 << 60);
    GR_CHECK_OK(gr_shape_check(&s, GR_F32)); /* 2^62 bytes exactly */
    GR_CHECK_FAILS(gr_shape_check(&s, GR_F64), GR_ERR_ARG, "of f64 is too large");
    s.dim[0]++;
    GR_CHECK_FAILS(gr_shape_check(&s, GR_F32), GR_ERR_ARG, "is too large");
    s = GR_SHAPE(INT64_MAX, INT64_MAX, 0);
    GR_CHECK_FAILS(gr_shape_check(&s, GR_U8), GR_ERR_ARG, "is too large");
    s = GR_SHAPE(0, INT64_MAX, INT64_MAX); /* nor may a 0 in front hide it */
    GR_CHECK_FAILS(gr_shape_check(&s, GR_U8), GR_ERR_ARG, "is too large");
    s = GR_SHAPE((int64_t)1 << 32, (int64_t)1 << 32); /* 2^64 wraps to 0 */
    GR_CHECK_FAILS(gr_shape_check(&s, GR_U8), GR_ERR_ARG, "is too large");
    s = GR_SHAPE(0, 7);
    GR_CHECK_OK(gr_shape_check(&s, GR_F32));
    s.n_dims = 9;
    GR_CHECK_FAILS(gr_shape_check(&s, GR_F32), GR_ERR_ARG, "0 to 8 dimensions, not 9");
    s.n_dims = -1;
    GR_CHECK_FAILS(gr_shape_check(&s, GR_F32), GR_ERR_ARG, "not -1");
}

/* What is wrong when it is made is told by the check, and harms nothing until then. */
static void wrong(void)
{
    gr_shape nine = GR_SHAPE(1, 2, 1, 1, 1, 1, 1, 1, 1), none = gr_shape_of(3, NULL);
    gr_shape below = gr_shape_of(-2, NULL);
    char text[GR_SHAPE_TEXT];

    GR_CHECK_FAILS(gr_shape_check(&nine, GR_F32), GR_ERR_ARG, "0 to 8 dimensions, not 9");
    GR_CHECK_STR(gr_shape_text(&nine, text, sizeof(text)), "[1, 2, 1, 1, 1, 1, 1, 1, ...]");
    GR_CHECK_EQ(gr_shape_count(&nine), 2);
    GR_CHECK(gr_shape_equal(&nine, &nine));
    GR_CHECK_FAILS(gr_shape_check(&none, GR_F32), GR_ERR_ARG, "[-2, -2, -2]: dimension 0");
    GR_CHECK_FAILS(gr_shape_check(&below, GR_F32), GR_ERR_ARG, "0 to 8 dimensions, not -2");
}

static void texts(void)
{
    gr_shape s = GR_SHAPE(128, 784), scalar = GR_SCALAR;
    gr_shape widest = GR_SHAPE(INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN,
                               INT64_MIN, INT64_MIN);
    char text[GR_SHAPE_TEXT], small[8] = "unused", one[1];

    GR_CHECK_STR(gr_shape_text(&s, text, sizeof(text)), "[128, 784]");
    GR_CHECK_STR(gr_shape_text(&scalar, text, sizeof(text)), "[]");
    gr_shape_text(&widest, text, sizeof(text));
    GR_CHECK_EQ(text[strlen(text) - 1], ']'); /* GR_SHAPE_TEXT holds every shape */
    GR_CHECK_STR(gr_shape_text(&s, small, sizeof(small)), "[128, 7");
    GR_CHECK_STR(gr_shape_text(&s, one, 1), "");
    one[0] = 'x';
    gr_shape_text(&s, one, 0);
    GR_CHECK_EQ(one[0], 'x');
}

int main(void)
{
    values();
    checks();
    wrong();
    texts();
    return 0;
}

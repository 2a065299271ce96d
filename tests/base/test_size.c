/* Checked sizes at and beyond the limit. */
#include "base/size.h"
#include "check.h"

int main(void)
{
    size_t n = 0;

    GR_CHECK_OK(gr_size_mul(&n, SIZE_MAX / 2, 2));
    GR_CHECK(n == SIZE_MAX - 1);
    GR_CHECK_FAILS(gr_size_mul(&n, SIZE_MAX / 2 + 1, 2), GR_ERR_ARG, "times 2");
    GR_CHECK_OK(gr_size_mul(&n, 0, SIZE_MAX));
    GR_CHECK_EQ(n, 0);
    GR_CHECK_OK(gr_size_add(&n, SIZE_MAX - 1, 1));
    GR_CHECK(n == SIZE_MAX);
    GR_CHECK_FAILS(gr_size_add(&n, SIZE_MAX, 1), GR_ERR_ARG, "plus 1");
    GR_CHECK_EQ(gr_round_up(0, 64), 0);
    GR_CHECK_EQ(gr_round_up(1, 64), 64);
    GR_CHECK_EQ(gr_round_up(64, 64), 64);
    GR_CHECK_EQ(gr_round_up(65, 64), 128);
    return 0;
}

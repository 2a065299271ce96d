/* Dividing data: against torch.utils.data.random_split, and folds that cover everything once. */
#include "alloc_fail.h"
#include "gradus/data.h"

static void check_part(const int64_t *got, int64_t n_got, const int64_t *want, int64_t n_want)
{
    GR_CHECK_EQ(n_got, n_want);
    for (int64_t i = 0; i < n_want; i++)
        GR_CHECK_EQ(got[i], want[i]);
}

/* random_split(range(11), [0.7, 0.2, 0.1], seed 42) and (range(10), [0.9, 0.1], seed 7). */
static void test_ratio(void)
{
    static const int64_t train[] = { 6, 8, 9, 2, 1, 10, 0, 7 }, valid[] = { 3, 5 }, test[] = { 4 };
    static const int64_t most[] = { 5, 0, 3, 4, 1, 7, 9, 6, 8 }, one[] = { 2 };
    gr_division d;

    GR_CHECK_OK(gr_divide_ratio(&d, 11, 0.2, 0.1, 42));
    check_part(d.train, d.n_train, train, 8);
    check_part(d.valid, d.n_valid, valid, 2);
    check_part(d.test, d.n_test, test, 1);
    gr_division_fini(&d);
    GR_CHECK_OK(gr_divide_ratio(&d, 10, 0.1, 0, 7));
    check_part(d.train, d.n_train, most, 9);
    check_part(d.valid, d.n_valid, one, 1);
    GR_CHECK_EQ(d.n_test, 0);
    gr_division_fini(&d);
    GR_CHECK_FAILS(gr_divide_ratio(&d, 10, 0.6, 0.4, 7), GR_ERR_ARG, "left to train on");
    GR_CHECK_FAILS(gr_divide_ratio(&d, 10, -0.1, 0, 7), GR_ERR_ARG, "-0.1");
    GR_CHECK_FAILS(gr_divide_ratio(&d, 0, 0.1, 0, 7), GR_ERR_ARG, "0 samples");
    GR_CHECK_FAILS(gr_divide_ratio(&d, 4, 0.1, 0.1, 7), GR_ERR_ARG, "too few");
    gr_division_fini(NULL);
}

static void test_folds(void)
{
    gr_division d;
    int valid[23] = { 0 };

    for (int fold = 0; fold < 5; fold++) {
        int all[23] = { 0 };

        GR_CHECK_OK(gr_divide_folds(&d, 23, 5, fold, 3));
        GR_CHECK_EQ(d.n_valid, fold < 3 ? 5 : 4);
        GR_CHECK_EQ(d.n_train, 23 - d.n_valid);
        for (int64_t i = 0; i < d.n_valid; i++) {
            valid[d.valid[i]]++;
            all[d.valid[i]]++;
        }
        for (int64_t i = 0; i < d.n_train; i++)
            all[d.train[i]]++;
        for (int i = 0; i < 23; i++)
            GR_CHECK_EQ(all[i], 1);
        gr_division_fini(&d);
    }
    for (int i = 0; i < 23; i++)
        GR_CHECK_EQ(valid[i], 1);
    GR_CHECK_FAILS(gr_divide_folds(&d, 23, 1, 0, 3), GR_ERR_ARG, "at least 2");
    GR_CHECK_FAILS(gr_divide_folds(&d, 23, 5, 5, 3), GR_ERR_ARG, "fold 5 of 5");
    GR_CHECK_FAILS(gr_divide_folds(&d, 3, 5, 0, 3), GR_ERR_ARG, "3 samples");
}

static gr_status divide(void *arg)
{
    gr_division d;

    (void)arg;
    GR_TRY(gr_divide_ratio(&d, 10, 0.2, 0.2, 1));
    gr_division_fini(&d);
    GR_TRY(gr_divide_folds(&d, 10, 3, 1, 1));
    gr_division_fini(&d);
    return GR_OK;
}

int main(void)
{
    test_ratio();
    test_folds();
    GR_CHECK(gr_alloc_fail_each(divide, NULL) > 3);
    return 0;
}

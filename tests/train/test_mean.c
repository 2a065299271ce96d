/* An epoch's loss: sums that come out the same however they are cut up, and that a checkpoint
 * keeps. */
#include "train/mean.h"

#include "check.h"
#include "train/queued.h"

#define N 5000

/* Losses of all sizes, with signs: a sum in double would depend on the order. */
static double loss_of(int i)
{
    float f = (float)(sin(i * 12.9898) * exp(18 * sin(i * 0.37)));

    return (double)f;
}

static bool is_same(const gr_mean_sum *a, const gr_mean_sum *b)
{
    return a->whole == b->whole && a->part == b->part && a->n == b->n;
}

static void check_any_cut(void)
{
    gr_mean_sum whole = { 0 };
    double naive = 0;
    int64_t n = 0;

    for (int i = 0; i < N; i++) {
        gr_mean_add(&whole, loss_of(i), 1 + i % 7);
        naive += loss_of(i) * (1 + i % 7);
        n += 1 + i % 7;
    }
    GR_CHECK_EQ(whole.n, n);
    GR_CHECK_NEAR(gr_mean_of(&whole), naive / (double)n, 1e-9 * fabs(naive));
    for (int ranks = 2; ranks < 9; ranks++) { /* each sums its own, then all of them */
        gr_mean_sum part[8] = { { 0 } }, all = { 0 };

        for (int i = N; i-- > 0;)
            gr_mean_add(&part[i % ranks], loss_of(i), 1 + i % 7);
        for (int r = 0; r < ranks; r++)
            gr_mean_join(&all, &part[r]);
        GR_CHECK(is_same(&all, &whole));
    }
}

/* What an allreduce brings: parts that were added as they are. */
static void check_carry(void)
{
    gr_mean_sum a = { 0 }, b = { 0 }, sum = { 0 };

    gr_mean_add(&a, 0.75, 1);
    gr_mean_add(&b, -0.125, 2);
    GR_CHECK_EQ(b.whole, -1);
    gr_mean_join(&sum, &(gr_mean_sum){ a.whole + 2 * b.whole, a.part + 2 * b.part, 5 });
    GR_CHECK(gr_mean_of(&sum) == 0.25 / 5);
    GR_CHECK(sum.part >= 0 && sum.part < INT64_C(1) << 52);
}

/* The case of the issue: a last batch of one sample counts as one sample. */
static void check_weights(void)
{
    gr_mean_sum s = { 0 };

    for (int i = 0; i < 10; i++)
        gr_mean_add(&s, 0.5, 64);
    gr_mean_add(&s, 8, 1);
    GR_CHECK(gr_mean_of(&s) == (0.5 * 640 + 8) / 641);
}

static void check_odd(void)
{
    gr_mean_sum s = { 0 };

    GR_CHECK(isnan(gr_mean_of(&s)));
    gr_mean_add(&s, (double)NAN, 4);
    gr_mean_add(&s, (double)INFINITY, 4);
    gr_mean_add(&s, 1e38, 4);
    GR_CHECK_EQ(s.n, 0);
    gr_mean_add(&s, 3, 4);
    GR_CHECK(gr_mean_of(&s) == 3);
}

static void check_memory(void)
{
    static const char *const bad[] = { "",
                                       "1 2 3",
                                       "1 2 -3 4 0 0 0",
                                       "1 2 4503599627370496 4 0 0 0",
                                       "1 2 3 -4 0 0 0",
                                       "1 2 3 9223372036854775807 0 0 0",
                                       "1 2 3 4 0 0 0 x",
                                       "1 9223372036854775807 3 4 0 0 0",
                                       "-2 2 3 4 0 0 0" };
    gr_epoch_mean m = GR_EPOCH_MEAN_INIT, back = GR_EPOCH_MEAN_INIT, kept;
    gr_text text = GR_TEXT_INIT;

    gr_mean_print(&m, &text); /* before the first step */
    GR_CHECK_OK(gr_mean_parse(&back, gr_text_str(&text)));
    GR_CHECK(back.epoch == -1 && isnan(back.value) && !back.has_best);
    m.epoch = 3;
    m.has_best = true;
    m.best = 0.1;
    m.best_epoch = 2;
    gr_mean_add(&m.all, 0.3, 7);
    text.len = 0;
    gr_mean_print(&m, &text);
    GR_CHECK_OK(gr_mean_parse(&back, gr_text_str(&text)));
    GR_CHECK(is_same(&back.before, &m.all) && back.epoch == 3 && back.value == gr_mean_of(&m.all));
    GR_CHECK(back.has_best && back.best == 0.1 && back.best_epoch == 2);
    kept = back;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        GR_CHECK_FAILS(gr_mean_parse(&back, bad[i]), GR_ERR_FORMAT, "no record of an epoch's loss");
    GR_CHECK(memcmp(&kept, &back, sizeof(kept)) == 0);
    gr_text_fini(&text);
}

int main(void)
{
    check_any_cut();
    check_carry();
    check_weights();
    check_odd();
    check_memory();
    check_queued_losses("cpu", 2 * GR_MEAN_QUEUE + 100);
    return 0;
}

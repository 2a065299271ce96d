/* The order of samples against PyTorch's DistributedSampler. Guards P3 and P33. */
#include "data/sampler.h"

#include "base/alloc.h"
#include "check.h"

static void expect(gr_sampler_config c, int64_t epoch, const int64_t *want, int64_t n)
{
    gr_sampler *s;

    GR_CHECK_OK(gr_sampler_create(&s, &c));
    gr_sampler_set_epoch(s, epoch);
    GR_CHECK_EQ(gr_sampler_count(s), n);
    for (int64_t i = 0; i < n; i++)
        GR_CHECK_EQ(gr_sampler_at(s, i), want[i]);
    gr_sampler_destroy(s);
}

static void test_vectors(void)
{
    static const int64_t epoch0[4][3] = { { 4, 3, 6 }, { 1, 9, 2 }, { 7, 0, 4 }, { 5, 8, 1 } };
    static const int64_t epoch1[4][3] = { { 5, 0, 7 }, { 6, 8, 4 }, { 1, 9, 5 }, { 2, 3, 6 } };
    static const int64_t dropped[4][2] = { { 4, 3 }, { 1, 9 }, { 7, 0 }, { 5, 8 } };
    static const int64_t few[8] = { 2, 0, 1, 2, 0, 1, 2, 0 };
    static const int64_t plain[2][3] = { { 0, 2, 4 }, { 1, 3, 0 } };

    for (int r = 0; r < 4; r++) {
        gr_sampler_config c = { .n_samples = 10, .rank = r, .n_ranks = 4 };

        expect(c, 0, epoch0[r], 3);
        expect(c, 1, epoch1[r], 3);
        c.seed = 1; /* seed + epoch is what counts */
        expect(c, 0, epoch1[r], 3);
        c.seed = 0;
        c.drop_last = true;
        expect(c, 0, dropped[r], 2);
    }
    for (int r = 0; r < 8; r++)
        expect((gr_sampler_config){ .n_samples = 3, .rank = r, .n_ranks = 8 }, 0, few + r, 1);
    for (int r = 0; r < 2; r++)
        expect((gr_sampler_config){ .n_samples = 5, .rank = r, .n_ranks = 2, .in_order = true }, 3,
               plain[r], 3);
}

/* All ranks together see every sample; padding repeats fewer than n_ranks of them. */
static void test_cover(void)
{
    for (int n_ranks = 1; n_ranks <= 7; n_ranks++) {
        int seen[101] = { 0 };
        int64_t n = 0;

        for (int r = 0; r < n_ranks; r++) {
            gr_sampler_config c = { .n_samples = 101, .rank = r, .n_ranks = n_ranks, .seed = 5 };
            gr_sampler *s;

            GR_CHECK_OK(gr_sampler_create(&s, &c));
            gr_sampler_set_epoch(s, 2);
            for (int64_t i = 0; i < gr_sampler_count(s); i++, n++)
                seen[gr_sampler_at(s, i)]++;
            gr_sampler_destroy(s);
        }
        GR_CHECK(n >= 101 && n < 101 + n_ranks);
        for (int i = 0; i < 101; i++)
            GR_CHECK(seen[i] == 1 || seen[i] == 2);
    }
}

static void test_no_allocation(void)
{
    gr_sampler_config c = { .n_samples = 1000, .n_ranks = 1 };
    gr_sampler *s;
    int64_t first;
    long before;

    GR_CHECK_OK(gr_sampler_create(&s, &c));
    first = gr_sampler_at(s, 0);
    before = gr_alloc_count();
    gr_sampler_set_epoch(s, 1);
    GR_CHECK(gr_sampler_at(s, 0) != first);
    gr_sampler_set_epoch(s, 0);
    GR_CHECK_EQ(gr_sampler_at(s, 0), first);
    GR_CHECK_EQ(gr_alloc_count(), before);
    gr_sampler_destroy(s);
    gr_sampler_destroy(NULL);
}

static void test_refused(void)
{
    gr_sampler *s;

    GR_CHECK_FAILS(gr_sampler_create(&s, &(gr_sampler_config){ .n_ranks = 1 }), GR_ERR_ARG,
                   "0 samples");
    GR_CHECK_FAILS(
        gr_sampler_create(&s, &(gr_sampler_config){ .n_samples = 5, .rank = 2, .n_ranks = 2 }),
        GR_ERR_ARG, "no rank 2 among 2");
    GR_CHECK_FAILS(gr_sampler_create(
                       &s, &(gr_sampler_config){ .n_samples = 3, .n_ranks = 4, .drop_last = true }),
                   GR_ERR_ARG, "4 ranks");
}

int main(void)
{
    test_vectors();
    test_cover();
    test_no_allocation();
    test_refused();
    return 0;
}

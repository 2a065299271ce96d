/* Feeds: a recipe's samples through the loader, in the order of the sampler, with what the
 * recipe leaves alone zero, and samples that do not load refused, replaced or left out (P3,
 * P42): never zeros. */
#include "train/feed.h"

#include "data/sampler.h"

#include "check.h"

#define N     11
#define BATCH 4

static gr_status load(const void *user, const gr_sample *s, void *scratch,
                      const gr_feed_slot *feeds)
{
    (void)scratch;
    if (s->index == *(const int64_t *)user)
        return gr_fail(GR_ERR_IO, "file-%d.png is broken", (int)s->index);
    ((float *)feeds[0].mem)[0] = (float)(s->index + 100 * s->epoch);
    return GR_OK;
}

static const gr_recipe_data data = { .load = load };
static const gr_recipe recipe = { .abi = GR_RECIPE_ABI, .name = "fake", .data = &data };

static gr_feed_config make(gr_split split, const int64_t *bad, int n_workers, bool skips)
{
    static const gr_field field = { .name = "x", .dtype = GR_F32, .shape = { 1, { 2 } } };
    static const gr_recipe_view view = { .feeds = &field, .n_feeds = 1 };
    gr_feed_config c = { .from = { .recipe = &recipe, .user = bad, .view = &view, .split = split },
                         .n_samples = N,
                         .n_workers = n_workers,
                         .prefetch = 2,
                         .end_epoch = 2,
                         .skips = skips };

    if (split == GR_SPLIT_TRAIN)
        GR_CHECK_OK(gr_order_shuffled(&c.order, &(gr_sampler_config){ N, 0, 1, 0, true, false },
                                      (gr_batch_cut){ BATCH, false }));
    else
        GR_CHECK_OK(gr_order_exact(&c.order, N, (gr_rank){ 0, 1 }, BATCH));
    return c;
}

/* All samples of both epochs; what is 2 k + 1 of a sample is left alone by the recipe. */
static void test_order(int n_workers)
{
    static const int64_t bad = -1;
    gr_feed_config c = make(GR_SPLIT_TRAIN, &bad, n_workers, false);
    const gr_loaded *b;
    gr_feed f;
    int n = 0;

    GR_CHECK_OK(gr_feed_open(&f, &c));
    GR_CHECK_OK(gr_loader_seek(f.loader, 0, 0));
    for (;; n += (int)b->n) {
        GR_CHECK_OK(gr_feed_next(&f, &b));
        if (!b)
            break;
        GR_CHECK_EQ(f.feeds[0].shape.dim[0], b->n);
        for (int64_t i = 0; i < b->n; i++) {
            GR_CHECK_NEAR(((float *)f.feeds[0].mem)[2 * i], (n + i) % N + (n + i) / N * 100, 0);
            GR_CHECK_NEAR(((float *)f.feeds[0].mem)[2 * i + 1], 0, 0);
        }
    }
    GR_CHECK_EQ(n, 2 * N);
    gr_feed_close(&f);
}

static void test_bad(gr_split split, bool skips, int n_first)
{
    static const int64_t bad = 2;
    gr_feed_config c = make(split, &bad, 2, skips);
    const gr_loaded *b;
    gr_feed f;

    GR_CHECK_OK(gr_feed_open(&f, &c));
    GR_CHECK_OK(gr_loader_seek(f.loader, 0, 0));
    if (!skips) {
        GR_CHECK_FAILS(gr_feed_next(&f, &b), GR_ERR_IO, "sample 2: file-2.png is broken");
        gr_feed_close(&f);
        return;
    }
    GR_CHECK_OK(gr_feed_next(&f, &b));
    GR_CHECK_EQ(b->n, n_first);
    GR_CHECK_EQ(f.n_bad, 1);
    for (int64_t i = 0; i < b->n; i++)
        GR_CHECK(b->index[i] != 2);
    while (b)
        GR_CHECK_OK(gr_feed_next(&f, &b));
    GR_CHECK_EQ(f.n_bad, 1); /* in both epochs of the training data */
    gr_feed_close(&f);
}

int main(void)
{
    test_order(0);
    test_order(3);
    test_bad(GR_SPLIT_TRAIN, false, 0);
    test_bad(GR_SPLIT_TRAIN, true, BATCH);
    test_bad(GR_SPLIT_VALID, false, 0);
    test_bad(GR_SPLIT_VALID, true, BATCH - 1);
    return 0;
}

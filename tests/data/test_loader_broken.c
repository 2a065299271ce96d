/*
 * Samples and orders that do not load: reported by name, replaced or dropped, and counted,
 * whatever the number of workers. Guards P42.
 */
#include "data/loader.h"

#include "check.h"
#include "data/loading.h"

static void test_failure(void)
{
    for (int n_workers = 0; n_workers < 4; n_workers++) {
        gr_order_source *source;
        loading w = { .broken = { 9, 10 }, .n_broken = 2 };
        gr_loader_config c;
        const gr_loaded *b;
        gr_loader *l;

        GR_CHECK_OK(gr_order_exact(&source, 40, (gr_rank){ 0, 1 }, 8));
        c = loading_config(&w, source, n_workers);
        GR_CHECK_OK(gr_loader_create(&l, &c));
        GR_CHECK_OK(gr_loader_seek(l, 0, 0));
        GR_CHECK_OK(gr_loader_next(l, &b));
        for (int again = 0; again < 2; again++) {
            GR_CHECK_FAILS(gr_loader_next(l, &b), GR_ERR_FORMAT,
                           "training sample 9: file 'img_9.png' is cut off");
            GR_CHECK(b == NULL);
        }
        GR_CHECK_OK(gr_loader_seek(l, 0, 2));
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_EQ(b->index[0], 16);
        gr_loader_destroy(l);
        gr_order_source_destroy(source);
    }
}

/* Broken ones are replaced by the next of the order, around its end too, and counted. */
static void test_replace(void)
{
    static const int64_t want[3][4] = { { 0, 1, 4, 4 }, { 4, 5, 6, 7 }, { 8, 9, 0, 0 } };

    for (int n_workers = 0; n_workers < 5; n_workers++) {
        gr_order_source *source;
        loading w = { .broken = { 2, 3, 10, 11 }, .n_broken = 4 };
        gr_loader_config c;
        gr_loader_stats stats;
        const gr_loaded *b;
        gr_loader *l;

        GR_CHECK_OK(gr_order_exact(&source, 12, (gr_rank){ 0, 1 }, 4));
        c = loading_config(&w, source, n_workers);
        c.policy = GR_LOAD_REPLACE;
        GR_CHECK_OK(gr_loader_create(&l, &c));
        GR_CHECK_OK(gr_loader_seek(l, 0, 0));
        for (int k = 0; k < 3; k++) {
            GR_CHECK_OK(gr_loader_next(l, &b));
            GR_CHECK_EQ(b->n, 4);
            GR_CHECK_EQ(b->n_skipped, k == 1 ? 0 : 2);
            GR_CHECK_EQ(b->n_notes, k == 1 ? 0 : 2);
            for (int i = 0; i < b->n_notes; i++) {
                char note[64];

                GR_CHECK_EQ(b->skipped[i], (k == 0 ? 2 : 10) + i);
                snprintf(note, sizeof(note), "training sample %d: file 'img_%d.png' is cut off",
                         (int)b->skipped[i], (int)b->skipped[i]);
                GR_CHECK_STR(b->notes[i], note);
            }
            for (int i = 0; i < 4; i++)
                GR_CHECK_EQ(b->index[i], want[k][i]);
            loading_check(&w, b);
        }
        gr_loader_get_stats(l, &stats);
        GR_CHECK_EQ(stats.n_batches, 3);
        GR_CHECK_EQ(stats.n_samples, 12);
        GR_CHECK_EQ(stats.n_skipped, 4);
        gr_loader_destroy(l);
        gr_order_source_destroy(source);
    }
}

static void test_nothing_loads(void)
{
    gr_order_source *source;
    loading w = { .all_broken = true, .n_broken = 1 };
    gr_loader_config c;
    const gr_loaded *b;
    gr_loader *l;

    GR_CHECK_OK(gr_order_exact(&source, 12, (gr_rank){ 0, 1 }, 4));
    c = loading_config(&w, source, 2);
    c.policy = GR_LOAD_REPLACE;
    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_OK(gr_loader_seek(l, 0, 0));
    GR_CHECK_FAILS(gr_loader_next(l, &b), GR_ERR_FORMAT,
                   "none of 12 samples loads: training sample 0: file");
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
}

/* The first ones of a batch are noted, in its order, and all are listed: whoever loaded them. */
static void test_notes(void)
{
    for (int n_workers = 0; n_workers < 5; n_workers++) {
        gr_order_source *source;
        loading w = { .broken = { 1, 2, 5, 8, 9, 11, 13, 14 }, .n_broken = 8 };
        gr_loader_config c;
        const gr_loaded *b;
        gr_loader *l;

        GR_CHECK_OK(gr_order_exact(&source, 16, (gr_rank){ 0, 1 }, 16));
        c = loading_config(&w, source, n_workers);
        c.policy = n_workers % 2 ? GR_LOAD_DROP : GR_LOAD_REPLACE;
        GR_CHECK_OK(gr_loader_create(&l, &c));
        GR_CHECK_OK(gr_loader_seek(l, 0, 0));
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_EQ(b->n_skipped, 8);
        GR_CHECK_EQ(b->n_notes, GR_LOADER_NOTES);
        for (int i = 0; i < 8; i++) {
            char note[32];

            GR_CHECK_EQ(b->skipped[i], w.broken[i]);
            snprintf(note, sizeof(note), "sample %d:", (int)w.broken[i]);
            GR_CHECK(i >= b->n_notes || strstr(b->notes[i], note));
        }
        gr_loader_destroy(l);
        gr_order_source_destroy(source);
    }
}

static void test_drop(void)
{
    for (int n_workers = 0; n_workers < 3; n_workers++) {
        gr_order_source *source;
        loading w = { .broken = { 0, 2, 4, 5, 6, 7 }, .n_broken = 6 };
        gr_loader_config c;
        const gr_loaded *b;
        gr_loader *l;

        GR_CHECK_OK(gr_order_exact(&source, 10, (gr_rank){ 0, 1 }, 4));
        c = loading_config(&w, source, n_workers);
        c.policy = GR_LOAD_DROP;
        c.end_epoch = 1;
        GR_CHECK_OK(gr_loader_create(&l, &c));
        GR_CHECK_OK(gr_loader_seek(l, 0, 0));
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_EQ(b->n, 2);
        GR_CHECK_EQ(b->index[0], 1);
        GR_CHECK_EQ(b->index[1], 3);
        loading_check(&w, b);
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_EQ(b->n, 0);
        GR_CHECK_EQ(b->n_skipped, 4);
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_EQ(b->n, 2);
        loading_check(&w, b);
        gr_loader_destroy(l);
        gr_order_source_destroy(source);
    }
}

/* A source that fails is reported in its turn, behind the batches before it. */
typedef struct bad_source {
    gr_order_source base;
} bad_source;

static gr_status bad_fill(gr_order_source *s, int64_t epoch, gr_order *out)
{
    if (epoch == 1)
        return gr_fail(GR_ERR_IO, "the list is gone");
    GR_TRY(gr_order_reserve(out, s->n_samples, s->n_batches));
    for (int64_t i = 0; i < s->n_samples; i++)
        out->index[i] = i;
    gr_order_cut(out, s->n_samples, 2, 1);
    return GR_OK;
}

static void test_bad_source(void)
{
    static const gr_order_source_ops ops = { .name = "bad", .fill = bad_fill };

    for (int n_workers = 0; n_workers < 3; n_workers++) {
        bad_source source = { .base = {
                                  .ops = &ops, .n_samples = 4, .n_batches = 2, .max_batch = 2 } };
        loading w = { 0 };
        gr_loader_config c = loading_config(&w, &source.base, n_workers);
        const gr_loaded *b;
        gr_loader *l;

        c.prefetch = 4;
        GR_CHECK_OK(gr_loader_create(&l, &c));
        GR_CHECK_OK(gr_loader_seek(l, 0, 0));
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_FAILS(gr_loader_next(l, &b), GR_ERR_IO, "order of epoch 1: the list is gone");
        GR_CHECK_FAILS(gr_loader_next(l, &b), GR_ERR_IO, "order of epoch 1: the list is gone");
        gr_loader_destroy(l);
    }
}

int main(void)
{
    test_failure();
    test_replace();
    test_nothing_loads();
    test_notes();
    test_drop();
    test_bad_source();
    return 0;
}

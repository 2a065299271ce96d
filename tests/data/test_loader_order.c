/*
 * Which batches a loader gives, and what is in them: order, resume, epochs, counts, lengths. None
 * of it may depend on the workers. Guards P3, P7, P21, P33.
 */
#include "data/loader.h"

#include "base/clock.h"
#include "check.h"
#include "data/loading.h"
#include "data/sampler.h"

/* Against the sampler itself, over the ends of epochs, from any start. */
static void check_run(int n_workers, int prefetch, int64_t epoch, int64_t batch)
{
    gr_sampler_config sc = { .n_samples = 23, .n_ranks = 1, .seed = 3 };
    gr_order_source *source = loading_shuffled(23, 4, false);
    loading w = { .sleep_us = n_workers > 0 ? 50 : 0 };
    gr_loader_config c = loading_config(&w, source, n_workers);
    const gr_loaded *b;
    gr_sampler *s;
    gr_loader *l;

    c.prefetch = prefetch;
    c.end_epoch = 4;
    GR_CHECK_OK(gr_sampler_create(&s, &sc));
    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_EQ(gr_loader_batches(l), 6);
    GR_CHECK_OK(gr_loader_seek(l, epoch, batch));
    for (int64_t at = epoch * 6 + batch; at < 24; at++) {
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK(b != NULL);
        GR_CHECK_EQ(b->epoch, at / 6);
        GR_CHECK_EQ(b->number, at % 6);
        GR_CHECK_EQ(b->n, at % 6 == 5 ? 3 : 4);
        gr_sampler_set_epoch(s, at / 6);
        for (int64_t i = 0; i < b->n; i++)
            GR_CHECK_EQ(b->index[i], gr_sampler_at(s, at % 6 * 4 + i));
        loading_check(&w, b);
    }
    GR_CHECK_OK(gr_loader_next(l, &b));
    GR_CHECK(b == NULL);
    GR_CHECK_OK(gr_loader_next(l, &b));
    GR_CHECK(b == NULL);
    GR_CHECK(atomic_load(&w.max_worker) < (n_workers > 0 ? n_workers : 1));
    gr_loader_destroy(l);
    gr_sampler_destroy(s);
    gr_order_source_destroy(source);
}

static void test_order(void)
{
    static const int workers[] = { 0, 1, 2, 5 };

    for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
        check_run(workers[i], 2, 0, 0);
        check_run(workers[i], 9, 0, 0); /* more than an epoch ahead */
        check_run(workers[i], 1, 2, 3);
        check_run(workers[i], 3, 1, 6); /* behind the last: the next epoch's first */
    }
}

/* An epoch of one batch, and a loader many epochs ahead. */
static void test_short_epochs(void)
{
    gr_order_source *source = loading_shuffled(3, 8, false);
    loading w = { 0 };
    gr_loader_config c = loading_config(&w, source, 3);
    const gr_loaded *b;
    gr_loader *l;

    c.prefetch = 7;
    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_OK(gr_loader_seek(l, 0, 0));
    for (int64_t e = 0; e < 50; e++) {
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_EQ(b->epoch, e);
        GR_CHECK_EQ(b->n, 3);
        loading_check(&w, b);
    }
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
}

/* The first batches of the next epoch are loaded while the last one of this is in use. */
static void test_rollover(void)
{
    gr_order_source *source = loading_shuffled(8, 4, false);
    loading w = { 0 };
    gr_loader_config c = loading_config(&w, source, 1);
    gr_deadline limit = gr_deadline_in_ms(120000);
    const gr_loaded *b;
    gr_loader *l;

    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_OK(gr_loader_seek(l, 0, 1));
    GR_CHECK_OK(gr_loader_next(l, &b));
    GR_CHECK_EQ(b->number, 1);
    while (atomic_load(&w.n_loads) < 12 && !gr_deadline_passed(limit))
        loading_nap(200);
    GR_CHECK_EQ(atomic_load(&w.n_loads), 12); /* this batch and two of epoch 1 */
    loading_nap(2000);
    GR_CHECK_EQ(atomic_load(&w.n_loads), 12); /* and no more than the prefetch */
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
}

static void test_seek_again(void)
{
    gr_order_source *source;
    loading w = { .sleep_us = 100 };
    gr_loader_config c;
    const gr_loaded *b;
    gr_loader *l;

    GR_CHECK_OK(gr_order_exact(&source, 10, (gr_rank){ 1, 3 }, 2));
    c = loading_config(&w, source, 2);
    c.end_epoch = 1;
    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_OK(gr_loader_next(l, &b));
    GR_CHECK(b == NULL); /* nothing before the first seek */
    for (int round = 0; round < 20; round++) {
        GR_CHECK_OK(gr_loader_seek(l, 0, round % 2));
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_EQ(b->number, round % 2);
        GR_CHECK_EQ(b->index[0], round % 2 ? 7 : 1);
        GR_CHECK_EQ(b->n, round % 2 ? 1 : 2);
        loading_check(&w, b);
    }
    GR_CHECK_FAILS(gr_loader_seek(l, 0, 3), GR_ERR_ARG, "no batch 3 in epoch 0");
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
}

/* Cut to whole steps, and a rank without samples. */
static void test_counts(void)
{
    gr_order_source *source = loading_shuffled(23, 4, true);
    loading w = { 0 };
    gr_loader_config c = loading_config(&w, source, 2);
    const gr_loaded *b;
    gr_loader *l;

    GR_CHECK_EQ(source->n_batches, 5);
    c.batches_per_epoch = 6;
    GR_CHECK_FAILS(gr_loader_create(&l, &c), GR_ERR_ARG, "there are 5");
    c.batches_per_epoch = 4;
    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_OK(gr_loader_seek(l, 0, 3));
    GR_CHECK_OK(gr_loader_next(l, &b));
    GR_CHECK_EQ(b->number, 3);
    GR_CHECK_OK(gr_loader_next(l, &b));
    GR_CHECK_EQ(b->epoch, 1);
    GR_CHECK_EQ(b->number, 0);
    gr_loader_destroy(l);
    gr_order_source_destroy(source);

    GR_CHECK_OK(gr_order_exact(&source, 2, (gr_rank){ 2, 3 }, 4));
    c = loading_config(&w, source, 1);
    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_OK(gr_loader_seek(l, 0, 0));
    GR_CHECK_OK(gr_loader_next(l, &b));
    GR_CHECK(b == NULL);
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
}

/* Samples of two lengths, of which the first says how many bytes they have. */
static gr_sizes *make_sizes(const int64_t *lengths, int64_t n)
{
    static const gr_axis axes[2] = { { .name = "words", .multiple = 8, .cost = 1 },
                                     { .name = "lines", .multiple = 4, .cost = 0.5 } };
    gr_sizes *sizes;

    GR_CHECK_OK(gr_sizes_create(&sizes, axes, 2, n));
    for (int64_t i = 0; i < n; i++)
        GR_CHECK_OK(gr_sizes_set(sizes, i, (const int64_t[]){ lengths[i], i * 13 % 20 }));
    GR_CHECK_OK(gr_sizes_choose(sizes, &(gr_sizes_limits){ .most = 5, .max_tokens = 100 }));
    return sizes;
}

/* Batches of many lengths: samples lie as far apart as their batch is long (P21). One does not
 * load: it is left out, or another one that fits stands in for it. */
static void check_lengths(const gr_sizes *sizes, int n_workers, gr_load_policy policy)
{
    gr_bucket_config bc = { .sizes = sizes, .max_tokens = 100, .max_batch = 6, .rank = { 0, 1 } };
    loading w = { .broken = { 7 }, .n_broken = 1 };
    gr_order_source *source;
    gr_loader_config c;
    const gr_loaded *b;
    gr_loader *l;
    int64_t n = 0;

    GR_CHECK_OK(gr_order_bucketed(&source, &bc));
    c = loading_config(&w, source, n_workers);
    c.policy = policy;
    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_OK(gr_loader_seek(l, 0, 0));
    for (int64_t i = 0; i < 3 * gr_loader_batches(l); i++) {
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK(b->n <= 6 && b->n * sizes->tokens[b->size] <= 100);
        GR_CHECK_EQ(b->n_all, b->n + (policy == GR_LOAD_DROP ? b->n_skipped : 0));
        for (int64_t k = 0; k < b->n; k++)
            GR_CHECK(gr_sizes_holds(sizes, b->size, b->index[k]) && b->index[k] != 7);
        loading_check(&w, b);
        n += b->n;
    }
    GR_CHECK_EQ(n, policy == GR_LOAD_DROP ? 3 * 59 : 3 * 60);
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
}

static void test_lengths(void)
{
    int64_t lengths[60];
    gr_sizes *sizes;

    for (int i = 0; i < 60; i++)
        lengths[i] = 1 + i * 37 % 50;
    sizes = make_sizes(lengths, 60);
    for (int n_workers = 0; n_workers < 4; n_workers += 3) {
        check_lengths(sizes, n_workers, GR_LOAD_DROP);
        check_lengths(sizes, n_workers, GR_LOAD_REPLACE);
    }
    gr_sizes_destroy(sizes);
}

/* A sample that does not load, and nothing else is as short. */
static void test_nothing_fits(void)
{
    static const int64_t lengths[3] = { 7, 40, 41 };
    gr_sizes *sizes = make_sizes(lengths, 3);
    gr_bucket_config bc = { .sizes = sizes, .max_batch = 2, .rank = { 0, 1 } };
    loading w = { .broken = { 0 }, .n_broken = 1 };
    gr_order_source *source;
    gr_loader_config c;
    const gr_loaded *b;
    gr_status st = GR_OK;
    gr_loader *l;

    GR_CHECK_OK(gr_order_bucketed(&source, &bc));
    c = loading_config(&w, source, 0);
    c.policy = GR_LOAD_REPLACE;
    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_OK(gr_loader_seek(l, 0, 0));
    while (st == GR_OK)
        st = gr_loader_next(l, &b);
    GR_CHECK_FAILS(st, GR_ERR_FORMAT, "none of 3 samples that fits into this batch loads");
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
    gr_sizes_destroy(sizes);
}

int main(void)
{
    test_order();
    test_short_epochs();
    test_rollover();
    test_seek_again();
    test_counts();
    test_lengths();
    test_nothing_fits();
    return 0;
}

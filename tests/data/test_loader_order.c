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
        loading_check(b);
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
        loading_check(b);
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
        loading_check(b);
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

/* Batches of many lengths: samples lie as far apart as their batch is long (P21). */
static void test_lengths(void)
{
    int64_t lengths[60];

    for (int i = 0; i < 60; i++)
        lengths[i] = 1 + i * 37 % 50;
    for (int n_workers = 0; n_workers < 4; n_workers += 3) {
        gr_bucket_config bc = {
            .lengths = lengths, .n_samples = 60, .max_tokens = 100, .round_to = 8, .rank = { 0, 1 }
        };
        gr_order_source *source;
        loading w = { .broken = { 7 }, .n_broken = 1 };
        gr_loader_config c;
        const gr_loaded *b;
        gr_loader *l;

        GR_CHECK_OK(gr_order_bucketed(&source, &bc));
        c = loading_config(&w, source, n_workers);
        c.policy = GR_LOAD_DROP;
        GR_CHECK_OK(gr_loader_create(&l, &c));
        GR_CHECK_OK(gr_loader_seek(l, 0, 0));
        for (int64_t i = 0; i < 3 * gr_loader_batches(l); i++) {
            GR_CHECK_OK(gr_loader_next(l, &b));
            GR_CHECK(b->n * b->length <= 100 && b->length % 8 == 0);
            for (int64_t k = 0; k < b->n; k++)
                GR_CHECK(lengths[b->index[k]] <= b->length && b->index[k] != 7);
            loading_check(b);
        }
        gr_loader_destroy(l);
        gr_order_source_destroy(source);
    }
}

int main(void)
{
    test_order();
    test_short_epochs();
    test_rollover();
    test_seek_again();
    test_counts();
    test_lengths();
    return 0;
}

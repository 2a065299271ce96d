/*
 * The loader: order, resume, epochs, errors, stopping, memory. What comes out must not depend
 * on the workers. Guards P3, P7, P33, P42.
 */
#include "data/loader.h"

#include "alloc_fail.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "check.h"
#include "data/sampler.h"

#include <stdatomic.h>
#include <time.h>

#define N_FEATURES 5

typedef struct world {
    int64_t broken[8]; /* indices that do not load */
    int n_broken;
    bool all_broken;
    int sleep_us; /* of sample index: (index mod 3) x sleep_us */
    atomic_int n_loads, max_worker;
} world;

static void nap(int us)
{
    struct timespec t = { .tv_sec = us / 1000000, .tv_nsec = (us % 1000000) * 1000L };

    nanosleep(&t, NULL);
}

/* Field 0: features that tell index, epoch and length; field 1: one byte per length. */
static gr_status load(void *arg, const gr_load_item *item, void *const *mem)
{
    world *w = arg;
    float *x = mem[0];
    unsigned char *y = mem[1];

    atomic_fetch_add(&w->n_loads, 1);
    if (item->worker > atomic_load(&w->max_worker))
        atomic_store(&w->max_worker, item->worker);
    if (w->sleep_us > 0)
        nap((int)(item->index % 3) * w->sleep_us);
    for (int i = 0; i < w->n_broken; i++)
        if (w->all_broken || item->index == w->broken[i])
            return gr_fail(GR_ERR_FORMAT, "file 'img_%" PRId64 ".png' is cut off", item->index);
    for (int i = 0; i < N_FEATURES; i++)
        x[i] = (float)(item->index * 10 + i) + (float)item->epoch * 0.5f;
    memset(y, (int)(item->index & 0xff), (size_t)item->length);
    return GR_OK;
}

static gr_loader_config config_of(world *w, gr_order_source *source, int n_workers)
{
    gr_loader_config c = GR_LOADER_CONFIG_INIT;

    c.source = source;
    c.load = load;
    c.load_arg = w;
    c.fields[0] = (gr_loader_field){ .bytes = N_FEATURES * sizeof(float) };
    c.fields[1] = (gr_loader_field){ .bytes = 1, .by_length = true };
    c.n_fields = 2;
    c.n_workers = n_workers;
    c.what = "training";
    return c;
}

static gr_order_source *shuffled(int64_t n, int64_t batch, bool drop_last)
{
    gr_sampler_config c = { .n_samples = n, .n_ranks = 1, .seed = 3 };
    gr_order_source *s;

    GR_CHECK_OK(gr_order_shuffled(&s, &c, (gr_batch_cut){ batch, drop_last }));
    return s;
}

static void check_contents(const gr_loaded *b)
{
    const float *x = b->mem[0];
    const unsigned char *y = b->mem[1];

    for (int64_t i = 0; i < b->n; i++) {
        for (int f = 0; f < N_FEATURES; f++)
            GR_CHECK(x[i * N_FEATURES + f] ==
                     (float)(b->index[i] * 10 + f) + (float)b->epoch * 0.5f);
        for (int64_t k = 0; k < b->length; k++)
            GR_CHECK_EQ(y[i * b->length + k], b->index[i] & 0xff);
    }
}

/* ---- order ---- */

/* Against the sampler itself, over the ends of epochs, from any start. */
static void check_run(int n_workers, int prefetch, int64_t epoch, int64_t batch)
{
    gr_sampler_config sc = { .n_samples = 23, .n_ranks = 1, .seed = 3 };
    gr_order_source *source = shuffled(23, 4, false);
    world w = { .sleep_us = n_workers > 0 ? 50 : 0 };
    gr_loader_config c = config_of(&w, source, n_workers);
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
        check_contents(b);
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
    gr_order_source *source = shuffled(3, 8, false);
    world w = { 0 };
    gr_loader_config c = config_of(&w, source, 3);
    const gr_loaded *b;
    gr_loader *l;

    c.prefetch = 7;
    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_OK(gr_loader_seek(l, 0, 0));
    for (int64_t e = 0; e < 50; e++) {
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_EQ(b->epoch, e);
        GR_CHECK_EQ(b->n, 3);
        check_contents(b);
    }
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
}

/* The first batches of the next epoch are loaded while the last one of this is in use. */
static void test_rollover(void)
{
    gr_order_source *source = shuffled(8, 4, false);
    world w = { 0 };
    gr_loader_config c = config_of(&w, source, 1);
    gr_deadline limit = gr_deadline_in_ms(120000);
    const gr_loaded *b;
    gr_loader *l;

    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_OK(gr_loader_seek(l, 0, 1));
    GR_CHECK_OK(gr_loader_next(l, &b));
    GR_CHECK_EQ(b->number, 1);
    while (atomic_load(&w.n_loads) < 12 && !gr_deadline_passed(limit))
        nap(200);
    GR_CHECK_EQ(atomic_load(&w.n_loads), 12); /* this batch and two of epoch 1 */
    nap(2000);
    GR_CHECK_EQ(atomic_load(&w.n_loads), 12); /* and no more than the prefetch */
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
}

static void test_seek_again(void)
{
    gr_order_source *source;
    world w = { .sleep_us = 100 };
    gr_loader_config c;
    const gr_loaded *b;
    gr_loader *l;

    GR_CHECK_OK(gr_order_exact(&source, 10, (gr_rank){ 1, 3 }, 2));
    c = config_of(&w, source, 2);
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
        check_contents(b);
    }
    GR_CHECK_FAILS(gr_loader_seek(l, 0, 3), GR_ERR_ARG, "no batch 3 in epoch 0");
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
}

/* Cut to whole steps, and a rank without samples. */
static void test_counts(void)
{
    gr_order_source *source = shuffled(23, 4, true);
    world w = { 0 };
    gr_loader_config c = config_of(&w, source, 2);
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
    c = config_of(&w, source, 1);
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
        world w = { .broken = { 7 }, .n_broken = 1 };
        gr_loader_config c;
        const gr_loaded *b;
        gr_loader *l;

        GR_CHECK_OK(gr_order_bucketed(&source, &bc));
        c = config_of(&w, source, n_workers);
        c.policy = GR_LOAD_DROP;
        GR_CHECK_OK(gr_loader_create(&l, &c));
        GR_CHECK_OK(gr_loader_seek(l, 0, 0));
        for (int64_t i = 0; i < 3 * gr_loader_batches(l); i++) {
            GR_CHECK_OK(gr_loader_next(l, &b));
            GR_CHECK(b->n * b->length <= 100 && b->length % 8 == 0);
            for (int64_t k = 0; k < b->n; k++)
                GR_CHECK(lengths[b->index[k]] <= b->length && b->index[k] != 7);
            check_contents(b);
        }
        gr_loader_destroy(l);
        gr_order_source_destroy(source);
    }
}

/* ---- samples that do not load ---- */

static void test_failure(void)
{
    for (int n_workers = 0; n_workers < 4; n_workers++) {
        gr_order_source *source;
        world w = { .broken = { 9, 10 }, .n_broken = 2 };
        gr_loader_config c;
        const gr_loaded *b;
        gr_loader *l;

        GR_CHECK_OK(gr_order_exact(&source, 40, (gr_rank){ 0, 1 }, 8));
        c = config_of(&w, source, n_workers);
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
        world w = { .broken = { 2, 3, 10, 11 }, .n_broken = 4 };
        gr_loader_config c;
        gr_loader_stats stats;
        const gr_loaded *b;
        gr_loader *l;

        GR_CHECK_OK(gr_order_exact(&source, 12, (gr_rank){ 0, 1 }, 4));
        c = config_of(&w, source, n_workers);
        c.policy = GR_LOAD_REPLACE;
        GR_CHECK_OK(gr_loader_create(&l, &c));
        GR_CHECK_OK(gr_loader_seek(l, 0, 0));
        for (int k = 0; k < 3; k++) {
            GR_CHECK_OK(gr_loader_next(l, &b));
            GR_CHECK_EQ(b->n, 4);
            GR_CHECK_EQ(b->n_skipped, k == 1 ? 0 : 2);
            GR_CHECK_STR(b->skip_text, k == 0   ? "training sample 2: file 'img_2.png' is cut off"
                                       : k == 1 ? ""
                                                : "training sample 10: file 'img_10.png' is cut "
                                                  "off");
            for (int i = 0; i < 4; i++)
                GR_CHECK_EQ(b->index[i], want[k][i]);
            check_contents(b);
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
    world w = { .all_broken = true, .n_broken = 1 };
    gr_loader_config c;
    const gr_loaded *b;
    gr_loader *l;

    GR_CHECK_OK(gr_order_exact(&source, 12, (gr_rank){ 0, 1 }, 4));
    c = config_of(&w, source, 2);
    c.policy = GR_LOAD_REPLACE;
    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_OK(gr_loader_seek(l, 0, 0));
    GR_CHECK_FAILS(gr_loader_next(l, &b), GR_ERR_FORMAT,
                   "none of 12 samples loads: training sample 0: file");
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
}

static void test_drop(void)
{
    for (int n_workers = 0; n_workers < 3; n_workers++) {
        gr_order_source *source;
        world w = { .broken = { 0, 2, 4, 5, 6, 7 }, .n_broken = 6 };
        gr_loader_config c;
        const gr_loaded *b;
        gr_loader *l;

        GR_CHECK_OK(gr_order_exact(&source, 10, (gr_rank){ 0, 1 }, 4));
        c = config_of(&w, source, n_workers);
        c.policy = GR_LOAD_DROP;
        c.end_epoch = 1;
        GR_CHECK_OK(gr_loader_create(&l, &c));
        GR_CHECK_OK(gr_loader_seek(l, 0, 0));
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_EQ(b->n, 2);
        GR_CHECK_EQ(b->index[0], 1);
        GR_CHECK_EQ(b->index[1], 3);
        check_contents(b);
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_EQ(b->n, 0);
        GR_CHECK_EQ(b->n_skipped, 4);
        GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_EQ(b->n, 2);
        check_contents(b);
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
    gr_order_cut(out, s->n_samples, 2);
    return GR_OK;
}

static void test_bad_source(void)
{
    static const gr_order_source_ops ops = { .name = "bad", .fill = bad_fill };

    for (int n_workers = 0; n_workers < 3; n_workers++) {
        bad_source source = { .base = { &ops, 4, 2, 2, 2 } };
        world w = { 0 };
        gr_loader_config c = config_of(&w, &source.base, n_workers);
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

/* ---- stopping, waiting, memory ---- */

/* A batch of 1000 samples of 50 ms each is not waited for. */
static void test_stop_at_once(void)
{
    gr_order_source *source = shuffled(3000, 1000, false);
    world w = { .sleep_us = 50000 };
    gr_loader_config c = config_of(&w, source, 4);
    gr_loader *l;

    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_OK(gr_loader_seek(l, 0, 0));
    while (atomic_load(&w.n_loads) < 4)
        nap(200);
    gr_loader_destroy(l);
    GR_CHECK(atomic_load(&w.n_loads) < 1000);
    gr_order_source_destroy(source);
}

/* Waiting is counted while samples are slow, and is next to nothing when they are there. On a
 * busy machine this thread may be held up at any point, but not every time. */
static void test_waiting(void)
{
    gr_order_source *source = shuffled(8, 8, false);
    world w = { .sleep_us = 4000 };
    gr_loader_config c = config_of(&w, source, 1);
    gr_loader_stats stats;
    int n_batches = 0;
    const gr_loaded *b;
    gr_loader *l = NULL;

    for (int try = 0; try < 20; try++) {
        gr_loader_destroy(l);
        GR_CHECK_OK(gr_loader_create(&l, &c));
        GR_CHECK_OK(gr_loader_seek(l, 0, 0));
        GR_CHECK_OK(gr_loader_next(l, &b));
        if (b->wait_ns > 20000000)
            break;
    }
    GR_CHECK(b->wait_ns > 20000000);
    gr_loader_get_stats(l, &stats);
    GR_CHECK(stats.load_ns > 20000000);
    GR_CHECK_EQ(stats.wait_ns, b->wait_ns);
    gr_loader_reset_stats(l);
    for (int try = 0; try < 20; try++) {
        nap(60000);
        GR_CHECK_OK(gr_loader_next(l, &b));
        n_batches++;
        if (b->wait_ns < 10000000)
            break;
    }
    GR_CHECK(b->wait_ns < 10000000);
    gr_loader_get_stats(l, &stats);
    GR_CHECK_EQ(stats.n_batches, n_batches);
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
}

static void test_no_allocation(void)
{
    for (int n_workers = 0; n_workers < 4; n_workers += 3) {
        gr_order_source *source = shuffled(64, 8, false);
        world w = { 0 };
        gr_loader_config c = config_of(&w, source, n_workers);
        const gr_loaded *b;
        gr_loader *l;
        long before;

        c.prefetch = 3;
        GR_CHECK_OK(gr_loader_create(&l, &c));
        GR_CHECK_OK(gr_loader_seek(l, 0, 0));
        before = gr_alloc_count();
        for (int i = 0; i < 100; i++)
            GR_CHECK_OK(gr_loader_next(l, &b));
        GR_CHECK_EQ(gr_alloc_count() - before, 0);
        gr_loader_destroy(l);
        gr_order_source_destroy(source);
    }
}

static gr_status whole_life(void *arg)
{
    gr_sampler_config sc = { .n_samples = 12, .n_ranks = 1 };
    gr_order_source *source = NULL;
    gr_loader *l = NULL;
    const gr_loaded *b;
    gr_loader_config c;
    gr_status st;

    GR_TRY(gr_order_shuffled(&source, &sc, (gr_batch_cut){ 4, false }));
    c = config_of(arg, source, 0);
    st = gr_loader_create(&l, &c);
    if (st == GR_OK)
        st = gr_loader_seek(l, 0, 0);
    for (int i = 0; i < 7 && st == GR_OK; i++)
        st = gr_loader_next(l, &b);
    gr_loader_destroy(l);
    gr_order_source_destroy(source);
    return st;
}

/* The memory of batches is the device's, where there is one. */
static int n_pinned;

static gr_status pinned_alloc(gr_device *d, size_t n_bytes, void **out)
{
    n_pinned++;
    return gr_backend_null.host_alloc(d, n_bytes, out);
}

static void pinned_free(gr_device *d, void *mem)
{
    n_pinned--;
    gr_backend_null.host_free(d, mem);
}

static void test_pinned(void)
{
    gr_backend_ops ops = gr_backend_null;
    gr_device d = { .ops = &ops };
    gr_order_source *source = shuffled(8, 4, false);
    world w = { 0 };
    gr_loader_config c = config_of(&w, source, 2);
    const gr_loaded *b;
    gr_loader *l;

    ops.host_alloc = pinned_alloc;
    ops.host_free = pinned_free;
    c.device = &d;
    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_EQ(n_pinned, 3);
    GR_CHECK_OK(gr_loader_seek(l, 0, 0));
    GR_CHECK_OK(gr_loader_next(l, &b));
    GR_CHECK_EQ((uintptr_t)b->mem[0] % 64, 0);
    GR_CHECK_EQ((uintptr_t)b->mem[1] % 64, 0);
    gr_loader_destroy(l);
    GR_CHECK_EQ(n_pinned, 0);
    gr_order_source_destroy(source);
}

static void test_arguments(void)
{
    gr_order_source *source = shuffled(8, 4, false);
    world w = { 0 };
    gr_loader_config c = config_of(&w, source, -1);
    gr_loader *l;

    GR_CHECK_FAILS(gr_loader_create(&l, &c), GR_ERR_ARG, "-1 loader threads");
    c = config_of(&w, source, 1);
    c.prefetch = -2;
    GR_CHECK_FAILS(gr_loader_create(&l, &c), GR_ERR_ARG, "prefetch of -2");
    c = config_of(&w, source, 1);
    c.n_fields = 17;
    GR_CHECK_FAILS(gr_loader_create(&l, &c), GR_ERR_ARG, "up to 16 fields");
    gr_loader_destroy(NULL);
    gr_order_source_destroy(source);
    GR_CHECK(gr_loader_default_workers(1) >= 1 && gr_loader_default_workers(1) <= 4);
    GR_CHECK_EQ(gr_loader_default_workers(1 << 20), 1);
}

int main(void)
{
    world w = { 0 };

    test_order();
    test_short_epochs();
    test_rollover();
    test_seek_again();
    test_counts();
    test_lengths();
    test_failure();
    test_replace();
    test_nothing_loads();
    test_drop();
    test_bad_source();
    test_stop_at_once();
    test_waiting();
    test_no_allocation();
    test_pinned();
    test_arguments();
    GR_CHECK(gr_alloc_fail_each(whole_life, &w) > 8);
    return 0;
}

/*
 * The life of a loader: what it refuses, stopping, waiting, and memory, its own and a device's.
 * Guards P7.
 */
#include "data/loader.h"

#include "alloc_fail.h"
#include "base/cpu.h"
#include "check.h"
#include "data/loading.h"
#include "data/sampler.h"

/* A batch of 1000 samples of 50 ms each is not waited for. */
static void test_stop_at_once(void)
{
    gr_order_source *source = loading_shuffled(3000, 1000, false);
    loading w = { .sleep_us = 50000 };
    gr_loader_config c = loading_config(&w, source, 4);
    gr_loader *l;

    GR_CHECK_OK(gr_loader_create(&l, &c));
    GR_CHECK_OK(gr_loader_seek(l, 0, 0));
    while (atomic_load(&w.n_loads) < 4)
        loading_nap(200);
    gr_loader_destroy(l);
    GR_CHECK(atomic_load(&w.n_loads) < 1000);
    gr_order_source_destroy(source);
}

/* Waiting is counted while samples are slow, and is next to nothing when they are there. On a
 * busy machine this thread may be held up at any point, but not every time. */
static void test_waiting(void)
{
    gr_order_source *source = loading_shuffled(8, 8, false);
    loading w = { .sleep_us = 4000 };
    gr_loader_config c = loading_config(&w, source, 1);
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
        loading_nap(60000);
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
        gr_order_source *source = loading_shuffled(64, 8, false);
        loading w = { 0 };
        gr_loader_config c = loading_config(&w, source, n_workers);
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
    c = loading_config(arg, source, 0);
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
    gr_order_source *source = loading_shuffled(8, 4, false);
    loading w = { 0 };
    gr_loader_config c = loading_config(&w, source, 2);
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
    gr_order_source *source = loading_shuffled(8, 4, false);
    loading w = { 0 };
    gr_loader_config c = loading_config(&w, source, -1);
    gr_loader *l;

    GR_CHECK_FAILS(gr_loader_create(&l, &c), GR_ERR_ARG, "-1 loader threads");
    c = loading_config(&w, source, 1);
    c.prefetch = -2;
    GR_CHECK_FAILS(gr_loader_create(&l, &c), GR_ERR_ARG, "prefetch of -2");
    c = loading_config(&w, source, 1);
    c.n_fields = GR_LOADER_MAX_FIELDS + 1;
    GR_CHECK_FAILS(gr_loader_create(&l, &c), GR_ERR_ARG, "up to 64 fields");
    gr_loader_destroy(NULL);
    gr_order_source_destroy(source);
    GR_CHECK(gr_loader_default_workers(1) >= 1 && gr_loader_default_workers(1) <= 4);
    GR_CHECK_EQ(gr_loader_default_workers(1 << 20), 1);
    GR_CHECK_EQ(gr_loader_cores(1), gr_cpu_count());
    GR_CHECK_EQ(gr_loader_cores(1 << 20), 1);
}

int main(void)
{
    loading w = { 0 };

    test_stop_at_once();
    test_waiting();
    test_no_allocation();
    test_pinned();
    test_arguments();
    GR_CHECK(gr_alloc_fail_each(whole_life, &w) > 8);
    return 0;
}

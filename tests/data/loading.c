/* What tests of the loader share. */
#include "data/loading.h"

#include "check.h"
#include "data/sampler.h"

#include <time.h>

void loading_nap(int us)
{
    struct timespec t = { .tv_sec = us / 1000000, .tv_nsec = (us % 1000000) * 1000L };

    nanosleep(&t, NULL);
}

static gr_status load(void *arg, const gr_load_item *item, void *const *mem)
{
    loading *w = arg;
    float *x = mem[0];
    unsigned char *y = mem[1];

    atomic_fetch_add(&w->n_loads, 1);
    if (item->worker > atomic_load(&w->max_worker))
        atomic_store(&w->max_worker, item->worker);
    if (w->sleep_us > 0)
        loading_nap((int)(item->index % 3) * w->sleep_us);
    for (int i = 0; i < w->n_broken; i++)
        if (w->all_broken || item->index == w->broken[i])
            return gr_fail(GR_ERR_FORMAT, "file 'img_%" PRId64 ".png' is cut off", item->index);
    for (int i = 0; i < LOADING_FEATURES; i++)
        x[i] = (float)(item->index * 10 + i) + (float)item->epoch * 0.5f;
    memset(y, (int)(item->index & 0xff), w->bytes[item->size]);
    return GR_OK;
}

gr_loader_config loading_config(loading *w, gr_order_source *source, int n_workers)
{
    gr_loader_config c = GR_LOADER_CONFIG_INIT;

    c.source = source;
    c.load = load;
    c.load_arg = w;
    c.fields[0] = (gr_loader_field){ .bytes = LOADING_FEATURES * sizeof(float) };
    w->bytes[0] = 1;
    for (int k = 0; source->sizes && k < source->sizes->n_sizes; k++)
        w->bytes[k] = (size_t)source->sizes->size[k * source->sizes->n_axes];
    c.fields[1] = (gr_loader_field){ .by_size = w->bytes };
    c.n_fields = 2;
    c.n_workers = n_workers;
    c.what = "training";
    return c;
}

gr_order_source *loading_shuffled(int64_t n, int64_t batch, bool drop_last)
{
    gr_sampler_config c = { .n_samples = n, .n_ranks = 1, .seed = 3 };
    gr_order_source *s;

    GR_CHECK_OK(gr_order_shuffled(&s, &c, (gr_batch_cut){ batch, drop_last }));
    return s;
}

void loading_check(const loading *w, const gr_loaded *b)
{
    size_t n_bytes = w->bytes[b->size];
    const float *x = b->mem[0];
    const unsigned char *y = b->mem[1];

    for (int64_t i = 0; i < b->n; i++) {
        for (int f = 0; f < LOADING_FEATURES; f++)
            GR_CHECK(x[i * LOADING_FEATURES + f] ==
                     (float)(b->index[i] * 10 + f) + (float)b->epoch * 0.5f);
        for (size_t k = 0; k < n_bytes; k++)
            GR_CHECK_EQ(y[(size_t)i * n_bytes + k], b->index[i] & 0xff);
    }
}

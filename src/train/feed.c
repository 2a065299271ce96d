/* Feeds: a recipe's samples through the loader. */
#include "train/feed.h"

#include "base/alloc.h"
#include "base/log.h"

#include <inttypes.h>
#include <string.h>

#define TOLD GR_LOADER_NOTES /* skipped samples that are named */

static const char *const split_names[GR_N_SPLITS] = { "training", "validation", "test",
                                                      "prediction" };

const char *gr_split_name(gr_split split)
{
    return split_names[split];
}

const int64_t *gr_feed_size(const gr_sizes *sizes, int k)
{
    return sizes ? sizes->size + (size_t)k * (size_t)sizes->n_axes : NULL;
}

/* ---- one sample ---- */

gr_status gr_feed_open_worker(const gr_feed_source *from, gr_feed_worker *w)
{
    const gr_recipe_data *data = from->recipe->data;

    *w = (gr_feed_worker){ .slots =
                               gr_calloc((size_t)from->view->n_feeds + 1, sizeof(gr_feed_slot)) };
    if (!w->slots)
        return GR_ERR_NOMEM;
    return data->scratch_open ? data->scratch_open(from->user, &w->scratch) : GR_OK;
}

void gr_feed_close_worker(const gr_feed_source *from, gr_feed_worker *w)
{
    if (w->scratch && from->recipe->data->scratch_close)
        from->recipe->data->scratch_close(w->scratch);
    gr_free(w->slots);
    *w = (gr_feed_worker){ 0 };
}

/* The feeds that come with axes: mask and length of each. */
static void load_axes(const gr_feed_source *from, int64_t index, int k, void *const *mem)
{
    int at = gr_fields_n_own(from->view);

    for (int a = 0; from->sizes && a < from->sizes->n_axes; a++) {
        int64_t padded = gr_feed_size(from->sizes, k)[a];
        int32_t length = from->sizes->lengths[index * from->sizes->n_axes + a];

        memset(mem[at], 1, (size_t)length);
        memset((char *)mem[at] + length, 0, (size_t)(padded - length));
        memcpy(mem[at + 1], &length, sizeof(length));
        at += 2;
    }
}

gr_status gr_feed_load(const gr_feed_source *from, gr_feed_worker *w, const gr_sample *sample,
                       int k, void *const *mem)
{
    const int64_t *size = gr_feed_size(from->sizes, k);

    for (int i = 0; i < gr_fields_n_own(from->view); i++) {
        const gr_field *f = &from->view->feeds[i];

        gr_field_fill(f, mem[i], gr_field_bytes(f, size));
        w->slots[i] = (gr_feed_slot){ mem[i], gr_field_shape(f, size) };
    }
    load_axes(from, sample->index, k, mem);
    return from->recipe->data->load(from->user, sample, w->scratch, w->slots);
}

/* ---- batches ---- */

/* Any worker. */
static gr_status load(void *arg, const gr_load_item *item, void *const *mem)
{
    const gr_feed *f = arg;
    gr_sample s = { .split = f->from.split,
                    .index = item->index,
                    .epoch = f->from.split == GR_SPLIT_TRAIN ? item->epoch : 0,
                    .seed = f->from.seed };

    return gr_feed_load(&f->from, &f->workers[item->worker], &s, item->size, mem);
}

static gr_status open_workers(gr_feed *f, int n)
{
    f->workers = gr_calloc((size_t)n + 1, sizeof(*f->workers));
    if (!f->workers)
        return GR_ERR_NOMEM;
    for (f->n_workers = 0; f->n_workers < n;)
        GR_TRY(gr_feed_open_worker(&f->from, &f->workers[f->n_workers++]));
    return GR_OK;
}

/* How much memory a sample of each feed takes. */
static gr_status measure_fields(gr_feed *f, gr_loader_config *lc)
{
    const gr_recipe_view *view = f->from.view;
    int n_sizes = f->from.sizes ? f->from.sizes->n_sizes : 0;

    if (view->n_feeds > GR_LOADER_MAX_FIELDS)
        return gr_fail(GR_ERR_ARG, "%d feeds, with those of the axes; a recipe may have %d",
                       view->n_feeds, GR_LOADER_MAX_FIELDS);
    lc->n_fields = view->n_feeds;
    if (n_sizes > 0)
        f->bytes = gr_calloc((size_t)view->n_feeds * (size_t)n_sizes + 1, sizeof(*f->bytes));
    if (n_sizes > 0 && !f->bytes)
        return GR_ERR_NOMEM;
    for (int i = 0; i < view->n_feeds; i++) {
        if (n_sizes == 0)
            lc->fields[i].bytes = gr_field_bytes(&view->feeds[i], NULL);
        else
            lc->fields[i].by_size = f->bytes + (size_t)i * (size_t)n_sizes;
        for (int k = 0; k < n_sizes; k++)
            f->bytes[i * n_sizes + k] =
                gr_field_bytes(&view->feeds[i], gr_feed_size(f->from.sizes, k));
    }
    return GR_OK;
}

gr_status gr_feed_open(gr_feed *f, const gr_feed_config *c)
{
    gr_loader_config lc = GR_LOADER_CONFIG_INIT;
    bool trains = c->from.split == GR_SPLIT_TRAIN;

    *f = (gr_feed){ .from = c->from, .order = c->order };
    f->feeds = gr_calloc((size_t)f->from.view->n_feeds + 1, sizeof(*f->feeds));
    if (!f->feeds)
        return GR_ERR_NOMEM;
    GR_TRY(open_workers(f, c->n_workers > 0 ? c->n_workers : 1));
    GR_TRY(measure_fields(f, &lc));
    lc.source = f->order;
    lc.load = load;
    lc.load_arg = f;
    lc.device = c->device;
    lc.n_workers = c->n_workers;
    lc.prefetch = c->prefetch;
    lc.batches_per_epoch = c->batches_per_epoch;
    lc.end_epoch = c->end_epoch;
    lc.policy = !c->skips ? GR_LOAD_FAIL : trains ? GR_LOAD_REPLACE : GR_LOAD_DROP;
    lc.what = split_names[f->from.split];
    if (c->skips) {
        f->bad = gr_calloc((size_t)(c->n_samples / 8) + 1, 1);
        if (!f->bad)
            return GR_ERR_NOMEM;
    }
    return gr_loader_create(&f->loader, &lc);
}

void gr_feed_close(gr_feed *f)
{
    gr_loader_destroy(f->loader);
    gr_order_source_destroy(f->order);
    for (int i = 0; i < f->n_workers; i++)
        gr_feed_close_worker(&f->from, &f->workers[i]);
    gr_free(f->workers);
    gr_free(f->bytes);
    gr_free(f->bad);
    gr_free(f->feeds);
    *f = (gr_feed){ 0 };
}

/* False: it was known. */
static bool mark_bad(gr_feed *f, int64_t index)
{
    uint8_t *byte = &f->bad[index / 8], bit = (uint8_t)(1U << (index % 8));

    if (*byte & bit)
        return false;
    *byte |= bit;
    f->n_bad++;
    return true;
}

/* P42: nothing is left out in silence. */
static void tell_skips(gr_feed *f, const gr_loaded *b)
{
    for (int64_t k = 0; k < b->n_skipped; k++) {
        if (!mark_bad(f, b->skipped[k]))
            continue;
        if (f->n_bad <= TOLD && k < b->n_notes)
            gr_log(TRAIN, WARN, "left out: %s", b->notes[k]);
        else if (f->n_bad == TOLD + 1)
            gr_log(TRAIN, WARN, "more %s samples do not load: they are counted, not named",
                   split_names[f->from.split]);
    }
}

gr_status gr_feed_next(gr_feed *f, const gr_loaded **out)
{
    const gr_loaded *b;

    GR_TRY(gr_loader_next(f->loader, &b));
    *out = b;
    if (!b)
        return GR_OK;
    GR_TRY(gr_feed_shapes(f->from.view, gr_feed_size(f->from.sizes, b->size), b->n, f->feeds));
    for (int i = 0; i < f->from.view->n_feeds; i++)
        f->feeds[i].mem = b->mem[i];
    tell_skips(f, b);
    return GR_OK;
}

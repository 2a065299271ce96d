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

static size_t field_bytes(const gr_field *f)
{
    return (size_t)gr_shape_count(&f->shape) * gr_dtype_bytes(f->dtype);
}

size_t gr_feed_sample_bytes(const gr_recipe_view *view)
{
    size_t n_bytes = 0;

    for (int i = 0; i < view->n_feeds; i++)
        n_bytes += field_bytes(&view->feeds[i]);
    return n_bytes;
}

gr_status gr_feed_shapes(const gr_recipe_view *view, int64_t n, gr_named *feeds)
{
    for (int i = 0; i < view->n_feeds; i++) {
        const gr_field *f = &view->feeds[i];
        gr_shape *shape = &feeds[i].shape;

        if (f->shape.n_dims >= GR_MAX_DIMS)
            return gr_fail(GR_ERR_ARG, "feed '%s' has %d dimensions, and the batch makes one more",
                           f->name, f->shape.n_dims);
        feeds[i] = (gr_named){ .name = f->name, .dtype = f->dtype };
        shape->n_dims = f->shape.n_dims + 1;
        shape->dim[0] = n;
        for (int d = 0; d < f->shape.n_dims; d++)
            shape->dim[d + 1] = f->shape.dim[d];
        GR_TRY(gr_wrap(gr_shape_check(shape, f->dtype), "batch of %" PRId64 " samples", n));
    }
    return GR_OK;
}

/* Any worker. What a recipe leaves alone is zero: see load() in gradus/recipe.h. */
static gr_status load(void *arg, const gr_load_item *item, void *const *mem)
{
    const gr_feed_source *from = arg;
    gr_sample s = { .split = from->split,
                    .index = item->index,
                    .epoch = from->split == GR_SPLIT_TRAIN ? item->epoch : 0,
                    .seed = from->seed };

    for (int i = 0; i < from->view->n_feeds; i++)
        memset(mem[i], 0, field_bytes(&from->view->feeds[i]));
    return from->recipe->data->load(from->user, &s, mem);
}

gr_status gr_feed_open(gr_feed *f, const gr_feed_config *c)
{
    gr_loader_config lc = GR_LOADER_CONFIG_INIT;
    bool trains = c->from.split == GR_SPLIT_TRAIN;

    *f = (gr_feed){ .from = c->from, .order = c->order };
    f->feeds = gr_calloc((size_t)f->from.view->n_feeds + 1, sizeof(*f->feeds));
    if (!f->feeds)
        return GR_ERR_NOMEM;
    GR_TRY(gr_feed_shapes(f->from.view, c->order->max_batch, f->feeds));
    lc.source = f->order;
    lc.load = load;
    lc.load_arg = &f->from;
    lc.n_fields = f->from.view->n_feeds;
    for (int i = 0; i < lc.n_fields; i++)
        lc.fields[i].bytes = field_bytes(&f->from.view->feeds[i]);
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
    for (int i = 0; i < f->from.view->n_feeds; i++) {
        f->feeds[i].shape.dim[0] = b->n;
        f->feeds[i].mem = b->mem[i];
    }
    tell_skips(f, b);
    return GR_OK;
}

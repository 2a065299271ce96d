/* Batches: one aligned buffer per feed, samples one after the other. */
#include "train/batch.h"

#include "base/alloc.h"
#include "base/size.h"

#include <inttypes.h>
#include <string.h>

static gr_status add_feed(gr_batch *b, int i)
{
    const gr_field *f = &b->view->feeds[i];
    gr_named *feed = &b->feeds[i];
    size_t n_bytes;

    if (f->shape.n_dims >= GR_MAX_DIMS)
        return gr_fail(GR_ERR_ARG, "feed '%s' has %d dimensions, and the batch makes one more",
                       f->name, f->shape.n_dims);
    *feed = (gr_named){ .name = f->name, .dtype = f->dtype, .shape = f->shape };
    for (int d = f->shape.n_dims; d > 0; d--)
        feed->shape.dim[d] = f->shape.dim[d - 1];
    feed->shape.n_dims = f->shape.n_dims + 1;
    feed->shape.dim[0] = b->cap;
    GR_TRY(gr_shape_check(&feed->shape, feed->dtype));
    b->sample_bytes[i] = (size_t)gr_shape_count(&f->shape) * gr_dtype_bytes(f->dtype);
    GR_TRY(gr_size_mul(&n_bytes, b->sample_bytes[i], (size_t)b->cap));
    b->mem[i] = gr_malloc_aligned(n_bytes);
    feed->mem = b->mem[i];
    return b->mem[i] ? GR_OK : GR_ERR_NOMEM;
}

gr_status gr_batch_init(gr_batch *b, const gr_recipe *recipe, const gr_recipe_view *view,
                        int64_t cap)
{
    *b = (gr_batch){ .recipe = recipe, .view = view, .cap = cap };
    for (int i = 0; i < view->n_feeds; i++)
        GR_TRY(gr_wrap(add_feed(b, i), "batch of %" PRId64 " samples", cap));
    return GR_OK;
}

void gr_batch_fini(gr_batch *b)
{
    for (int i = 0; i < GR_RECIPE_MAX_FEEDS; i++)
        gr_free(b->mem[i]);
    *b = (gr_batch){ 0 };
}

void gr_batch_resize(gr_batch *b, int64_t n)
{
    for (int i = 0; i < b->view->n_feeds; i++)
        b->feeds[i].shape.dim[0] = n;
}

gr_status gr_batch_load(gr_batch *b, const void *user, const gr_sample *sample, int64_t i)
{
    static const char *const names[GR_N_SPLITS] = { "training", "validation", "test",
                                                    "prediction" };
    void *mem[GR_RECIPE_MAX_FEEDS] = { 0 };

    for (int f = 0; f < b->view->n_feeds; f++)
        mem[f] = (char *)b->mem[f] + (size_t)i * b->sample_bytes[f];
    for (int f = 0; f < b->view->n_feeds; f++)
        memset(mem[f], 0, b->sample_bytes[f]);
    return gr_wrap(b->recipe->load(user, sample, mem), "%s sample %" PRId64, names[sample->split],
                   sample->index);
}

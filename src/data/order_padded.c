/*
 * Batches that come by chance, of samples that differ in length: each is padded to the first of
 * the sizes that holds all of its samples.
 */
#include "base/alloc.h"
#include "data/order.h"

typedef struct padded {
    gr_order_source base;
    gr_order_source *of; /* owned */
} padded;

static gr_status padded_fill(gr_order_source *base, int64_t epoch, gr_order *out)
{
    const padded *s = (const padded *)base;

    GR_TRY(s->of->ops->fill(s->of, epoch, out));
    for (int64_t b = 0; b < out->n_batches; b++)
        out->size[b] = gr_sizes_of_batch(base->sizes, out->index + out->first[b],
                                         out->first[b + 1] - out->first[b]);
    return GR_OK;
}

static gr_status padded_shapes(const gr_order_source *base, gr_order_shape_fn *fn, void *arg)
{
    for (int k = 0; k < base->sizes->n_sizes; k++) {
        GR_TRY(fn(arg, base->max_batch, k));
        if (base->last_batch < base->max_batch)
            GR_TRY(fn(arg, base->last_batch, k));
    }
    return GR_OK;
}

static void padded_destroy(gr_order_source *base)
{
    padded *s = (padded *)base;

    gr_order_source_destroy(s->of);
    gr_free(s->base.max_of);
    gr_free(s);
}

static const gr_order_source_ops padded_ops = {
    .name = "padded",
    .fill = padded_fill,
    .shapes = padded_shapes,
    .destroy = padded_destroy,
};

gr_status gr_order_padded(gr_order_source **out, gr_order_source *of, const gr_sizes *sizes)
{
    padded *s = gr_calloc(1, sizeof(*s));

    if (!s) {
        gr_order_source_destroy(of);
        return GR_ERR_NOMEM;
    }
    s->base = *of;
    s->base.ops = &padded_ops;
    s->base.sizes = sizes;
    s->of = of;
    s->base.max_of = gr_calloc((size_t)sizes->n_sizes + 1, sizeof(*s->base.max_of));
    if (!s->base.max_of) {
        padded_destroy(&s->base);
        return GR_ERR_NOMEM;
    }
    for (int k = 0; k < sizes->n_sizes; k++)
        s->base.max_of[k] = of->max_batch;
    *out = &s->base;
    return GR_OK;
}

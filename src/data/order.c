/* Orders: arrays that are reused from epoch to epoch. */
#include "data/order.h"

#include "base/alloc.h"
#include "base/size.h"

void gr_order_fini(gr_order *o)
{
    gr_free(o->index);
    gr_free(o->first);
    gr_free(o->size);
    gr_free(o->n_all);
    *o = (gr_order){ 0 };
}

/* The old contents are of no use, so nothing is copied. */
static gr_status renew(int64_t **items, int64_t n)
{
    gr_free(*items);
    *items = gr_calloc((size_t)n, sizeof(**items));
    return *items ? GR_OK : GR_ERR_NOMEM;
}

gr_status gr_order_reserve(gr_order *o, int64_t n_samples, int64_t n_batches)
{
    if (n_samples > o->cap_samples) {
        o->cap_samples = 0;
        GR_TRY(renew(&o->index, n_samples));
        o->cap_samples = n_samples;
    }
    if (n_batches >= o->cap_batches) {
        o->cap_batches = 0;
        GR_TRY(renew(&o->first, n_batches + 1));
        GR_TRY(renew(&o->size, n_batches + 1));
        GR_TRY(renew(&o->n_all, n_batches + 1));
        o->cap_batches = n_batches + 1;
    }
    return GR_OK;
}

void gr_order_cut(gr_order *o, int64_t n_samples, int64_t batch_size, int n_ranks)
{
    o->n_samples = n_samples;
    o->n_batches = (n_samples + batch_size - 1) / batch_size;
    for (int64_t b = 0; b < o->n_batches; b++) {
        int64_t left = n_samples - b * batch_size;

        o->first[b] = b * batch_size;
        o->size[b] = 0;
        o->n_all[b] = (left < batch_size ? left : batch_size) * n_ranks;
    }
    o->first[o->n_batches] = n_samples;
}

void gr_order_source_destroy(gr_order_source *s)
{
    if (s)
        s->ops->destroy(s);
}

gr_status gr_order_shapes(const gr_order_source *s, gr_order_shape_fn *fn, void *arg)
{
    return s->n_batches > 0 ? s->ops->shapes(s, fn, arg) : GR_OK;
}

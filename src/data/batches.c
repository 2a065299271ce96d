/*
 * Batches of sequences for a loop of one's own: the bucketed order (order_bucketed.c), one epoch
 * written out at a time.
 */
#include "gradus/data.h"

#include "base/alloc.h"
#include "data/order.h"

#include <inttypes.h>

struct gr_batches {
    gr_order_source *source; /* owned */
    gr_order order;          /* of `epoch` */
    int64_t epoch;           /* -1: none is written out */
};

gr_status gr_batches_create(gr_batches **out, const gr_batches_config *config)
{
    gr_bucket_config c;
    gr_batches *b;
    gr_status st;

    if (!out || !config || (!config->lengths && config->n_samples > 0))
        return gr_fail(GR_ERR_ARG, "batches: out, config or its lengths are NULL");
    c = (gr_bucket_config){ .lengths = config->lengths,
                            .n_samples = config->n_samples,
                            .max_tokens = config->max_tokens,
                            .max_batch = config->max_batch,
                            .round_to = config->round_to,
                            .seed = config->seed,
                            .exact = config->exact,
                            .rank = { config->rank, config->n_ranks } };
    b = gr_calloc(1, sizeof(*b));
    if (!b)
        return GR_ERR_NOMEM;
    b->epoch = -1;
    st = gr_order_bucketed(&b->source, &c);
    if (st != GR_OK) {
        gr_batches_destroy(b);
        return gr_wrap(st, "batches");
    }
    *out = b;
    return GR_OK;
}

void gr_batches_destroy(gr_batches *b)
{
    if (!b)
        return;
    gr_order_fini(&b->order);
    gr_order_source_destroy(b->source);
    gr_free(b);
}

int64_t gr_batches_count(const gr_batches *b)
{
    return b->source->n_batches;
}

gr_status gr_batches_at(gr_batches *b, int64_t epoch, int64_t i, gr_batch_view *out)
{
    if (!b || !out)
        return gr_fail(GR_ERR_ARG, "batches: batches or out is NULL");
    if (epoch < 0 || i < 0 || i >= b->source->n_batches)
        return gr_fail(GR_ERR_ARG,
                       "batches: there is no batch %" PRId64 " of epoch %" PRId64
                       "; an epoch has %" PRId64,
                       i, epoch, b->source->n_batches);
    if (b->epoch != epoch) {
        b->epoch = -1;
        GR_TRY(gr_wrap(b->source->ops->fill(b->source, epoch, &b->order), "batches"));
        b->epoch = epoch;
    }
    *out = (gr_batch_view){ .index = b->order.index + b->order.first[i],
                            .n = b->order.first[i + 1] - b->order.first[i],
                            .length = b->order.length[i] };
    return GR_OK;
}

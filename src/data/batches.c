/*
 * Batches of sequences for a loop of one's own: the bucketed order (order_bucketed.c), one epoch
 * written out at a time.
 */
#include "gradus/data.h"

#include "base/alloc.h"
#include "data/order.h"

#include <inttypes.h>

#define DEFAULT_ROUND_TO 64

struct gr_batches {
    gr_sizes *sizes;         /* owned */
    gr_order_source *source; /* owned */
    gr_order order;          /* of `epoch` */
    int64_t epoch;           /* -1: none is written out */
};

static gr_status check_lengths(const gr_batches_config *c)
{
    if (c->max_tokens < 1 || c->max_batch < 0 || c->round_to < 0)
        return gr_fail(GR_ERR_ARG,
                       "a budget of %" PRId64 " tokens, %" PRId64 " samples, lengths rounded to "
                       "%" PRId64,
                       c->max_tokens, c->max_batch, c->round_to);
    for (int64_t i = 0; i < c->n_samples; i++) {
        if (c->lengths[i] < 1)
            return gr_fail(GR_ERR_ARG, "sample %" PRId64 " has length %" PRId64 ", not 1 or more",
                           i, c->lengths[i]);
        if (c->lengths[i] > c->max_tokens)
            return gr_fail(GR_ERR_ARG,
                           "sample %" PRId64 " has length %" PRId64 ", and a batch holds %" PRId64
                           " tokens: raise the budget or leave the sample out",
                           i, c->lengths[i], c->max_tokens);
    }
    return GR_OK;
}

/* One for each padded length that there is. */
static gr_status make_sizes(gr_batches *b, const gr_batches_config *c)
{
    gr_axis axis = { .name = "tokens", .multiple = c->round_to, .cost = 1 };

    if (axis.multiple == 0)
        axis.multiple = DEFAULT_ROUND_TO;
    GR_TRY(gr_sizes_create(&b->sizes, &axis, 1, c->n_samples));
    for (int64_t i = 0; i < c->n_samples; i++)
        GR_TRY(gr_sizes_set(b->sizes, i, &c->lengths[i]));
    return gr_sizes_by_multiples(b->sizes, c->max_tokens);
}

static gr_status make(gr_batches *b, const gr_batches_config *config)
{
    gr_bucket_config c = { .max_tokens = config->max_tokens,
                           .max_batch = config->max_batch,
                           .seed = config->seed,
                           .exact = config->exact,
                           .rank = { config->rank, config->n_ranks } };

    GR_TRY(check_lengths(config));
    GR_TRY(make_sizes(b, config));
    c.sizes = b->sizes;
    return gr_order_bucketed(&b->source, &c);
}

gr_status gr_batches_create(gr_batches **out, const gr_batches_config *config)
{
    gr_batches *b;
    gr_status st;

    if (!out || !config || (!config->lengths && config->n_samples > 0))
        return gr_fail(GR_ERR_ARG, "batches: out, config or its lengths are NULL");
    b = gr_calloc(1, sizeof(*b));
    if (!b)
        return GR_ERR_NOMEM;
    b->epoch = -1;
    st = make(b, config);
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
    gr_sizes_destroy(b->sizes);
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
                            .length = b->sizes->size[b->order.size[i]] };
    return GR_OK;
}

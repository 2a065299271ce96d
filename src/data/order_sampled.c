/*
 * Orders from samplers: shuffled (training), exact (validation, test, predict), weighted, listed.
 *
 * All deal in the same way: place p of the list belongs to rank p mod W. They differ in the list
 * and in what happens when W does not divide it.
 */
#include "data/order.h"

#include "base/alloc.h"
#include "base/random.h"
#include "data/sampler.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static gr_status check_cut(gr_batch_cut cut)
{
    if (cut.batch_size < 1)
        return gr_fail(GR_ERR_ARG, "a batch of %" PRId64 " samples", cut.batch_size);
    return GR_OK;
}

static gr_status check_rank(gr_rank r)
{
    if (r.n_ranks < 1 || r.rank < 0 || r.rank >= r.n_ranks)
        return gr_fail(GR_ERR_ARG, "there is no rank %d among %d", r.rank, r.n_ranks);
    return GR_OK;
}

/* The counts of a source whose rank has `count` samples before the cut. */
static void set_counts(gr_order_source *s, int64_t count, gr_batch_cut cut)
{
    s->n_batches = (count + cut.batch_size - 1) / cut.batch_size;
    if (cut.drop_last)
        s->n_batches = count / cut.batch_size;
    s->n_samples = cut.drop_last ? s->n_batches * cut.batch_size : count;
    s->fewest = s->n_batches;
    s->max_batch = cut.batch_size < count ? cut.batch_size : count;
    s->last_batch = s->n_samples - (s->n_batches - 1) * s->max_batch;
}

static gr_status plain_shapes(const gr_order_source *s, gr_order_shape_fn *fn, void *arg)
{
    GR_TRY(fn(arg, s->max_batch, 0));
    return s->last_batch < s->max_batch ? fn(arg, s->last_batch, 0) : GR_OK;
}

/* ---- shuffled ---- */

typedef struct shuffled {
    gr_order_source base;
    gr_sampler *sampler; /* owned */
    int n_ranks;
    gr_batch_cut cut;
} shuffled;

static gr_status shuffled_fill(gr_order_source *base, int64_t epoch, gr_order *out)
{
    shuffled *s = (shuffled *)base;

    GR_TRY(gr_order_reserve(out, base->n_samples, base->n_batches));
    gr_sampler_set_epoch(s->sampler, epoch);
    for (int64_t i = 0; i < base->n_samples; i++)
        out->index[i] = gr_sampler_at(s->sampler, i);
    gr_order_cut(out, base->n_samples, s->cut.batch_size, s->n_ranks);
    return GR_OK;
}

static void shuffled_destroy(gr_order_source *base)
{
    gr_sampler_destroy(((shuffled *)base)->sampler);
    gr_free(base);
}

static const gr_order_source_ops shuffled_ops = {
    .name = "shuffled",
    .fill = shuffled_fill,
    .shapes = plain_shapes,
    .destroy = shuffled_destroy,
};

gr_status gr_order_shuffled(gr_order_source **out, const gr_sampler_config *config,
                            gr_batch_cut cut)
{
    shuffled *s;
    gr_status st;

    GR_TRY(check_cut(cut));
    s = gr_calloc(1, sizeof(*s));
    if (!s)
        return GR_ERR_NOMEM;
    s->base.ops = &shuffled_ops;
    s->cut = cut;
    s->n_ranks = config->n_ranks;
    st = gr_sampler_create(&s->sampler, config);
    if (st != GR_OK) {
        shuffled_destroy(&s->base);
        return st;
    }
    set_counts(&s->base, gr_sampler_count(s->sampler), cut);
    *out = &s->base;
    return GR_OK;
}

/* ---- exact ---- */

typedef struct exact {
    gr_order_source base;
    gr_rank rank;
    int64_t batch_size;
} exact;

static gr_status exact_fill(gr_order_source *base, int64_t epoch, gr_order *out)
{
    const exact *s = (const exact *)base;

    (void)epoch;
    GR_TRY(gr_order_reserve(out, base->n_samples, base->n_batches));
    for (int64_t i = 0; i < base->n_samples; i++)
        out->index[i] = s->rank.rank + i * s->rank.n_ranks;
    gr_order_cut(out, base->n_samples, s->batch_size, 1);
    return GR_OK;
}

static void exact_destroy(gr_order_source *base)
{
    gr_free(base);
}

static const gr_order_source_ops exact_ops = {
    .name = "exact",
    .fill = exact_fill,
    .shapes = plain_shapes,
    .destroy = exact_destroy,
};

gr_status gr_order_exact(gr_order_source **out, int64_t n_samples, gr_rank rank, int64_t batch_size)
{
    gr_batch_cut cut = { .batch_size = batch_size };
    int64_t count;
    exact *s;

    GR_TRY(check_cut(cut));
    GR_TRY(check_rank(rank));
    if (n_samples < 0)
        return gr_fail(GR_ERR_ARG, "%" PRId64 " samples", n_samples);
    count = n_samples <= rank.rank ? 0 : (n_samples - rank.rank - 1) / rank.n_ranks + 1;
    s = gr_calloc(1, sizeof(*s));
    if (!s)
        return GR_ERR_NOMEM;
    s->base.ops = &exact_ops;
    s->rank = rank;
    s->batch_size = batch_size;
    set_counts(&s->base, count, cut);
    /* The last rank has the fewest samples. */
    s->base.fewest = (n_samples / rank.n_ranks + batch_size - 1) / batch_size;
    *out = &s->base;
    return GR_OK;
}

/* ---- weighted ---- */

typedef struct weighted {
    gr_order_source base;
    gr_weighted_config c;
    double *weights; /* owned */
    int64_t *draws;  /* owned: c.n_draws, of all ranks */
    gr_mt19937 random;
} weighted;

static gr_status weighted_fill(gr_order_source *base, int64_t epoch, gr_order *out)
{
    weighted *s = (weighted *)base;

    GR_TRY(gr_order_reserve(out, base->n_samples, base->n_batches));
    gr_mt_seed(&s->random, s->c.seed + (uint64_t)epoch);
    GR_TRY(gr_mt_multinomial(&s->random, s->draws, (size_t)s->c.n_draws, s->weights,
                             (size_t)s->c.n_samples));
    for (int64_t i = 0; i < base->n_samples; i++)
        out->index[i] = s->draws[(i * s->c.rank.n_ranks + s->c.rank.rank) % s->c.n_draws];
    gr_order_cut(out, base->n_samples, s->c.cut.batch_size, s->c.rank.n_ranks);
    return GR_OK;
}

static void weighted_destroy(gr_order_source *base)
{
    weighted *s = (weighted *)base;

    gr_free(s->weights);
    gr_free(s->draws);
    gr_free(s);
}

static const gr_order_source_ops weighted_ops = {
    .name = "weighted",
    .fill = weighted_fill,
    .shapes = plain_shapes,
    .destroy = weighted_destroy,
};

static gr_status check_weights(const gr_weighted_config *c)
{
    double sum = 0;

    if (c->n_samples < 1 || c->n_draws < 0)
        return gr_fail(GR_ERR_ARG, "%" PRId64 " draws from %" PRId64 " samples", c->n_draws,
                       c->n_samples);
    for (int64_t i = 0; i < c->n_samples; i++) {
        if (!(c->weights[i] >= 0) || isinf(c->weights[i]))
            return gr_fail(GR_ERR_ARG, "the weight of sample %" PRId64 " is %g", i, c->weights[i]);
        sum += c->weights[i];
    }
    if (!(sum > 0) || isinf(sum))
        return gr_fail(GR_ERR_ARG, "the weights of %" PRId64 " samples add up to %g", c->n_samples,
                       sum);
    return GR_OK;
}

gr_status gr_order_weighted(gr_order_source **out, const gr_weighted_config *config)
{
    weighted *s;

    GR_TRY(check_cut(config->cut));
    GR_TRY(check_rank(config->rank));
    GR_TRY(check_weights(config));
    s = gr_calloc(1, sizeof(*s));
    if (!s)
        return GR_ERR_NOMEM;
    s->base.ops = &weighted_ops;
    s->c = *config;
    if (s->c.n_draws == 0)
        s->c.n_draws = config->n_samples;
    s->weights = gr_calloc((size_t)config->n_samples, sizeof(*s->weights));
    s->draws = gr_calloc((size_t)s->c.n_draws, sizeof(*s->draws));
    if (!s->weights || !s->draws) {
        weighted_destroy(&s->base);
        return GR_ERR_NOMEM;
    }
    memcpy(s->weights, config->weights, (size_t)config->n_samples * sizeof(*s->weights));
    set_counts(&s->base, (s->c.n_draws + config->rank.n_ranks - 1) / config->rank.n_ranks,
               config->cut);
    *out = &s->base;
    return GR_OK;
}

/* ---- listed ---- */

typedef struct listed {
    gr_order_source base;
    gr_listed_config c;
    int64_t *list; /* owned: of all ranks */
} listed;

static gr_status listed_fill(gr_order_source *base, int64_t epoch, gr_order *out)
{
    listed *s = (listed *)base;
    int64_t n = s->c.n_samples;

    GR_TRY(gr_order_reserve(out, base->n_samples, base->n_batches));
    GR_TRY(s->c.list(s->c.arg, epoch, s->list));
    for (int64_t i = 0; i < n; i++)
        if (s->list[i] < 0 || s->list[i] >= n)
            return gr_fail(GR_ERR_ARG,
                           "place %" PRId64 " holds sample %" PRId64 ", and there are %" PRId64, i,
                           s->list[i], n);
    for (int64_t i = 0; i < base->n_samples; i++)
        out->index[i] = s->list[(i * s->c.rank.n_ranks + s->c.rank.rank) % n];
    gr_order_cut(out, base->n_samples, s->c.cut.batch_size, s->c.rank.n_ranks);
    return GR_OK;
}

static void listed_destroy(gr_order_source *base)
{
    gr_free(((listed *)base)->list);
    gr_free(base);
}

static const gr_order_source_ops listed_ops = {
    .name = "listed",
    .fill = listed_fill,
    .shapes = plain_shapes,
    .destroy = listed_destroy,
};

gr_status gr_order_listed(gr_order_source **out, const gr_listed_config *config)
{
    int64_t n_ranks = config->rank.n_ranks;
    listed *s;

    GR_TRY(check_cut(config->cut));
    GR_TRY(check_rank(config->rank));
    if (config->n_samples < 1)
        return gr_fail(GR_ERR_ARG, "an order of %" PRId64 " samples", config->n_samples);
    s = gr_calloc(1, sizeof(*s));
    if (!s)
        return GR_ERR_NOMEM;
    s->base.ops = &listed_ops;
    s->c = *config;
    s->list = gr_calloc((size_t)config->n_samples, sizeof(*s->list));
    if (!s->list) {
        listed_destroy(&s->base);
        return GR_ERR_NOMEM;
    }
    set_counts(&s->base, (config->n_samples + n_ranks - 1) / n_ranks, config->cut);
    *out = &s->base;
    return GR_OK;
}

/*
 * One permutation of the data set per epoch, equal on all ranks; rank r takes places r,
 * r + W, r + 2W, ... Drawn for 7 samples and 3 ranks (letters in the epoch's order):
 *
 *     a b c d e f g          padded with its head:   a b c d e f g a b
 *     rank 0: a d g          rank 1: b e a           rank 2: c f b
 *
 * Padding repeats the head as often as needed, so place p holds order[p mod n].
 */
#include "data/sampler.h"

#include "base/alloc.h"
#include "base/random.h"

#include <inttypes.h>

struct gr_sampler {
    gr_sampler_config c;
    int64_t count; /* per rank */
    int64_t epoch; /* of `order` */
    int64_t *order;
    gr_mt19937 random;
};

static gr_status check(const gr_sampler_config *c)
{
    if (c->n_samples < 1)
        return gr_fail(GR_ERR_ARG, "the data set has %" PRId64 " samples", c->n_samples);
    if (c->n_ranks < 1 || c->rank < 0 || c->rank >= c->n_ranks)
        return gr_fail(GR_ERR_ARG, "there is no rank %d among %d", c->rank, c->n_ranks);
    if (c->drop_last && c->n_samples < c->n_ranks)
        return gr_fail(GR_ERR_ARG, "%" PRId64 " samples are none for each of %d ranks",
                       c->n_samples, c->n_ranks);
    return GR_OK;
}

static void draw(gr_sampler *s, int64_t epoch)
{
    s->epoch = epoch;
    if (s->c.in_order) {
        for (int64_t i = 0; i < s->c.n_samples; i++)
            s->order[i] = i;
        return;
    }
    gr_mt_seed(&s->random, s->c.seed + (uint64_t)epoch);
    gr_mt_randperm(&s->random, s->order, s->c.n_samples);
}

gr_status gr_sampler_create(gr_sampler **out, const gr_sampler_config *config)
{
    int64_t n = config->n_samples, n_ranks = config->n_ranks;
    gr_sampler *s;

    GR_TRY(check(config));
    s = gr_calloc(1, sizeof(*s));
    if (!s)
        return GR_ERR_NOMEM;
    s->c = *config;
    s->count = config->drop_last ? n / n_ranks : (n + n_ranks - 1) / n_ranks;
    s->order = gr_calloc((size_t)n, sizeof(*s->order));
    if (!s->order) {
        gr_sampler_destroy(s);
        return GR_ERR_NOMEM;
    }
    draw(s, 0);
    *out = s;
    return GR_OK;
}

void gr_sampler_destroy(gr_sampler *s)
{
    if (!s)
        return;
    gr_free(s->order);
    gr_free(s);
}

int64_t gr_sampler_count(const gr_sampler *s)
{
    return s->count;
}

void gr_sampler_set_epoch(gr_sampler *s, int64_t epoch)
{
    if (epoch != s->epoch)
        draw(s, epoch);
}

int64_t gr_sampler_at(const gr_sampler *s, int64_t i)
{
    GR_BUG_IF(i < 0 || i >= s->count);
    return s->order[(i * s->c.n_ranks + s->c.rank) % s->c.n_samples];
}

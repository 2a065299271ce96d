/*
 * Batches of like lengths under a budget of padded tokens.
 *
 * Samples are sorted by padded length; a bucket is all samples of one padded length. The sorted
 * list is cut into batches, short lengths first; what is left of a bucket goes into the first
 * batch of the next one if that is not much longer:
 *
 *     | 64 64 64 64 | 64 64 64 64 | 64 128 128 | 128 128 128 | 192 192 |
 *
 * (1) The cuts follow from the number of samples in each bucket, so they are the same in every
 *     epoch. An epoch shuffles samples inside their buckets: other batches, as many of them.
 * (2) For training the number of batches is made a multiple of the ranks by halving the
 *     largest ones, so that no sample comes twice. Only where every batch is a single sample
 *     are some repeated.
 * (3) W neighbours of the list are one step of W ranks: they are about equally long, so no rank
 *     waits for another one's long batch. An epoch shuffles the steps, and turns the ranks
 *     inside each of them.
 */
#include "data/order.h"

#include "base/alloc.h"
#include "base/random.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ROUND_TO 64

/* The rest of a bucket joins the next if that pads it by no more than this factor. */
#define JOIN_NUMERATOR   3
#define JOIN_DENOMINATOR 2

typedef struct sample {
    int64_t length, index; /* padded length */
} sample;

typedef struct batch {
    int64_t first, n, length; /* a stretch of the sorted list */
} batch;

typedef struct bucketed {
    gr_order_source base;
    gr_bucket_config c;
    sample *sorted;    /* owned: n_samples */
    int64_t *shuffled; /* owned: indices, the sorted list of an epoch */
    int64_t *places;   /* owned: a permutation of a bucket, or of the steps */
    batch *batches;    /* owned */
    int64_t n_batches; /* of all ranks */
    gr_mt19937 random;
} bucketed;

/* ---- the cuts ---- */

static gr_status check(const gr_bucket_config *c)
{
    if (c->rank.n_ranks < 1 || c->rank.rank < 0 || c->rank.rank >= c->rank.n_ranks)
        return gr_fail(GR_ERR_ARG, "there is no rank %d among %d", c->rank.rank, c->rank.n_ranks);
    if (c->max_tokens < 1 || c->max_batch < 0 || c->round_to < 0)
        return gr_fail(GR_ERR_ARG,
                       "a budget of %" PRId64 " tokens, %" PRId64 " samples, lengths rounded to "
                       "%" PRId64,
                       c->max_tokens, c->max_batch, c->round_to);
    if (c->n_samples < 0 || (!c->exact && c->n_samples < c->rank.n_ranks))
        return gr_fail(GR_ERR_ARG, "%" PRId64 " samples are none for some of %d ranks",
                       c->n_samples, c->rank.n_ranks);
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

/* A length that fits only without rounding is padded to the whole budget. */
static int64_t padded(const gr_bucket_config *c, int64_t length)
{
    int64_t to = c->round_to > 0 ? c->round_to : DEFAULT_ROUND_TO;
    int64_t n = (length - 1) / to * to;

    return n > c->max_tokens - to ? c->max_tokens : n + to;
}

static int by_length(const void *pa, const void *pb)
{
    const sample *a = pa, *b = pb;

    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static int64_t bucket_end(const bucketed *s, int64_t first)
{
    int64_t i = first;

    while (i < s->c.n_samples && s->sorted[i].length == s->sorted[first].length)
        i++;
    return i;
}

static void add_batch(bucketed *s, int64_t first, int64_t n, int64_t length)
{
    s->batches[s->n_batches++] = (batch){ .first = first, .n = n, .length = length };
}

static bool joins_next(const bucketed *s, int64_t end)
{
    return end < s->c.n_samples &&
           s->sorted[end].length * JOIN_DENOMINATOR <= s->sorted[end - 1].length * JOIN_NUMERATOR;
}

static void cut(bucketed *s)
{
    int64_t at = 0; /* where the next batch begins */

    for (int64_t b = 0, end; b < s->c.n_samples; b = end) {
        int64_t length = s->sorted[b].length, cap = s->c.max_tokens / length;

        end = bucket_end(s, b);
        if (s->c.max_batch > 0 && cap > s->c.max_batch)
            cap = s->c.max_batch;
        for (; end - at >= cap; at += cap)
            add_batch(s, at, cap, length);
        if (at < end && !joins_next(s, end)) {
            add_batch(s, at, end - at, length);
            at = end;
        }
    }
}

/* ---- as many for every rank ---- */

static int64_t largest(const bucketed *s)
{
    int64_t best = 0;

    for (int64_t b = 1; b < s->n_batches; b++)
        if (s->batches[b].n > s->batches[best].n)
            best = b;
    return best;
}

/* One batch more, in front of place b + 1, so that the list stays sorted. */
static void insert_behind(bucketed *s, int64_t b, batch what)
{
    memmove(&s->batches[b + 2], &s->batches[b + 1],
            (size_t)(s->n_batches - b - 1) * sizeof(*s->batches));
    s->batches[b + 1] = what;
    s->n_batches++;
}

static void even_out(bucketed *s)
{
    while (s->n_batches % s->c.rank.n_ranks != 0) {
        int64_t b = largest(s);
        batch second = s->batches[b];

        if (second.n > 1) {
            second.first += second.n / 2;
            second.n -= second.n / 2;
            s->batches[b].n /= 2;
        } else { /* (2): singles only; the shortest are the cheapest to repeat */
            b = 0;
            second = s->batches[s->n_batches % s->c.rank.n_ranks];
        }
        insert_behind(s, b, second);
    }
}

/* ---- an epoch ---- */

static void shuffle_buckets(bucketed *s)
{
    for (int64_t b = 0, end; b < s->c.n_samples; b = end) {
        end = bucket_end(s, b);
        if (!s->c.exact)
            gr_mt_randperm(&s->random, s->places, end - b);
        for (int64_t i = b; i < end; i++)
            s->shuffled[i] = s->sorted[s->c.exact ? i : b + s->places[i - b]].index;
    }
}

static void append(const bucketed *s, const batch *b, gr_order *out)
{
    memcpy(out->index + out->n_samples, s->shuffled + b->first, (size_t)b->n * sizeof(*out->index));
    out->first[out->n_batches] = out->n_samples;
    out->length[out->n_batches++] = b->length;
    out->n_samples += b->n;
    out->first[out->n_batches] = out->n_samples;
}

static void deal_steps(bucketed *s, gr_order *out)
{
    int64_t n_ranks = s->c.rank.n_ranks, n_steps = s->n_batches / n_ranks;

    gr_mt_randperm(&s->random, s->places, n_steps);
    for (int64_t i = 0; i < n_steps; i++) {
        int64_t turned = (s->c.rank.rank + (int64_t)gr_mt_u32(&s->random)) % n_ranks;

        append(s, &s->batches[s->places[i] * n_ranks + turned], out);
    }
}

static gr_status bucketed_fill(gr_order_source *base, int64_t epoch, gr_order *out)
{
    bucketed *s = (bucketed *)base;

    GR_TRY(gr_order_reserve(out, base->n_samples, base->n_batches));
    out->n_samples = out->n_batches = 0;
    out->first[0] = 0;
    gr_mt_seed(&s->random, s->c.seed + (uint64_t)epoch);
    shuffle_buckets(s);
    if (!s->c.exact)
        deal_steps(s, out);
    for (int64_t b = s->c.rank.rank; s->c.exact && b < s->n_batches; b += s->c.rank.n_ranks)
        append(s, &s->batches[b], out);
    return GR_OK;
}

static void bucketed_destroy(gr_order_source *base)
{
    bucketed *s = (bucketed *)base;

    gr_free(s->sorted);
    gr_free(s->shuffled);
    gr_free(s->places);
    gr_free(s->batches);
    gr_free(s);
}

static const gr_order_source_ops bucketed_ops = {
    .name = "bucketed",
    .fill = bucketed_fill,
    .destroy = bucketed_destroy,
};

/* n_samples is what a rank can get at most: the largest batch of each step. */
static void count(bucketed *s)
{
    int64_t n_ranks = s->c.rank.n_ranks, most = 0;

    for (int64_t b = 0; b < s->n_batches; b++) {
        const batch *x = &s->batches[b];

        if (x->n > s->base.max_batch)
            s->base.max_batch = x->n;
        if (x->n * x->length > s->base.max_tokens)
            s->base.max_tokens = x->n * x->length;
        most = b % n_ranks == 0 || x->n > most ? x->n : most;
        if ((b + 1) % n_ranks == 0 || b + 1 == s->n_batches)
            s->base.n_samples += most;
    }
    s->base.n_batches = s->n_batches / n_ranks;
    if (s->n_batches % n_ranks > s->c.rank.rank)
        s->base.n_batches++;
}

static gr_status make(bucketed *s, const gr_bucket_config *config)
{
    size_t n = (size_t)config->n_samples, room = n + (size_t)config->rank.n_ranks;

    s->sorted = gr_calloc(n, sizeof(*s->sorted));
    s->shuffled = gr_calloc(n, sizeof(*s->shuffled));
    s->places = gr_calloc(room, sizeof(*s->places));
    s->batches = gr_calloc(room, sizeof(*s->batches));
    if (!s->sorted || !s->shuffled || !s->places || !s->batches)
        return GR_ERR_NOMEM;
    for (int64_t i = 0; i < config->n_samples; i++)
        s->sorted[i] = (sample){ .length = padded(config, config->lengths[i]), .index = i };
    qsort(s->sorted, n, sizeof(*s->sorted), by_length);
    cut(s);
    if (!config->exact)
        even_out(s);
    count(s);
    return GR_OK;
}

gr_status gr_order_bucketed(gr_order_source **out, const gr_bucket_config *config)
{
    bucketed *s;
    gr_status st;

    GR_TRY(check(config));
    s = gr_calloc(1, sizeof(*s));
    if (!s)
        return GR_ERR_NOMEM;
    s->base.ops = &bucketed_ops;
    s->c = *config;
    s->c.lengths = NULL; /* borrowed for this call only */
    st = make(s, config);
    if (st != GR_OK) {
        bucketed_destroy(&s->base);
        return st;
    }
    *out = &s->base;
    return GR_OK;
}

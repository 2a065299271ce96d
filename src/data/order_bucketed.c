/*
 * Batches of samples of one size under a budget of padded tokens.
 *
 * A bucket is all samples of one size (sizes.h). It is cut into batches, buckets of few tokens
 * first; what is left of a bucket goes to the front of the next one that holds it, if that is not
 * much larger:
 *
 *     | 64 64 64 64 | 64 64 64 64 | 64 128 128 | 128 128 128 | 192 192 |
 *
 * (1) The cuts follow from the number of samples in each bucket, so they are the same in every
 *     epoch. An epoch shuffles samples inside their buckets: other batches, as many of them.
 * (2) For training the number of batches is made a multiple of the ranks (and of the micro-steps
 *     of an update) by halving the largest ones, so that no sample comes twice. Only where every
 *     batch is a single sample are some repeated.
 * (3) W neighbours of the list are one step of W ranks: they are about equally large, so no rank
 *     waits for another one's large batch. An epoch shuffles the steps, and turns the ranks
 *     inside each of them.
 */
#include "data/order.h"

#include "base/alloc.h"
#include "base/random.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The rest of a bucket joins the next if that pads it by no more than this factor. */
#define JOIN_NUMERATOR   3
#define JOIN_DENOMINATOR 2

typedef struct bucket {
    int64_t first, n;    /* a stretch of `members`: its own samples */
    int64_t list;        /* where its list begins: what it takes over, and then its own */
    int64_t n_in, n_out; /* samples that it takes over, and that it hands on: the end of its list */
    int64_t out_at;      /* where in the list of bucket `next` these go */
    int next;
} bucket;

typedef struct batch {
    int64_t first, n; /* a stretch of the lists */
    int kind;
} batch;

typedef struct bucketed {
    gr_order_source base;
    gr_bucket_config c;
    bucket *buckets;                /* owned: one for each size */
    int64_t *members;               /* owned: n_samples, by kind */
    int64_t *lists;                 /* owned: of an epoch, bucket after bucket */
    int64_t n_places;               /* in the lists */
    int64_t *places;                /* owned: a permutation of a bucket, or of the steps */
    batch *batches;                 /* owned */
    int64_t n_batches, cap_batches; /* of all ranks */
    gr_mt19937 random;
} bucketed;

/* ---- the cuts ---- */

static gr_status check(const gr_bucket_config *c)
{
    const gr_sizes *z = c->sizes;

    if (c->rank.n_ranks < 1 || c->rank.rank < 0 || c->rank.rank >= c->rank.n_ranks)
        return gr_fail(GR_ERR_ARG, "there is no rank %d among %d", c->rank.rank, c->rank.n_ranks);
    if (c->max_tokens < 0 || c->max_batch < 0 || (c->max_tokens == 0 && c->max_batch == 0))
        return gr_fail(GR_ERR_ARG, "batches of %" PRId64 " tokens and %" PRId64 " samples",
                       c->max_tokens, c->max_batch);
    if (!c->exact && z->n_samples < c->rank.n_ranks)
        return gr_fail(GR_ERR_ARG, "%" PRId64 " samples are none for some of %d ranks",
                       z->n_samples, c->rank.n_ranks);
    for (int64_t i = 0; i < z->n_samples && c->max_tokens > 0 && !c->exact; i++)
        if (z->tokens[z->kind[i]] > c->max_tokens)
            return gr_fail(GR_ERR_ARG,
                           "sample %" PRId64 " is padded to %" PRId64 " tokens, and a batch holds "
                           "%" PRId64 ": raise the budget or leave the sample out",
                           i, z->tokens[z->kind[i]], c->max_tokens);
    return GR_OK;
}

/* Samples by kind, in their order. */
static void sort_members(bucketed *s)
{
    const gr_sizes *z = s->c.sizes;

    for (int64_t i = 0; i < z->n_samples; i++)
        s->buckets[z->kind[i]].n++;
    for (int k = 1; k < z->n_sizes; k++)
        s->buckets[k].first = s->buckets[k - 1].first + s->buckets[k - 1].n;
    for (int k = 0; k < z->n_sizes; k++)
        s->buckets[k].n = 0;
    for (int64_t i = 0; i < z->n_samples; i++) {
        bucket *b = &s->buckets[z->kind[i]];

        s->members[b->first + b->n++] = i;
    }
}

static int64_t batch_cap(const bucketed *s, int k)
{
    int64_t cap = s->c.max_tokens > 0 ? s->c.max_tokens / s->c.sizes->tokens[k] : s->c.max_batch;

    if (s->c.exact && cap < 1)
        return 1;
    return s->c.max_batch > 0 && cap > s->c.max_batch ? s->c.max_batch : cap;
}

static bool covers(const gr_sizes *z, int k, int other)
{
    for (int a = 0; a < z->n_axes; a++)
        if (z->size[other * z->n_axes + a] > z->size[k * z->n_axes + a])
            return false;
    return true;
}

/* Where the rest of bucket k goes; -1: it is a batch of its own. */
static int next_bucket(const bucketed *s, int k)
{
    const gr_sizes *z = s->c.sizes;

    for (int next = k + 1; next < z->n_sizes; next++) {
        bool is_near = z->tokens[next] / JOIN_NUMERATOR <= z->tokens[k] / JOIN_DENOMINATOR &&
                       z->tokens[next] * JOIN_DENOMINATOR <= z->tokens[k] * JOIN_NUMERATOR;

        if (!is_near)
            return -1;
        if (s->buckets[next].n + s->buckets[next].n_in > 0 && covers(z, next, k))
            return next;
    }
    return -1;
}

static gr_status add_batch(bucketed *s, batch what)
{
    if (s->n_batches == s->cap_batches) {
        int64_t cap = s->cap_batches < 64 ? 64 : 2 * s->cap_batches;
        batch *more = gr_realloc(s->batches, (size_t)cap * sizeof(*more));

        if (!more)
            return GR_ERR_NOMEM;
        s->batches = more;
        s->cap_batches = cap;
    }
    s->batches[s->n_batches++] = what;
    return GR_OK;
}

/* Batches of bucket k; how many samples are left. */
static gr_status cut_bucket(bucketed *s, int k, int64_t *left)
{
    const bucket *b = &s->buckets[k];
    int64_t n = b->n_in + b->n, cap = batch_cap(s, k), at = 0;

    for (; n - at >= cap; at += cap)
        GR_TRY(add_batch(s, (batch){ .first = b->list + at, .n = cap, .kind = k }));
    *left = n - at;
    return GR_OK;
}

static gr_status cut(bucketed *s)
{
    for (int k = 0; k < s->c.sizes->n_sizes; k++) {
        bucket *b = &s->buckets[k];
        int next = next_bucket(s, k);
        int64_t left;

        b->list = s->n_places;
        s->n_places += b->n_in + b->n;
        GR_TRY(cut_bucket(s, k, &left));
        if (left > 0 && next < 0)
            GR_TRY(add_batch(s, (batch){ .first = s->n_places - left, .n = left, .kind = k }));
        if (left > 0 && next >= 0) {
            b->n_out = left;
            b->next = next;
            b->out_at = s->buckets[next].n_in;
            s->buckets[next].n_in += left;
        }
    }
    return GR_OK;
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
static gr_status insert_behind(bucketed *s, int64_t b, batch what)
{
    GR_TRY(add_batch(s, what));
    memmove(&s->batches[b + 2], &s->batches[b + 1],
            (size_t)(s->n_batches - b - 2) * sizeof(*s->batches));
    s->batches[b + 1] = what;
    return GR_OK;
}

static gr_status even_out(bucketed *s)
{
    int64_t parts = s->c.rank.n_ranks * (s->c.multiple > 0 ? s->c.multiple : 1);

    while (s->n_batches % parts != 0) {
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
        GR_TRY(insert_behind(s, b, second));
    }
    return GR_OK;
}

/* ---- an epoch ---- */

static void fill_lists(bucketed *s)
{
    bool is_random = !s->c.exact && !s->c.in_order;

    for (int k = 0; k < s->c.sizes->n_sizes; k++) {
        const bucket *b = &s->buckets[k];
        int64_t *own = s->lists + b->list + b->n_in;

        if (is_random && b->n > 0)
            gr_mt_randperm(&s->random, s->places, b->n);
        for (int64_t i = 0; i < b->n; i++)
            own[i] = s->members[b->first + (is_random ? s->places[i] : i)];
        if (b->n_out > 0)
            memcpy(s->lists + s->buckets[b->next].list + b->out_at, own + b->n - b->n_out,
                   (size_t)b->n_out * sizeof(*s->lists));
    }
}

static void append(const bucketed *s, const batch *b, int64_t n_all, gr_order *out)
{
    memcpy(out->index + out->n_samples, s->lists + b->first, (size_t)b->n * sizeof(*out->index));
    out->first[out->n_batches] = out->n_samples;
    out->n_all[out->n_batches] = n_all;
    out->size[out->n_batches++] = b->kind;
    out->n_samples += b->n;
    out->first[out->n_batches] = out->n_samples;
}

static void deal_steps(bucketed *s, gr_order *out)
{
    int64_t n_ranks = s->c.rank.n_ranks, n_steps = s->n_batches / n_ranks;

    if (!s->c.in_order)
        gr_mt_randperm(&s->random, s->places, n_steps);
    for (int64_t i = 0; i < n_steps; i++) {
        int64_t turn = s->c.in_order ? 0 : (int64_t)gr_mt_u32(&s->random), n_all = 0;
        int64_t turned = (s->c.rank.rank + turn) % n_ranks;
        const batch *step = &s->batches[(s->c.in_order ? i : s->places[i]) * n_ranks];

        for (int64_t r = 0; r < n_ranks; r++)
            n_all += step[r].n;
        append(s, &step[turned], n_all, out);
    }
}

static gr_status bucketed_fill(gr_order_source *base, int64_t epoch, gr_order *out)
{
    bucketed *s = (bucketed *)base;

    GR_TRY(gr_order_reserve(out, base->n_samples, base->n_batches));
    out->n_samples = out->n_batches = 0;
    out->first[0] = 0;
    gr_mt_seed(&s->random, s->c.seed + (uint64_t)epoch);
    fill_lists(s);
    if (!s->c.exact)
        deal_steps(s, out);
    for (int64_t b = s->c.rank.rank; s->c.exact && b < s->n_batches; b += s->c.rank.n_ranks)
        append(s, &s->batches[b], s->batches[b].n, out);
    return GR_OK;
}

/* ---- life ---- */

/* Whether a batch before b has the same shape; of this rank alone if it keeps its own. */
static bool is_known(const bucketed *s, int64_t b, int64_t from, int64_t by)
{
    for (int64_t i = b - by; i >= from && s->batches[i].kind == s->batches[b].kind; i -= by)
        if (s->batches[i].n == s->batches[b].n)
            return true;
    return false;
}

static gr_status bucketed_shapes(const gr_order_source *base, gr_order_shape_fn *fn, void *arg)
{
    const bucketed *s = (const bucketed *)base;
    int64_t from = s->c.exact ? s->c.rank.rank : 0, by = s->c.exact ? s->c.rank.n_ranks : 1;

    for (int k = 0; k < base->sizes->n_sizes; k++)
        if (base->max_of[k] > 0)
            GR_TRY(fn(arg, base->max_of[k], k));
    for (int64_t b = from; b < s->n_batches; b += by)
        if (s->batches[b].n < base->max_of[s->batches[b].kind] && !is_known(s, b, from, by))
            GR_TRY(fn(arg, s->batches[b].n, s->batches[b].kind));
    return GR_OK;
}

static void bucketed_destroy(gr_order_source *base)
{
    bucketed *s = (bucketed *)base;

    gr_free(s->buckets);
    gr_free(s->members);
    gr_free(s->lists);
    gr_free(s->places);
    gr_free(s->batches);
    gr_free(base->max_of);
    gr_free(s);
}

static const gr_order_source_ops bucketed_ops = {
    .name = "bucketed",
    .fill = bucketed_fill,
    .shapes = bucketed_shapes,
    .destroy = bucketed_destroy,
};

/* For training any rank may get any batch of a step, and at most the largest of each; else the
 * batches are dealt out. */
static void count(bucketed *s)
{
    int64_t n_ranks = s->c.rank.n_ranks, most = 0;
    gr_order_source *base = &s->base;

    for (int64_t b = 0; b < s->n_batches; b++) {
        const batch *x = &s->batches[b];

        if (s->c.exact && b % n_ranks != s->c.rank.rank)
            continue;
        if (x->n > base->max_batch)
            base->max_batch = x->n;
        if (x->n > base->max_of[x->kind])
            base->max_of[x->kind] = x->n;
        most = s->c.exact || b % n_ranks == 0 || x->n > most ? x->n : most;
        if (s->c.exact || (b + 1) % n_ranks == 0)
            base->n_samples += most;
    }
    base->fewest = base->n_batches = s->n_batches / n_ranks;
    if (s->n_batches % n_ranks > s->c.rank.rank)
        base->n_batches++;
}

static gr_status make(bucketed *s)
{
    size_t n = (size_t)s->c.sizes->n_samples, n_sizes = (size_t)s->c.sizes->n_sizes;

    s->buckets = gr_calloc(n_sizes + 1, sizeof(*s->buckets));
    s->members = gr_calloc(n + 1, sizeof(*s->members));
    s->base.max_of = gr_calloc(n_sizes + 1, sizeof(*s->base.max_of));
    if (!s->buckets || !s->members || !s->base.max_of)
        return GR_ERR_NOMEM;
    sort_members(s);
    GR_TRY(cut(s));
    if (!s->c.exact)
        GR_TRY(even_out(s));
    count(s);
    s->lists = gr_calloc((size_t)s->n_places + 1, sizeof(*s->lists));
    s->places = gr_calloc((size_t)(s->n_places + s->n_batches) + 1, sizeof(*s->places));
    return s->lists && s->places ? GR_OK : GR_ERR_NOMEM;
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
    s->base.sizes = config->sizes;
    s->c = *config;
    st = make(s);
    if (st != GR_OK) {
        bucketed_destroy(&s->base);
        return st;
    }
    *out = &s->base;
    return GR_OK;
}

/* Orders: exact shards (P36), weights, buckets with a token budget (P21). */
#include "data/order.h"

#include "alloc_fail.h"
#include "base/random.h"
#include "check.h"
#include "data/sampler.h"

/* ---- exact ---- */

static void test_exact(void)
{
    for (int n_ranks = 1; n_ranks <= 5; n_ranks++)
        for (int64_t n = 0; n < 40; n++) {
            int seen[40] = { 0 };

            for (int r = 0; r < n_ranks; r++) {
                gr_order o = { 0 };
                gr_order_source *s;

                GR_CHECK_OK(gr_order_exact(&s, n, (gr_rank){ r, n_ranks }, 3));
                GR_CHECK_OK(s->ops->fill(s, 5, &o));
                GR_CHECK_EQ(o.n_samples, s->n_samples);
                GR_CHECK_EQ(o.n_batches, s->n_batches);
                GR_CHECK_EQ(o.n_batches, (o.n_samples + 2) / 3);
                for (int64_t i = 0; i < o.n_samples; i++) {
                    GR_CHECK_EQ(o.index[i], r + i * n_ranks); /* so results go back in order */
                    seen[o.index[i]]++;
                }
                gr_order_fini(&o);
                gr_order_source_destroy(s);
            }
            for (int64_t i = 0; i < n; i++)
                GR_CHECK_EQ(seen[i], 1);
        }
}

static void test_exact_arguments(void)
{
    gr_order_source *s;

    GR_CHECK_FAILS(gr_order_exact(&s, 5, (gr_rank){ 0, 0 }, 1), GR_ERR_ARG, "no rank 0 among 0");
    GR_CHECK_FAILS(gr_order_exact(&s, 5, (gr_rank){ 0, 1 }, 0), GR_ERR_ARG, "batch of 0");
    GR_CHECK_FAILS(gr_order_exact(&s, -1, (gr_rank){ 0, 1 }, 1), GR_ERR_ARG, "-1 samples");
}

/* ---- shuffled ---- */

static void test_shuffled(void)
{
    gr_sampler_config c = { .n_samples = 10, .rank = 1, .n_ranks = 4 };
    static const int64_t epoch1[3] = { 6, 8, 4 }; /* of torch's DistributedSampler */
    gr_order o = { 0 };
    gr_order_source *s;

    GR_CHECK_OK(gr_order_shuffled(&s, &c, (gr_batch_cut){ 2, false }));
    GR_CHECK_OK(s->ops->fill(s, 1, &o));
    GR_CHECK_EQ(o.n_batches, 2);
    GR_CHECK_EQ(o.first[1], 2);
    GR_CHECK_EQ(o.first[2], 3);
    for (int i = 0; i < 3; i++)
        GR_CHECK_EQ(o.index[i], epoch1[i]);
    gr_order_source_destroy(s);
    GR_CHECK_OK(gr_order_shuffled(&s, &c, (gr_batch_cut){ 2, true }));
    GR_CHECK_OK(s->ops->fill(s, 1, &o));
    GR_CHECK_EQ(o.n_batches, 1);
    GR_CHECK_EQ(o.n_samples, 2);
    gr_order_source_destroy(s);
    gr_order_fini(&o);
}

/* ---- weighted ---- */

/* list(WeightedRandomSampler([0.1, 0.4, 0, 2, 1.5, 0.25], 10, generator=g)), g seeded with 7
 * and 8: what 3 ranks share in epochs 0 and 1 with seed 7. */
static const int64_t weighted_7[10] = { 3, 3, 4, 4, 4, 4, 3, 3, 4, 4 };
static const int64_t weighted_8[10] = { 4, 3, 1, 3, 4, 3, 4, 0, 3, 4 };

static void test_weighted(void)
{
    static const double weights[6] = { 0.1, 0.4, 0, 2, 1.5, 0.25 };

    for (int r = 0; r < 3; r++)
        for (int epoch = 0; epoch < 2; epoch++) {
            gr_weighted_config c = { .weights = weights,
                                     .n_samples = 6,
                                     .n_draws = 10,
                                     .seed = 7,
                                     .rank = { r, 3 },
                                     .cut = { 3, false } };
            const int64_t *want = epoch ? weighted_8 : weighted_7;
            gr_order o = { 0 };
            gr_order_source *s;

            GR_CHECK_OK(gr_order_weighted(&s, &c));
            GR_CHECK_EQ(s->n_samples, 4);
            GR_CHECK_EQ(s->n_batches, 2);
            GR_CHECK_OK(s->ops->fill(s, epoch, &o));
            for (int64_t i = 0; i < 4; i++)
                GR_CHECK_EQ(o.index[i], want[(i * 3 + r) % 10]);
            gr_order_fini(&o);
            gr_order_source_destroy(s);
        }
}

static void test_weighted_arguments(void)
{
    static const double none[2] = { 0, 0 }, negative[2] = { 1, -1 };
    gr_weighted_config c = {
        .weights = none, .n_samples = 2, .rank = { 0, 1 }, .cut = { 1, false }
    };
    gr_order_source *s;

    GR_CHECK_FAILS(gr_order_weighted(&s, &c), GR_ERR_ARG, "add up to 0");
    c.weights = negative;
    GR_CHECK_FAILS(gr_order_weighted(&s, &c), GR_ERR_ARG, "weight of sample 1 is -1");
}

/* ---- listed ---- */

/* In order, from the end in odd epochs; epoch 8 fails and epoch 9 is wrong. */
static gr_status list_turned(void *arg, int64_t epoch, int64_t *index)
{
    int64_t n = *(const int64_t *)arg;

    for (int64_t i = 0; i < n; i++)
        index[i] = epoch % 2 ? n - 1 - i : i;
    if (epoch == 9)
        index[4] = n;
    return epoch == 8 ? gr_fail(GR_ERR_IO, "no list") : GR_OK;
}

static void test_listed(void)
{
    int64_t n = 10;

    for (int r = 0; r < 3; r++)
        for (int64_t epoch = 0; epoch < 2; epoch++) {
            gr_listed_config c = { .list = list_turned,
                                   .arg = &n,
                                   .n_samples = n,
                                   .rank = { r, 3 },
                                   .cut = { 3, false } };
            gr_order o = { 0 };
            gr_order_source *s;

            GR_CHECK_OK(gr_order_listed(&s, &c));
            GR_CHECK_EQ(s->n_samples, 4);
            GR_CHECK_EQ(s->last_batch, 1);
            GR_CHECK_OK(s->ops->fill(s, epoch, &o));
            GR_CHECK_EQ(o.n_all[1], 3);
            for (int64_t i = 0; i < 4; i++) {
                int64_t place = (i * 3 + r) % n; /* the head again, for as many on each rank */

                GR_CHECK_EQ(o.index[i], epoch ? n - 1 - place : place);
            }
            GR_CHECK_FAILS(s->ops->fill(s, 8, &o), GR_ERR_IO, "no list");
            GR_CHECK_FAILS(s->ops->fill(s, 9, &o), GR_ERR_ARG,
                           "place 4 holds sample 10, and there are 10");
            gr_order_fini(&o);
            gr_order_source_destroy(s);
        }
}

/* ---- buckets ---- */

#define N_MAX 500

/* Lengths on one axis, or on two that go together roughly. */
static gr_sizes *make_sizes(int64_t n, int n_axes, uint64_t seed, const gr_sizes_limits *limits)
{
    static const gr_axis axes[2] = { { .name = "words", .multiple = 32, .cost = 1 },
                                     { .name = "lines", .multiple = 4, .cost = 2.5 } };
    gr_sizes *sizes;
    gr_mt19937 r;

    gr_mt_seed(&r, seed);
    GR_CHECK_OK(gr_sizes_create(&sizes, axes, n_axes, n));
    for (int64_t i = 0; i < n; i++) {
        int64_t length[2];

        length[0] = 1 + (int64_t)(gr_mt_u32(&r) % 30) * (int64_t)(gr_mt_u32(&r) % 30);
        length[1] = length[0] / 20 + (int64_t)(gr_mt_u32(&r) % 6);
        GR_CHECK_OK(gr_sizes_set(sizes, i, length));
    }
    GR_CHECK_OK(gr_sizes_choose(sizes, limits));
    return sizes;
}

typedef struct found {
    int seen[N_MAX];
    int64_t n_batches, padded;
    int64_t n_all; /* of the first batches of all ranks */
    uint64_t hash; /* of the order */
} found;

typedef struct shapes {
    int64_t n[64];
    int k[64], count;
} shapes;

static gr_status add_shape(void *arg, int64_t n, int k)
{
    shapes *x = arg;

    GR_CHECK(x->count < 64);
    for (int i = 0; i < x->count; i++)
        GR_CHECK(x->n[i] != n || x->k[i] != k); /* each once */
    x->n[x->count] = n;
    x->k[x->count++] = k;
    return GR_OK;
}

static void check_batch(const gr_bucket_config *c, const gr_order_source *s, const gr_order *o,
                        int64_t b)
{
    int64_t n = o->first[b + 1] - o->first[b];
    int k = (int)o->size[b];

    GR_CHECK(n > 0 && n <= s->max_batch && n <= s->max_of[k]);
    GR_CHECK(c->max_tokens == 0 || n * c->sizes->tokens[k] <= c->max_tokens);
    GR_CHECK(c->max_batch == 0 || n <= c->max_batch);
    for (int64_t i = o->first[b]; i < o->first[b + 1]; i++)
        GR_CHECK(gr_sizes_holds(c->sizes, k, o->index[i]));
}

static void check_rank(const gr_bucket_config *c, int64_t epoch, found *f)
{
    gr_order o = { 0 };
    gr_order_source *s;
    shapes x = { .count = 0 };

    GR_CHECK_OK(gr_order_bucketed(&s, c));
    GR_CHECK_OK(s->ops->fill(s, epoch, &o));
    GR_CHECK_OK(gr_order_shapes(s, add_shape, &x));
    GR_CHECK_EQ(o.n_batches, s->n_batches);
    GR_CHECK(o.n_samples <= s->n_samples && s->fewest <= s->n_batches);
    GR_CHECK(!c->exact || o.n_samples == s->n_samples);
    for (int64_t b = 0; b < o.n_batches; b++) {
        bool is_told = false;

        check_batch(c, s, &o, b);
        for (int i = 0; i < x.count; i++)
            is_told = is_told || (x.n[i] == o.first[b + 1] - o.first[b] && x.k[i] == o.size[b]);
        GR_CHECK(is_told);
        for (int64_t i = o.first[b]; i < o.first[b + 1]; i++) {
            f->seen[o.index[i]]++;
            f->padded += c->sizes->tokens[o.size[b]];
            f->hash = f->hash * 31 + (uint64_t)o.index[i];
        }
    }
    f->n_batches = o.n_batches;
    f->n_all += o.n_batches > 0 ? o.first[1] - o.first[0] : 0;
    GR_CHECK(c->exact || c->rank.rank < c->rank.n_ranks - 1 || o.n_all[0] == f->n_all);
    gr_order_fini(&o);
    gr_order_source_destroy(s);
}

static found check_epoch(gr_bucket_config c, int n_ranks, int64_t epoch)
{
    found f = { 0 };
    int64_t n_batches = -1;

    for (int r = 0; r < n_ranks; r++) {
        c.rank = (gr_rank){ r, n_ranks };
        check_rank(&c, epoch, &f);
        GR_CHECK(n_batches < 0 || n_batches == f.n_batches); /* on every rank (P3) */
        n_batches = f.n_batches;
    }
    for (int64_t i = 0; i < c.sizes->n_samples; i++)
        GR_CHECK_EQ(f.seen[i], 1);
    return f;
}

static void test_buckets(void)
{
    gr_sizes_limits limits = { .max_tokens = 2048 };

    for (int n_ranks = 1; n_ranks <= 4; n_ranks++)
        for (int64_t n = 40; n <= N_MAX; n += 150)
            for (int n_axes = 1; n_axes <= 2; n_axes++) {
                gr_sizes *sizes = make_sizes(n, n_axes, (uint64_t)n, &limits);
                gr_bucket_config c = { .sizes = sizes, .max_tokens = 2048, .seed = 1 };
                found a = check_epoch(c, n_ranks, 0), b = check_epoch(c, n_ranks, 1),
                      again = check_epoch(c, n_ranks, 0);

                GR_CHECK_EQ(a.n_batches, b.n_batches);
                GR_CHECK(a.hash != b.hash && a.hash == again.hash);
                /* What is left of a bucket joins the next one: not much more padding for that. */
                GR_CHECK(n < 300 || a.padded * 10 < gr_sizes_total(sizes) * 11);
                c.max_batch = 5;
                c.multiple = 3;
                GR_CHECK_EQ(check_epoch(c, n_ranks, 3).n_batches % 3, 0);
                c.max_tokens = 0;
                check_epoch(c, n_ranks, 3);
                gr_sizes_destroy(sizes);
            }
}

/* All ranks of a step have about as many tokens in a sample: nobody waits for a long batch. */
static void test_bucket_balance(void)
{
    gr_sizes *sizes = make_sizes(N_MAX, 2, 9, &(gr_sizes_limits){ 0 });
    gr_order o[2] = { { 0 }, { 0 } };
    int64_t n_far = 0;

    for (int r = 0; r < 2; r++) {
        gr_bucket_config c = { .sizes = sizes, .max_tokens = 1024, .rank = { r, 2 } };
        gr_order_source *s;

        GR_CHECK_OK(gr_order_bucketed(&s, &c));
        GR_CHECK_OK(s->ops->fill(s, 4, &o[r]));
        gr_order_source_destroy(s);
    }
    for (int64_t b = 0; b < o[0].n_batches; b++) {
        GR_CHECK(llabs(o[0].size[b] - o[1].size[b]) <= 1);
        GR_CHECK_EQ(o[0].n_all[b], o[1].n_all[b]);
        n_far += o[0].size[b] != o[1].size[b];
    }
    GR_CHECK(n_far <= sizes->n_sizes);
    gr_order_fini(&o[0]);
    gr_order_fini(&o[1]);
    gr_sizes_destroy(sizes);
}

static gr_sizes *sizes_of(const int64_t *lengths, int64_t n, int64_t multiple)
{
    gr_axis axis = { .name = "words", .multiple = multiple };
    gr_sizes *sizes;

    GR_CHECK_OK(gr_sizes_create(&sizes, &axis, 1, n));
    for (int64_t i = 0; i < n; i++)
        GR_CHECK_OK(gr_sizes_set(sizes, i, &lengths[i]));
    GR_CHECK_OK(gr_sizes_choose(sizes, &(gr_sizes_limits){ 0 }));
    return sizes;
}

/* Of single samples some are repeated: each rank has as many. */
static void test_bucket_singles(void)
{
    static const int64_t lengths[5] = { 100, 90, 80, 100, 70 };
    gr_sizes *sizes = sizes_of(lengths, 5, 50);
    found f = { 0 };
    int64_t n = 0;

    for (int r = 0; r < 4; r++) {
        gr_bucket_config c = { .sizes = sizes, .max_tokens = 100, .rank = { r, 4 } };

        check_rank(&c, 0, &f);
        GR_CHECK_EQ(f.n_batches, 2);
    }
    for (int i = 0; i < 5; i++) {
        GR_CHECK(f.seen[i] >= 1);
        n += f.seen[i];
    }
    GR_CHECK_EQ(n, 8);
    gr_sizes_destroy(sizes);
}

static void test_bucket_exact(void)
{
    gr_sizes *sizes = make_sizes(77, 2, 2, &(gr_sizes_limits){ .max_tokens = 1500 });
    found f = { 0 };
    gr_order o = { 0 };

    for (int r = 0; r < 3; r++) {
        gr_bucket_config c = {
            .sizes = sizes, .max_tokens = 1500, .exact = true, .rank = { r, 3 }
        };
        gr_order_source *s;

        check_rank(&c, 0, &f);
        GR_CHECK_OK(gr_order_bucketed(&s, &c));
        GR_CHECK_OK(s->ops->fill(s, 0, &o));
        for (int64_t b = 1; b < o.n_batches; b++)
            GR_CHECK(o.size[b] >= o.size[b - 1]);
        gr_order_source_destroy(s);
    }
    for (int i = 0; i < 77; i++)
        GR_CHECK_EQ(f.seen[i], 1);
    gr_order_fini(&o);
    gr_sizes_destroy(sizes);
}

static void test_bucket_arguments(void)
{
    static const int64_t lengths[3] = { 5, 2000, 7 };
    gr_sizes *sizes = sizes_of(lengths, 3, 10);
    gr_bucket_config c = { .sizes = sizes, .max_tokens = 1024, .rank = { 0, 1 } };
    gr_order_source *s;

    GR_CHECK_FAILS(gr_order_bucketed(&s, &c), GR_ERR_ARG,
                   "sample 1 is padded to 2000 tokens, and a batch holds 1024");
    c.max_tokens = 0;
    GR_CHECK_FAILS(gr_order_bucketed(&s, &c), GR_ERR_ARG, "batches of 0 tokens and 0 samples");
    c.max_tokens = 4000;
    c.rank.n_ranks = 4;
    GR_CHECK_FAILS(gr_order_bucketed(&s, &c), GR_ERR_ARG, "3 samples are none for some of 4");
    gr_sizes_destroy(sizes);
}

/* ---- padded ---- */

/* Batches by chance: the same samples as without lengths, each batch at the first size that holds
 * it, and shapes for whatever may come. */
static void test_padded(void)
{
    gr_sizes *sizes = make_sizes(103, 2, 5, &(gr_sizes_limits){ .most = 4, .whole = true });
    gr_sampler_config c = { .n_samples = 103, .rank = 1, .n_ranks = 2, .seed = 3 };
    gr_order_source *s, *plain;
    gr_order o = { 0 }, want = { 0 };
    shapes x = { .count = 0 };

    GR_CHECK_OK(gr_order_shuffled(&plain, &c, (gr_batch_cut){ 3, false }));
    GR_CHECK_OK(plain->ops->fill(plain, 2, &want));
    GR_CHECK_OK(gr_order_padded(&s, plain, sizes));
    GR_CHECK_OK(s->ops->fill(s, 2, &o));
    GR_CHECK_OK(gr_order_shapes(s, add_shape, &x));
    GR_CHECK_EQ(x.count, 2 * sizes->n_sizes); /* 52 samples are 17 batches and one sample */
    GR_CHECK_EQ(o.n_batches, want.n_batches);
    for (int64_t b = 0; b < o.n_batches; b++) {
        int first = 0;

        for (int64_t i = o.first[b]; i < o.first[b + 1]; i++)
            GR_CHECK_EQ(o.index[i], want.index[i]);
        for (int64_t i = o.first[b]; i < o.first[b + 1]; i++)
            while (!gr_sizes_holds(sizes, first, o.index[i])) {
                first++;
                i = o.first[b];
            }
        GR_CHECK_EQ(o.size[b], first);
        GR_CHECK_EQ(o.n_all[b], 2 * (o.first[b + 1] - o.first[b]));
    }
    gr_order_fini(&o);
    gr_order_fini(&want);
    gr_order_source_destroy(s);
    gr_sizes_destroy(sizes);
}

static gr_status whole_life(void *arg)
{
    gr_bucket_config c = { .sizes = arg, .max_tokens = 1800, .rank = { 0, 2 } };
    gr_order o = { 0 };
    gr_order_source *s;
    gr_status st;

    GR_TRY(gr_order_bucketed(&s, &c));
    st = s->ops->fill(s, 0, &o);
    gr_order_fini(&o);
    gr_order_source_destroy(s);
    return st;
}

int main(void)
{
    gr_sizes *sizes = make_sizes(20, 2, 3, &(gr_sizes_limits){ 0 });

    test_exact();
    test_exact_arguments();
    test_shuffled();
    test_weighted();
    test_weighted_arguments();
    test_listed();
    test_buckets();
    test_bucket_balance();
    test_bucket_singles();
    test_bucket_exact();
    test_bucket_arguments();
    test_padded();
    GR_CHECK(gr_alloc_fail_each(whole_life, sizes) > 4);
    gr_sizes_destroy(sizes);
    return 0;
}

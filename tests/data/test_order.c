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

/* ---- buckets ---- */

#define N_MAX 500

typedef struct found {
    int seen[N_MAX];
    int64_t n_batches, total, padded;
    uint64_t hash; /* of the order */
} found;

static void check_rank(const gr_bucket_config *c, const int64_t *lengths, int64_t epoch, found *f)
{
    gr_order o = { 0 };
    gr_order_source *s;

    GR_CHECK_OK(gr_order_bucketed(&s, c));
    GR_CHECK_OK(s->ops->fill(s, epoch, &o));
    GR_CHECK_EQ(o.n_batches, s->n_batches);
    GR_CHECK(o.n_samples <= s->n_samples);
    for (int64_t b = 0; b < o.n_batches; b++) {
        int64_t n = o.first[b + 1] - o.first[b];

        GR_CHECK(n > 0 && n <= s->max_batch);
        GR_CHECK(n * o.length[b] <= c->max_tokens);
        GR_CHECK(n * o.length[b] <= s->max_tokens);
        GR_CHECK(c->max_batch == 0 || n <= c->max_batch);
        GR_CHECK(o.length[b] % c->round_to == 0 || o.length[b] == c->max_tokens);
        for (int64_t i = o.first[b]; i < o.first[b + 1]; i++) {
            GR_CHECK(lengths[o.index[i]] <= o.length[b]);
            f->seen[o.index[i]]++;
            f->total += lengths[o.index[i]];
            f->padded += o.length[b];
            f->hash = f->hash * 31 + (uint64_t)o.index[i];
        }
    }
    f->n_batches = o.n_batches;
    gr_order_fini(&o);
    gr_order_source_destroy(s);
}

static void make_lengths(int64_t *lengths, int64_t n, uint64_t seed)
{
    gr_mt19937 r;

    gr_mt_seed(&r, seed);
    for (int64_t i = 0; i < n; i++)
        lengths[i] = 1 + (int64_t)(gr_mt_u32(&r) % 30) * (int64_t)(gr_mt_u32(&r) % 30);
}

static found check_epoch(gr_bucket_config c, const int64_t *lengths, int n_ranks, int64_t epoch)
{
    found f = { 0 };
    int64_t n_batches = -1;

    for (int r = 0; r < n_ranks; r++) {
        c.rank = (gr_rank){ r, n_ranks };
        check_rank(&c, lengths, epoch, &f);
        GR_CHECK(n_batches < 0 || n_batches == f.n_batches); /* on every rank (P3) */
        n_batches = f.n_batches;
    }
    for (int64_t i = 0; i < c.n_samples; i++)
        GR_CHECK_EQ(f.seen[i], 1);
    return f;
}

static void test_buckets(void)
{
    int64_t lengths[N_MAX];

    for (int n_ranks = 1; n_ranks <= 4; n_ranks++)
        for (int64_t n = 20; n <= N_MAX; n += 160) {
            gr_bucket_config c = {
                .lengths = lengths, .n_samples = n, .max_tokens = 2048, .round_to = 32, .seed = 1
            };
            found a, b, again;

            make_lengths(lengths, n, (uint64_t)n);
            a = check_epoch(c, lengths, n_ranks, 0);
            b = check_epoch(c, lengths, n_ranks, 1);
            again = check_epoch(c, lengths, n_ranks, 0);
            GR_CHECK_EQ(a.n_batches, b.n_batches);
            GR_CHECK(a.hash != b.hash && a.hash == again.hash);
            GR_CHECK(n < 300 || (double)a.padded < 1.35 * (double)a.total);
            c.max_batch = 5;
            check_epoch(c, lengths, n_ranks, 3);
        }
}

/* All ranks of a step have about the same length: nobody waits for a long batch. */
static void test_bucket_balance(void)
{
    int64_t lengths[N_MAX];
    gr_order o[2] = { { 0 }, { 0 } };

    make_lengths(lengths, N_MAX, 9);
    for (int r = 0; r < 2; r++) {
        gr_bucket_config c = { .lengths = lengths,
                               .n_samples = N_MAX,
                               .max_tokens = 1024,
                               .round_to = 32,
                               .rank = { r, 2 } };
        gr_order_source *s;

        GR_CHECK_OK(gr_order_bucketed(&s, &c));
        GR_CHECK_OK(s->ops->fill(s, 4, &o[r]));
        gr_order_source_destroy(s);
    }
    for (int64_t b = 0; b < o[0].n_batches; b++)
        GR_CHECK(llabs(o[0].length[b] - o[1].length[b]) <= 96);
    gr_order_fini(&o[0]);
    gr_order_fini(&o[1]);
}

/* Of single samples some are repeated: each rank has as many. */
static void test_bucket_singles(void)
{
    static const int64_t lengths[5] = { 100, 90, 80, 100, 70 };
    found f = { 0 };
    int64_t n = 0;

    for (int r = 0; r < 4; r++) {
        gr_bucket_config c = {
            .lengths = lengths, .n_samples = 5, .max_tokens = 100, .round_to = 64, .rank = { r, 4 }
        };

        check_rank(&c, lengths, 0, &f);
        GR_CHECK_EQ(f.n_batches, 2);
    }
    for (int i = 0; i < 5; i++) {
        GR_CHECK(f.seen[i] >= 1);
        n += f.seen[i];
    }
    GR_CHECK_EQ(n, 8);
}

static void test_bucket_exact(void)
{
    int64_t lengths[N_MAX];
    found f = { 0 };

    make_lengths(lengths, 77, 2);
    for (int r = 0; r < 3; r++) {
        gr_bucket_config c = { .lengths = lengths,
                               .n_samples = 77,
                               .max_tokens = 1500,
                               .round_to = 64,
                               .exact = true,
                               .rank = { r, 3 } };

        check_rank(&c, lengths, 0, &f);
    }
    for (int i = 0; i < 77; i++)
        GR_CHECK_EQ(f.seen[i], 1);
}

static void test_bucket_arguments(void)
{
    static const int64_t lengths[3] = { 5, 2000, 7 };
    gr_bucket_config c = {
        .lengths = lengths, .n_samples = 3, .max_tokens = 1024, .rank = { 0, 1 }
    };
    gr_order_source *s;

    GR_CHECK_FAILS(gr_order_bucketed(&s, &c), GR_ERR_ARG,
                   "sample 1 has length 2000, and a batch holds 1024 tokens");
    c.max_tokens = 0;
    GR_CHECK_FAILS(gr_order_bucketed(&s, &c), GR_ERR_ARG, "budget of 0 tokens");
    c.max_tokens = 4000;
    c.rank.n_ranks = 4;
    GR_CHECK_FAILS(gr_order_bucketed(&s, &c), GR_ERR_ARG, "3 samples are none for some of 4");
}

static gr_status whole_life(void *arg)
{
    int64_t lengths[20];
    gr_bucket_config c = {
        .lengths = lengths, .n_samples = 20, .max_tokens = 900, .rank = { 0, 2 }
    };
    gr_order o = { 0 };
    gr_order_source *s;
    gr_status st;

    (void)arg;
    make_lengths(lengths, 20, 3);
    GR_TRY(gr_order_bucketed(&s, &c));
    st = s->ops->fill(s, 0, &o);
    gr_order_fini(&o);
    gr_order_source_destroy(s);
    return st;
}

int main(void)
{
    test_exact();
    test_exact_arguments();
    test_shuffled();
    test_weighted();
    test_weighted_arguments();
    test_buckets();
    test_bucket_balance();
    test_bucket_singles();
    test_bucket_exact();
    test_bucket_arguments();
    GR_CHECK(gr_alloc_fail_each(whole_life, NULL) > 4);
    return 0;
}

/*
 * Batches of sequences through the public interface: on 1, 2 and 4 ranks as many steps on each
 * rank, every sample once, the budget kept (P3, P21); places in any order, other batches in
 * every epoch, and what is refused.
 */
#include "gradus/data.h"

#include "alloc_fail.h"

enum { N = 300, BUDGET = 700 };

static void make_lengths(int64_t *lengths)
{
    for (int i = 0; i < N; i++)
        lengths[i] = 1 + i * i * 7 % 211;
}

static void look_at_rank(gr_batches_config c, int64_t epoch, int *seen, int64_t *n_batches)
{
    gr_batches *b;
    gr_batch_view v;

    GR_CHECK_OK(gr_batches_create(&b, &c));
    GR_CHECK(*n_batches < 0 || *n_batches == gr_batches_count(b));
    *n_batches = gr_batches_count(b);
    for (int64_t i = *n_batches; i-- > 0;) { /* backwards: any order will do */
        GR_CHECK_OK(gr_batches_at(b, epoch, i, &v));
        GR_CHECK(v.n > 0 && v.n * v.length <= BUDGET);
        for (int64_t k = 0; k < v.n; k++) {
            GR_CHECK(c.lengths[v.index[k]] <= v.length);
            seen[v.index[k]]++;
        }
    }
    gr_batches_destroy(b);
}

static void test_ranks(void)
{
    int64_t lengths[N];

    make_lengths(lengths);
    for (int n_ranks = 1; n_ranks <= 4; n_ranks *= 2)
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            int64_t n_batches = -1;
            int seen[N] = { 0 };

            for (int r = 0; r < n_ranks; r++)
                look_at_rank((gr_batches_config){ .lengths = lengths,
                                                  .n_samples = N,
                                                  .max_tokens = BUDGET,
                                                  .round_to = 16,
                                                  .seed = 5,
                                                  .rank = r,
                                                  .n_ranks = n_ranks },
                             epoch, seen, &n_batches);
            for (int i = 0; i < N; i++)
                GR_CHECK_EQ(seen[i], 1);
        }
}

static int64_t first_of(gr_batches *b, int64_t epoch)
{
    gr_batch_view v;

    GR_CHECK_OK(gr_batches_at(b, epoch, 3, &v));
    return v.index[0] * 1000 + v.n;
}

static void test_places(void)
{
    gr_batches_config c = GR_BATCHES_CONFIG_INIT;
    int64_t lengths[N], was;
    gr_batch_view v;
    gr_batches *b;

    make_lengths(lengths);
    c.lengths = lengths;
    c.n_samples = N;
    c.max_tokens = BUDGET;
    GR_CHECK_OK(gr_batches_create(&b, &c));
    was = first_of(b, 2);
    GR_CHECK(first_of(b, 7) != was);
    GR_CHECK_EQ(first_of(b, 2), was);
    GR_CHECK_FAILS(gr_batches_at(b, 0, gr_batches_count(b), &v), GR_ERR_ARG, "there is no batch");
    GR_CHECK_FAILS(gr_batches_at(b, -1, 0, &v), GR_ERR_ARG, "of epoch -1");
    gr_batches_destroy(b);
    c.max_tokens = 100;
    GR_CHECK_FAILS(gr_batches_create(&b, &c), GR_ERR_ARG, "batches: sample ");
    c.max_tokens = BUDGET;
    c.n_samples = 2;
    c.n_ranks = 3;
    GR_CHECK_FAILS(gr_batches_create(&b, &c), GR_ERR_ARG, "2 samples are none for some of 3");
}

static gr_status whole_life(void *arg)
{
    gr_batches_config c = { .lengths = arg, .n_samples = N, .max_tokens = BUDGET, .n_ranks = 2 };
    gr_batch_view v;
    gr_batches *b;
    gr_status st;

    GR_TRY(gr_batches_create(&b, &c));
    st = gr_batches_at(b, 1, 0, &v);
    gr_batches_destroy(b);
    return st;
}

int main(void)
{
    int64_t lengths[N];

    test_ranks();
    test_places();
    make_lengths(lengths);
    GR_CHECK(gr_alloc_fail_each(whole_life, lengths) > 4);
    return 0;
}

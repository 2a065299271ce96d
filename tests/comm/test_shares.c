/*
 * Reduce-scatter and all-gather in the exchange space: a rank's share has the very bits that
 * an all-reduce gives it, on every transport; and gathered shares are everywhere the same. So they
 * have when threads of a rank help.
 */
#include "base/pool.h"
#include "check.h"
#include "comm/pg.h"
#include "comm/world.h"

#include <string.h>

#define LINE 16 /* elements */

typedef struct plan {
    size_t n_elem; /* of a bucket */
    int n_threads; /* of odd ranks; the others have one */
} plan;

/* Numbers whose sums depend on the order. */
static float number(int rank, size_t i, int round)
{
    uint32_t h = (uint32_t)i * 2654435761u ^ (uint32_t)(rank * 7919 + round * 104729);

    h ^= h >> 13;
    h *= 0x5bd1e995u;
    return (float)(int32_t)h * 0x1p-20f;
}

static void fill(float *mem, size_t n, int rank, int round)
{
    for (size_t i = 0; i < n; i++)
        mem[i] = number(rank, i, round);
}

/* The mean as the law has it: products and sums in rank order, each rounded. */
static void check_means(const float *mem, size_t n, int n_ranks, int round)
{
    const float scale = (float)(1.0 / n_ranks);

    for (size_t i = 0; i < n; i++) {
        float sum = number(0, i, round) * scale;

        for (int r = 1; r < n_ranks; r++) {
            float term = number(r, i, round) * scale;

            sum += term;
        }
        GR_CHECK(mem[i] == sum);
    }
}

static gr_status both_halves(gr_pg *pg, const gr_coll *c)
{
    GR_TRY(gr_pg_start(pg, c, NULL));
    GR_TRY(gr_pg_poll(pg));
    return gr_pg_finish(pg, c, NULL);
}

/* Two buckets, the second behind the first: one reduced whole, one by shares and gathered. */
static gr_status run_rounds(gr_pg *pg, const plan *p)
{
    size_t n = p->n_elem, share = n / (size_t)gr_pg_size(pg);
    gr_coll whole = { .id = 0, .label = "whole", .n_elem = n, .op = GR_REDUCE_AVG };
    gr_coll parted = { .id = 1, .label = "parted", .n_elem = n, .op = GR_REDUCE_AVG };
    gr_coll gathered = { .id = 2, .label = "gathered", .n_elem = n };
    void *base;
    float *a, *b;

    whole.dtype = parted.dtype = gathered.dtype = GR_F32;
    parted.kind = GR_CALL_REDUCE_SCATTER;
    gathered.kind = GR_CALL_ALLGATHER;
    parted.offset = gathered.offset = n * sizeof(float);
    GR_TRY(gr_pg_exchange(pg, NULL, 2 * n * sizeof(float), &base));
    a = (float *)base;
    b = a + n;
    for (int round = 0; round < 3; round++) {
        fill(a, n, gr_pg_rank(pg), round);
        memcpy(b, a, n * sizeof(float));
        GR_TRY(gr_pg_start(pg, &whole, NULL));
        GR_TRY(both_halves(pg, &parted));
        GR_TRY(gr_pg_finish(pg, &whole, NULL));
        check_means(a, n, gr_pg_size(pg), round);
        GR_CHECK(memcmp(a + (size_t)gr_pg_rank(pg) * share, b + (size_t)gr_pg_rank(pg) * share,
                        share * sizeof(float)) == 0);
        for (size_t i = 0; i < n; i++) /* what is not this rank's is not looked at */
            if (i / share != (size_t)gr_pg_rank(pg))
                b[i] = -1;
        GR_TRY(both_halves(pg, &gathered));
        GR_CHECK(memcmp(a, b, n * sizeof(float)) == 0);
    }
    return GR_OK;
}

static gr_status rank_main(gr_pg *pg, void *arg)
{
    const plan *p = (const plan *)arg;
    gr_status st;

    if (gr_pg_rank(pg) % 2 == 1)
        GR_CHECK_OK(gr_pool_create(&pg->pool, p->n_threads));
    st = run_rounds(pg, p);
    gr_pool_destroy(pg->pool);
    pg->pool = NULL;
    return st;
}

static gr_status uneven_main(gr_pg *pg, void *arg)
{
    gr_coll c = { .label = "odd", .n_elem = 100, .dtype = GR_F32, .kind = GR_CALL_ALLGATHER };
    void *base;

    (void)arg;
    GR_TRY(gr_pg_exchange(pg, NULL, 4096, &base));
    return gr_pg_start(pg, &c, NULL);
}

static void test_uneven_is_refused(void)
{
    gr_error e[3];

    world_try(3, 20000, uneven_main, NULL, e);
    for (int r = 0; r < 3; r++)
        GR_CHECK(e[r].status == GR_ERR_ARG || e[r].status == GR_ERR_PEER);
    GR_CHECK(strstr(e[0].text, "100 elements do not part evenly between 3 ranks") != NULL ||
             e[0].status == GR_ERR_PEER);
}

int main(void)
{
    static const char *const transports[] = { "shm", "tcp" };
    static const int ranks[] = { 1, 2, 3, 4 };
    static const size_t lines[] = { 1, 3, 700 };

    for (int t = 0; t < 2; t++) {
        world_transport(transports[t]);
        for (int r = 0; r < 4; r++)
            for (int l = 0; l < 3; l++) {
                plan p = { .n_elem = lines[l] * LINE * (size_t)ranks[r], .n_threads = 1 };

                world_run(ranks[r], rank_main, &p);
            }
    }
    world_transport("shm");
    for (int r = 1; r < 4; r++) { /* shares of 1.1 MB and a bit, which threads part */
        plan p = { .n_elem = (size_t)17001 * LINE * (size_t)ranks[r], .n_threads = 3 };

        world_run(ranks[r], rank_main, &p);
    }
    test_uneven_is_refused();
    return 0;
}

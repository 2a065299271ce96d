/* Several collectives in flight, broadcast, gather, barrier, groups used again and again. */
#include "check.h"
#include "comm/pg.h"
#include "comm/world.h"

#define N_BUCKETS 20
#define BUCKET    1000 /* elements */
#define STRIDE    4032 /* bytes: a multiple of 64 */

/* Finished in another order than started, polled between; ids start anew at each step. */
static gr_status in_flight(gr_pg *pg, void *arg)
{
    void *base;

    (void)arg;
    GR_TRY(gr_pg_exchange(pg, NULL, (size_t)N_BUCKETS * STRIDE, &base));
    for (int step = 0; step < 60; step++) {
        gr_coll c[N_BUCKETS];

        for (int b = 0; b < N_BUCKETS; b++) {
            float *x = (float *)((char *)base + (size_t)b * STRIDE);

            for (int i = 0; i < BUCKET; i++)
                x[i] = (float)(step + b + i + pg->rank);
            c[b] = (gr_coll){ .id = b,
                              .label = "bucket",
                              .offset = (size_t)b * STRIDE,
                              .n_elem = BUCKET,
                              .dtype = GR_F32,
                              .op = GR_REDUCE_SUM };
            GR_TRY(gr_pg_start(pg, &c[b], NULL));
            if (b % 3 == pg->rank)
                GR_TRY(gr_pg_poll(pg));
        }
        for (int k = 0; k < N_BUCKETS; k++) {
            int b = (k * 7 + step) % N_BUCKETS;
            const float *x = (const float *)((char *)base + (size_t)b * STRIDE);
            int w = pg->size, sum_of_ranks = w * (w - 1) / 2;

            GR_TRY(gr_pg_finish(pg, &c[b], NULL));
            for (int i = 0; i < BUCKET; i++)
                GR_CHECK(x[i] == (float)(w * (step + b + i) + sum_of_ranks));
        }
    }
    return GR_OK;
}

/* A larger space replaces the old one; a smaller request keeps it. */
static gr_status grow(gr_pg *pg, void *arg)
{
    void *small, *large, *again;

    (void)arg;
    GR_TRY(gr_pg_exchange(pg, NULL, 100, &small));
    GR_CHECK(small != NULL);
    GR_TRY(gr_pg_exchange(pg, NULL, 5u << 20, &large));
    memset(large, pg->rank, 5u << 20);
    GR_TRY(gr_pg_exchange(pg, NULL, 100, &again));
    GR_CHECK(again == large);
    GR_TRY(gr_pg_exchange(pg, NULL, 0, &again));
    return gr_pg_barrier(pg);
}

static gr_status broadcast(gr_pg *pg, void *arg)
{
    static const size_t counts[] = { 0, 1, 7, 70001, 300000 };

    (void)arg;
    for (int root = 0; root < pg->size; root++)
        for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
            size_t n = counts[k];
            int32_t *mem = (int32_t *)malloc((n + 1) * sizeof(int32_t));

            for (size_t i = 0; i < n; i++)
                mem[i] = pg->rank == root ? (int32_t)(i * 3 + k) : -1;
            mem[n] = 4711; /* nothing is written behind the end */
            GR_CHECK_OK(gr_pg_broadcast(pg, (gr_vec){ mem, n, GR_I32 }, root));
            for (size_t i = 0; i < n; i++)
                GR_CHECK_EQ(mem[i], (int32_t)(i * 3 + k));
            GR_CHECK_EQ(mem[n], 4711);
            free(mem);
        }
    return GR_OK;
}

/* Rank r sends r * r * 50000 bytes: none, some, and more than a slot holds. */
static gr_status gather(gr_pg *pg, void *arg)
{
    size_t n = (size_t)pg->rank * (size_t)pg->rank * 50000;
    char *mem = (char *)malloc(n + 1);
    size_t sizes[WORLD_MAX];
    char **all;

    (void)arg;
    memset(mem, 'a' + pg->rank, n);
    GR_CHECK_OK(gr_pg_gather_bytes(pg, mem, n, &all, sizes));
    for (int r = 0; r < pg->size; r++) {
        GR_CHECK_EQ(sizes[r], (size_t)r * (size_t)r * 50000);
        GR_CHECK_EQ(strlen(all[r]), sizes[r]);
        for (size_t i = 0; i < sizes[r]; i++)
            GR_CHECK_EQ(all[r][i], 'a' + r);
    }
    free(all);
    free(mem);
    GR_TRY(gr_pg_gather_bytes(pg, "x", pg->rank == 1 ? 1 : 0, &all, NULL));
    GR_CHECK_STR(all[0], "");
    free(all);
    return GR_OK;
}

/* Different calls follow each other without a pause: slots are not overwritten early. */
static gr_status mixture(gr_pg *pg, void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        int64_t x[3] = { i, pg->rank, 1 };
        char text[32];
        char **all;

        GR_TRY(gr_pg_allreduce(pg, (gr_vec){ x, 3, GR_I64 }, GR_REDUCE_SUM));
        GR_CHECK_EQ(x[0], (int64_t)i * pg->size);
        GR_CHECK_EQ(x[2], pg->size);
        snprintf(text, sizeof(text), "%d of rank %d", i, pg->rank);
        GR_TRY(gr_pg_gather_bytes(pg, text, strlen(text), &all, NULL));
        for (int r = 0; r < pg->size; r++) {
            snprintf(text, sizeof(text), "%d of rank %d", i, r);
            GR_CHECK_STR(all[r], text);
        }
        free(all);
        x[0] = pg->rank + i;
        GR_TRY(gr_pg_broadcast(pg, (gr_vec){ x, 1, GR_I64 }, i % pg->size));
        GR_CHECK_EQ(x[0], i % pg->size + i);
        if (i % 4 == 0)
            GR_TRY(gr_pg_barrier(pg));
    }
    return GR_OK;
}

int main(void)
{
    static const int ranks[] = { 1, 2, 3, 5 };

    for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++) {
        world_run(ranks[r], in_flight, NULL);
        world_run(ranks[r], grow, NULL);
        world_run(ranks[r], broadcast, NULL);
        world_run(ranks[r], gather, NULL);
        world_run(ranks[r], mixture, NULL);
    }
    GR_CHECK_EQ(gr_pg_rank(NULL), 0);
    GR_CHECK_EQ(gr_pg_size(NULL), 1);
    gr_pg_destroy(NULL);
    return 0;
}

/*
 * Collectives that leave rows: past their finish every rank sees what all ranks gave, unchanged,
 * and each piece of the work goes to one of them, whoever has time. Then ranks that disagree, one
 * that leaves, and groups that have no such thing.
 */
#include "check.h"
#include "comm/pg.h"
#include "comm/shm/atom.h"
#include "comm/world.h"

#include <stdlib.h>
#include <string.h>

#define N_BUCKETS 3
#define N_STEPS   40
#define N_PIECES  50
#define N_ELEM    ((size_t)16 * 7 * 3 * 4) /* parts evenly for all numbers of ranks here */

typedef struct pile {
    atom32 taken[N_STEPS][N_BUCKETS][N_PIECES]; /* how often each piece was */
} pile;

static gr_coll bucket(int k)
{
    return (gr_coll){ .id = k,
                      .label = "bucket",
                      .offset = (size_t)k * N_ELEM * sizeof(float),
                      .n_elem = N_ELEM,
                      .dtype = GR_F32,
                      .op = GR_REDUCE_SUM,
                      .kind = GR_CALL_REDUCE_SCATTER,
                      .own_only = true,
                      .rows = true };
}

/* An all-gather: nobody goes on before all have come, as at the end of a step's updates. */
static gr_status meet(gr_pg *pg)
{
    gr_coll c = { .id = N_BUCKETS,
                  .label = "end",
                  .offset = N_BUCKETS * N_ELEM * sizeof(float),
                  .n_elem = 16 * (size_t)gr_pg_size(pg),
                  .dtype = GR_F32,
                  .kind = GR_CALL_ALLGATHER };

    GR_TRY(gr_pg_start(pg, &c, NULL));
    return gr_pg_finish(pg, &c, NULL);
}

static float number(int rank, int step, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13 + (size_t)step * 29) % 101) - 50;
}

static void look_at_rows(gr_pg *pg, const gr_coll_rows *r, int step, int k)
{
    for (int rank = 0; rank < gr_pg_size(pg); rank++)
        for (size_t i = 0; i < N_ELEM; i++)
            GR_CHECK(((const float *)r->row[rank])[i] ==
                     number(rank, step, (size_t)k * N_ELEM + i));
}

static gr_status take_pieces(gr_pg *pg, pile *p, int step, int k)
{
    gr_coll c = bucket(k);
    gr_coll_rows r;
    uint64_t piece;

    GR_TRY(gr_pg_finish(pg, &c, NULL));
    GR_TRY(gr_pg_rows(pg, &c, &r));
    look_at_rows(pg, &r, step, k);
    while ((piece = gr_coll_rows_take(&r, N_PIECES)) < N_PIECES)
        atom32_add(&p->taken[step][k][piece], 1);
    return GR_OK;
}

static gr_status run_steps(gr_pg *pg, void *arg)
{
    pile *p = (pile *)arg;
    size_t n_bytes = (N_BUCKETS * N_ELEM + 16 * (size_t)gr_pg_size(pg)) * sizeof(float);
    void *base;

    GR_TRY(gr_pg_exchange(pg, NULL, n_bytes, &base));
    for (int step = 0; step < N_STEPS; step++) {
        for (int k = 0; k < N_BUCKETS; k++) {
            gr_coll c = bucket(k);

            for (size_t i = 0; i < N_ELEM; i++)
                ((float *)base)[(size_t)k * N_ELEM + i] =
                    number(gr_pg_rank(pg), step, (size_t)k * N_ELEM + i);
            GR_TRY(gr_pg_start(pg, &c, NULL));
            GR_TRY(gr_pg_poll(pg));
        }
        for (int k = 0; k < N_BUCKETS; k++)
            GR_TRY(take_pieces(pg, p, step, k));
        GR_TRY(meet(pg));
    }
    return GR_OK;
}

static void test_pieces(int n_ranks)
{
    pile *p = calloc(1, sizeof(*p));

    world_run(n_ranks, run_steps, p);
    for (int s = 0; s < N_STEPS; s++)
        for (int k = 0; k < N_BUCKETS; k++)
            for (int i = 0; i < N_PIECES; i++)
                GR_CHECK_EQ(atom32_get(&p->taken[s][k][i]), 1);
    free(p);
}

/* Rank 1 wants sums. */
static gr_status disagree(gr_pg *pg, void *arg)
{
    gr_coll c = bucket(0);
    void *base;

    (void)arg;
    c.rows = gr_pg_rank(pg) != 1;
    GR_TRY(gr_pg_exchange(pg, NULL, N_ELEM * sizeof(float), &base));
    GR_TRY(gr_pg_start(pg, &c, NULL));
    return gr_pg_finish(pg, &c, NULL);
}

/* Rank 1 does not come. */
static gr_status leave(gr_pg *pg, void *arg)
{
    gr_coll c = bucket(0);
    void *base;

    (void)arg;
    GR_TRY(gr_pg_exchange(pg, NULL, N_ELEM * sizeof(float), &base));
    if (gr_pg_rank(pg) == 1)
        return GR_OK;
    GR_TRY(gr_pg_start(pg, &c, NULL));
    return gr_pg_finish(pg, &c, NULL);
}

static void test_failures(void)
{
    gr_error e[2];

    world_try(2, 20000, disagree, NULL, e);
    for (int r = 0; r < 2; r++)
        GR_CHECK(e[r].status != GR_OK && strstr(e[r].text, "update in common 0 'bucket' (sum of") &&
                 strstr(e[r].text, "reduce-scatter 0 'bucket' (sum of"));
    world_try(2, 20000, leave, NULL, e);
    GR_CHECK_EQ(e[0].status, GR_ERR_PEER);
    GR_CHECK(strstr(e[0].text, "rank 1 left the group before update in common 0 'bucket'") != NULL);
}

static gr_status refused(gr_pg *pg, void *arg)
{
    gr_coll c = bucket(0);
    void *base;

    (void)arg;
    GR_TRY(gr_pg_exchange(pg, NULL, N_ELEM * sizeof(float), &base));
    GR_CHECK_FAILS(gr_pg_start(pg, &c, NULL), GR_ERR_ARG, "does not show the rows of all ranks");
    return GR_OK;
}

int main(void)
{
    static const int n_ranks[] = { 2, 3, 4, 7 };

    for (size_t i = 0; i < sizeof(n_ranks) / sizeof(n_ranks[0]); i++)
        test_pieces(n_ranks[i]);
    test_failures();
    world_transport("tcp");
    world_run(2, refused, NULL);
    return 0;
}

/*
 * Ranks that wait sum what others have no time for. The last rank starts its collectives before all
 * others and has other work from then on: it calls nothing until they are through. They could not
 * be if it had to sum its own share.
 */
#include "base/clock.h"
#include "base/pool.h"
#include "check.h"
#include "comm/shm/shm.h"
#include "comm/world.h"

#define N_BUCKETS 3
#define LIMIT_MS  60000

typedef struct plan {
    size_t n_elem; /* of a bucket */
    gr_call_kind kind;
    int n_threads; /* of every rank */
    atom32 has_started, n_through;
} plan;

static float number(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13) % 101) - 50;
}

static void wait_for(const atom32 *count, uint32_t n)
{
    gr_deadline end = gr_deadline_in_ms(LIMIT_MS);

    while (atom32_get(count) < n) {
        GR_CHECK(gr_deadline_left_ms(end) > 0);
        __builtin_ia32_pause();
    }
}

static gr_coll bucket(const plan *p, int k)
{
    return (gr_coll){ .id = k,
                      .label = "bucket",
                      .offset = (size_t)k * p->n_elem * sizeof(float),
                      .n_elem = p->n_elem,
                      .dtype = GR_F32,
                      .op = GR_REDUCE_SUM,
                      .kind = p->kind };
}

static gr_status start_all(gr_pg *pg, const plan *p)
{
    for (int k = 0; k < N_BUCKETS; k++) {
        gr_coll c = bucket(p, k);

        GR_TRY(gr_pg_start(pg, &c, NULL));
    }
    return GR_OK;
}

static gr_status finish_all(gr_pg *pg, const plan *p)
{
    for (int k = 0; k < N_BUCKETS; k++) {
        gr_coll c = bucket(p, k);

        GR_TRY(gr_pg_finish(pg, &c, NULL));
    }
    return GR_OK;
}

/* Of a reduce-scatter the own share, else everything. */
static void check_sums(const gr_pg *pg, const plan *p, const float *mem)
{
    size_t share = p->n_elem / (size_t)gr_pg_size(pg);

    for (size_t i = 0; i < N_BUCKETS * p->n_elem; i++) {
        float sum = 0;

        if (p->kind == GR_CALL_REDUCE_SCATTER && i % p->n_elem / share != (size_t)gr_pg_rank(pg))
            continue;
        for (int r = 0; r < gr_pg_size(pg); r++)
            sum += number(r, i);
        GR_CHECK(mem[i] == sum); /* whole numbers: exact in any order */
    }
}

static gr_status run_plan(gr_pg *pg, plan *p)
{
    bool is_last = gr_pg_rank(pg) == gr_pg_size(pg) - 1;
    void *base;

    GR_TRY(gr_pg_exchange(pg, NULL, N_BUCKETS * p->n_elem * sizeof(float), &base));
    for (size_t i = 0; i < N_BUCKETS * p->n_elem; i++)
        ((float *)base)[i] = number(gr_pg_rank(pg), i);
    if (!is_last)
        wait_for(&p->has_started, 1);
    GR_TRY(start_all(pg, p));
    atom32_set(&p->has_started, 1);
    if (is_last)
        wait_for(&p->n_through, (uint32_t)gr_pg_size(pg) - 1);
    GR_TRY(finish_all(pg, p));
    atom32_add(&p->n_through, 1);
    check_sums(pg, p, (const float *)base);
    return GR_OK;
}

static gr_status rank_main(gr_pg *pg, void *arg)
{
    plan *p = (plan *)arg;
    gr_status st;

    GR_CHECK_OK(gr_pool_create(&pg->pool, p->n_threads));
    st = run_plan(pg, p);
    gr_pool_destroy(pg->pool);
    pg->pool = NULL;
    return st;
}

int main(void)
{
    static const size_t n_elem[] = { 64 * 4, 60000 * 4 };
    cpu_set_t cores;
    int most;

    GR_CHECK_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
    most = CPU_COUNT(&cores) < 4 ? CPU_COUNT(&cores) : 4;
    if (most < 2) {
        printf("one core: ranks that wait sleep here, and do not help\n");
        return 77;
    }
    for (int n_ranks = 2; n_ranks <= most; n_ranks++)
        for (int k = 0; k < 4; k++) {
            plan p = { .n_elem = n_elem[k / 2] / 4 * (size_t)n_ranks * 4,
                       .kind = k % 2 ? GR_CALL_REDUCE_SCATTER : GR_CALL_ALLREDUCE,
                       .n_threads = 1 + k % 2 };

            world_run(n_ranks, rank_main, &p);
        }
    return 0;
}

/* Sub-groups: who is in which, in what order, and that groups do not meet each other. */
#include "check.h"
#include "comm/grid.h"
#include "comm/world.h"

static gr_status even_and_odd(gr_pg *pg, void *arg)
{
    int me = gr_pg_rank(pg), w = gr_pg_size(pg);
    int64_t x = me, all = me;
    gr_pg *half, *none;

    (void)arg;
    GR_TRY(gr_pg_split(&half, pg, me % 2, -me)); /* in reverse order */
    GR_CHECK_EQ(gr_pg_size(half), (w + 1 - me % 2) / 2);
    GR_CHECK_EQ(gr_pg_rank(half), gr_pg_size(half) - 1 - me / 2);
    GR_TRY(gr_pg_allreduce(half, (gr_vec){ &x, 1, GR_I64 }, GR_REDUCE_SUM));
    GR_TRY(gr_pg_allreduce(pg, (gr_vec){ &all, 1, GR_I64 }, GR_REDUCE_SUM));
    GR_CHECK_EQ(all, w * (w - 1) / 2);
    GR_CHECK_EQ(x, gr_pg_size(half) * (gr_pg_size(half) - 1) + me % 2 * gr_pg_size(half));
    GR_TRY(grid_run_type(half, 100, GR_F32));
    GR_TRY(grid_random(half, 3, 20));
    GR_TRY(gr_pg_split(&none, pg, me == 0 ? -1 : 4, 0));
    GR_CHECK_EQ(none != NULL, me != 0);
    gr_pg_destroy(none);
    gr_pg_destroy(half);
    return gr_pg_barrier(pg);
}

static gr_status listed(gr_pg *pg, void *arg)
{
    static const int ranks[] = { 2, 0 };
    gr_pg *two;
    int32_t x = 7 + gr_pg_rank(pg);

    (void)arg;
    GR_TRY(gr_pg_create_sub(&two, pg, ranks, 2));
    GR_CHECK_EQ(two != NULL, gr_pg_rank(pg) == 0 || gr_pg_rank(pg) == 2);
    if (two) {
        GR_CHECK_EQ(gr_pg_rank(two), gr_pg_rank(pg) == 2 ? 0 : 1);
        GR_TRY(gr_pg_broadcast(two, (gr_vec){ &x, 1, GR_I32 }, 0));
        GR_CHECK_EQ(x, 9);
    }
    gr_pg_destroy(two);
    return gr_pg_barrier(pg);
}

static gr_status wrong_lists(gr_pg *pg, void *arg)
{
    gr_pg *out;

    (void)arg;
    GR_CHECK_FAILS(gr_pg_create_sub(&out, pg, (const int[]){ 0, 0 }, 2), GR_ERR_ARG, "twice");
    GR_CHECK_FAILS(gr_pg_create_sub(&out, pg, (const int[]){ 9 }, 1), GR_ERR_ARG, "rank 9");
    GR_CHECK_FAILS(gr_pg_create_sub(&out, pg, NULL, 0), GR_ERR_ARG, "0 ranks");
    return GR_OK;
}

/* A sub-group of a sub-group, and one that is left without being used. */
static gr_status nested(gr_pg *pg, void *arg)
{
    gr_pg *a, *b;
    char text[GR_PG_TEXT];

    (void)arg;
    GR_TRY(gr_pg_split(&a, pg, gr_pg_rank(pg) / 2, 0));
    GR_TRY(gr_pg_split(&b, a, 0, 0));
    GR_TRY(grid_run_type(b, 10, GR_I32));
    gr_pg_destroy(b);
    gr_pg_destroy(a);
    GR_CHECK(strstr(gr_pg_describe(pg, text, sizeof(text)), "all-reduce"));
    return GR_OK;
}

int main(void)
{
    static const char *const transports[] = { "shm", "tcp", "hosts:2" };

    for (size_t t = 0; t < sizeof(transports) / sizeof(transports[0]); t++) {
        world_transport(transports[t]);
        world_run(1, even_and_odd, NULL);
        world_run(3, even_and_odd, NULL);
        world_run(5, even_and_odd, NULL);
        world_run(3, listed, NULL);
        world_run(2, wrong_lists, NULL);
        world_run(4, nested, NULL);
    }
    return 0;
}

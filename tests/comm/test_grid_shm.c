/* The grid over shared memory, ranks as threads: all types with up to 3 ranks, some with
 * more. P1, P2. */
#include "check.h"
#include "comm/grid.h"
#include "comm/world.h"

static const size_t counts[] = { 0, 1, 2, 10, 100, 10007 };

#define N_COUNTS (sizeof(counts) / sizeof(counts[0]))

static gr_status all_types(gr_pg *pg, void *arg)
{
    (void)arg;
    for (size_t c = 0; c < N_COUNTS; c++)
        GR_TRY(grid_run(pg, counts[c]));
    return GR_OK;
}

static gr_status some_types(gr_pg *pg, void *arg)
{
    (void)arg;
    for (size_t c = 0; c < N_COUNTS; c++) {
        GR_TRY(grid_run_type(pg, counts[c], GR_F32));
        if (c % 2 == 1) {
            GR_TRY(grid_run_type(pg, counts[c], GR_BF16));
            GR_TRY(grid_run_type(pg, counts[c], GR_I64));
        }
    }
    return GR_OK;
}

static gr_status few(gr_pg *pg, void *arg)
{
    (void)arg;
    GR_TRY(grid_run_type(pg, 1, GR_F32));
    return grid_run_type(pg, 10007, GR_BF16);
}

static gr_status large(gr_pg *pg, void *arg)
{
    (void)arg;
    return grid_run_sum(pg, 150001, GR_F32);
}

static gr_status in_random_order(gr_pg *pg, void *arg)
{
    return grid_random(pg, *(const unsigned *)arg, 60);
}

int main(void)
{
    for (int n = 1; n <= 3; n++)
        world_run(n, all_types, NULL);
    world_run(4, some_types, NULL);
    world_run(7, few, NULL);
    world_run(3, large, NULL);
    for (unsigned seed = 1; seed <= 6; seed++)
        world_run(2 + (int)seed % 4, in_random_order, &seed);
    return 0;
}

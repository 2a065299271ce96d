/* The grid over shared memory, ranks as threads. P1, P2. */
#include "check.h"
#include "comm/grid.h"
#include "comm/world.h"

static const int ranks[] = { 1, 2, 3, 4, 7 };
static const size_t counts[] = { 0, 1, 2, 10, 100, 10007 };

static gr_status grid(gr_pg *pg, void *arg)
{
    return grid_run(pg, *(const size_t *)arg);
}

static gr_status large(gr_pg *pg, void *arg)
{
    (void)arg;
    return grid_run_type(pg, 300001, GR_F32);
}

static gr_status in_random_order(gr_pg *pg, void *arg)
{
    return grid_random(pg, *(const unsigned *)arg, 60);
}

int main(void)
{
    for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++)
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            size_t n = counts[c];

            world_run(ranks[r], grid, &n);
        }
    world_run(3, large, NULL);
    for (unsigned seed = 1; seed <= 6; seed++)
        world_run(2 + (int)seed % 4, in_random_order, &seed);
    return 0;
}

/* The grid over TCP, and over pretended hosts: rings inside, TCP between. Ranks as threads.
 * Every algorithm by name gives the bits of the law. P1, P2. */
#include "check.h"
#include "comm/grid.h"
#include "comm/world.h"

static const size_t counts[] = { 0, 1, 2, 10, 100, 10007 };

#define N_COUNTS (sizeof(counts) / sizeof(counts[0]))

static gr_status all_types(gr_pg *pg, void *arg)
{
    (void)arg;
    for (size_t c = 1; c < N_COUNTS; c += 2)
        GR_TRY(grid_run(pg, counts[c]));
    return GR_OK;
}

static gr_status few(gr_pg *pg, void *arg)
{
    (void)arg;
    GR_TRY(grid_run_type(pg, 1, GR_F32));
    GR_TRY(grid_run_type(pg, 100, GR_F16));
    return grid_run_sum(pg, 10007, GR_F32);
}

static gr_status large(gr_pg *pg, void *arg)
{
    (void)arg;
    GR_TRY(grid_run_sum(pg, 10007, GR_F32));
    return grid_random(pg, 9, 15);
}

/* Many small pieces: the bits stay the same for every cut. */
static void in_pieces(int n_ranks)
{
    setenv("GR_COMM_PIECE", "1024", 1);
    world_run(n_ranks, large, NULL);
    unsetenv("GR_COMM_PIECE");
}

static void with_transport(const char *name)
{
    world_transport(name);
    world_run(1, few, NULL);
    world_run(2, all_types, NULL);
    world_run(4, few, NULL);
    world_run(7, few, NULL);
    in_pieces(3);
}

static void with_algorithm(const char *names, int n_ranks)
{
    setenv("GR_COMM_ALGO", names, 1);
    world_run(n_ranks, few, NULL);
    in_pieces(n_ranks);
    unsetenv("GR_COMM_ALGO");
}

static void with_streams(const char *n)
{
    setenv("GR_TCP_STREAMS", n, 1);
    in_pieces(3);
    unsetenv("GR_TCP_STREAMS");
}

int main(void)
{
    with_transport("tcp");
    with_streams("1"); /* without patience */
    with_streams("5");
    with_algorithm("all-reduce=chain,reduce=shares,all-gather=ring,broadcast=chain", 3);
    with_algorithm("all-reduce=all,reduce=root,broadcast=tree", 4);
    with_algorithm("all-reduce=shares", 4);
    with_transport("hosts:2"); /* with 3 and 7 ranks the last host is smaller */
    with_algorithm("all-reduce=hosts", 5);
    return 0;
}

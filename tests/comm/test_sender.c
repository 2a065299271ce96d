/*
 * The thread that writes long messages over TCP: it starts with the first of them, every call
 * gives the bits of the law whatever the size of its messages, and ranks that are killed or
 * stopped while it writes are named as always. P1 P2 P6.
 */
#include "check.h"
#include "comm/faults.h"
#include "comm/grid.h"
#include "comm/world.h"

#define LONG_BYTES  ((size_t)1 << 20)
#define LEAVE_BYTES ((size_t)44 << 10)
#define N_GROUPS    60
#define SOME_ELEM   50021
#ifdef __SANITIZE_THREAD__ /* slow, and looks at threads, not at numbers */
#define MANY_ELEM 100003
#else
#define MANY_ELEM 700001
#endif

/* ---- when there is one ---- */

/* arg: does each rank get one? The barriers keep ranks from running ahead. */
static gr_status starts(gr_pg *pg, void *arg)
{
    bool wants = *(const bool *)arg;
    char *mem = (char *)calloc(1, LONG_BYTES), text[4096];

    gr_pg_describe(pg, text, sizeof(text));
    GR_CHECK_EQ(strstr(text, "a thread of its own writes") != NULL, wants);
    GR_TRY(gr_pg_broadcast(pg, (gr_vec){ mem, 100, GR_U8 }, 0));
    GR_CHECK_EQ(world_threads("gradus-sender"), 0);
    GR_TRY(gr_pg_barrier(pg));
    GR_TRY(gr_pg_allreduce(pg, (gr_vec){ mem, LONG_BYTES, GR_U8 }, GR_REDUCE_SUM));
    GR_TRY(gr_pg_barrier(pg));
    GR_CHECK_EQ(world_threads("gradus-sender"), wants ? gr_pg_size(pg) : 0);
    free(mem);
    return gr_pg_barrier(pg);
}

static void test_start(const char *wish, bool wants)
{
    setenv("GR_TCP_SENDER", wish, 1);
    world_run(3, starts, &wants);
}

static void test_wrong_wish(void)
{
    gr_pg_config config = GR_PG_CONFIG_INIT;
    gr_pg *pg[2];

    config.transport = "tcp";
    setenv("GR_TCP_SENDER", "2", 1);
    GR_CHECK_FAILS(gr_pg_create_threads(pg, 2, &config), GR_ERR_ARG,
                   "GR_TCP_SENDER is '2'; it must be 0 or 1");
}

/* ---- what it gives ---- */

static gr_status whole_grid(gr_pg *pg, void *arg)
{
    GR_TRY(grid_run_sum(pg, *(const size_t *)arg, GR_F32));
    return grid_random(pg, 3, 30); /* long and short ones, several under way */
}

static void test_grid(const char *transport, const char *n_streams, int n_ranks, size_t n_elem)
{
    world_transport(transport);
    setenv("GR_TCP_STREAMS", n_streams, 1);
    world_run(n_ranks, whole_grid, &n_elem);
    unsetenv("GR_TCP_STREAMS");
}

/* Who has everything leaves, maybe before the senders of the others have noted that it has. */
static gr_status gather_and_leave(gr_pg *pg, void *arg)
{
    size_t n = LEAVE_BYTES, all = n * (size_t)gr_pg_size(pg);
    char *mine = (char *)malloc(n), *got = (char *)malloc(all);
    gr_status st = GR_OK;

    (void)arg;
    memset(mine, gr_pg_rank(pg), n);
    for (int i = 0; i < 5 && st == GR_OK; i++) /* not only while the senders start */
        st = gr_pg_allgather(pg, got, (gr_vec){ mine, n, GR_U8 });
    for (size_t i = 0; st == GR_OK && i < all; i++)
        GR_CHECK(got[i] == (char)(i / n));
    free(mine);
    free(got);
    return st;
}

static void test_leaving(void)
{
    for (int i = 0; i < N_GROUPS; i++)
        world_run(3 + i % 2, gather_and_leave, NULL);
}

int main(void)
{
    world_transport("tcp");
    setenv("GR_TCP_LANES", "1", 1); /* else they take its place where there are many cores */
    test_wrong_wish();
    test_start("0", false);
    test_start("1", true);
    test_leaving();
    test_grid("tcp", "2", 3, MANY_ELEM);
    test_grid("tcp", "1", 2, SOME_ELEM); /* without patience */
    test_grid("tcp", "5", 4, SOME_ELEM);
    test_grid("hosts:2", "2", 4, SOME_ELEM); /* rings beside sockets */
    faults_run_long("tcp", 3);
    return 0;
}

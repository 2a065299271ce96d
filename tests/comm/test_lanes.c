/*
 * Lanes: long calls over TCP that several threads of a rank carry, each its part. Every call has
 * the bits of the law whatever the number of lanes; begun calls may be finished in any order, by
 * ranks that are out of step; sub-groups and reductions in the exchange space have lanes, too;
 * ranks that call different things, are killed or are stopped are named as always, and once.
 * P1 P2 P6.
 */
#include "check.h"
#include "comm/faults.h"
#include "comm/grid.h"
#include "comm/pg.h"
#include "comm/world.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N_LONG   ((size_t)150001) /* f32: more than a call must have for lanes */
#define N_SHORT  ((size_t)1000)
#define LONG_MS  240000 /* a limit that is never reached */
#define SHORT_MS 600    /* one that is, by ranks that wait for a late one */
#define LATE_MS  900
#ifdef __SANITIZE_THREAD__ /* slow, and looks at threads, not at numbers */
#define N_GRID   70001
#define N_GROUPS 8
#else
#define N_GRID   140003
#define N_GROUPS 40
#endif

/* ---- when there are some ---- */

/* arg: how many each rank has. The barriers keep ranks from running ahead. */
static gr_status has_lanes(gr_pg *pg, void *arg)
{
    int n = *(const int *)arg;
    char text[4096], line[80];

    snprintf(line, sizeof(line), "long calls on %d lanes", n);
    gr_pg_describe(pg, text, sizeof(text));
    GR_CHECK_EQ(strstr(text, line) != NULL, n > 1);
    GR_CHECK(n == 1 || !strstr(text, "a thread of its own writes")); /* one too many */
    GR_TRY(gr_pg_barrier(pg));
    GR_CHECK_EQ(world_threads("gradus-lane"), gr_pg_size(pg) * (n - 1));
    return gr_pg_barrier(pg);
}

static void test_count(const char *transport, const char *wish, const char *n_streams, int n)
{
    world_transport(transport);
    setenv("GR_TCP_LANES", wish, 1);
    setenv("GR_TCP_STREAMS", n_streams, 1);
    world_run(4, has_lanes, &n);
    GR_CHECK_EQ(world_threads("gradus-lane"), 0); /* gone with the groups */
    unsetenv("GR_TCP_STREAMS");
    world_transport("tcp");
}

static void test_wrong_wish(const char *wish)
{
    gr_pg_config config = GR_PG_CONFIG_INIT;
    gr_pg *pg[2];

    config.transport = "tcp";
    setenv("GR_TCP_LANES", wish, 1);
    GR_CHECK_FAILS(gr_pg_create_threads(pg, 2, &config), GR_ERR_ARG, "it must be 1 to 8");
}

/* Where nothing is wished for, ranks have no more threads than cores. */
static gr_status few_enough(gr_pg *pg, void *arg)
{
    int n_cores = *(const int *)arg;

    GR_TRY(gr_pg_barrier(pg));
    GR_CHECK(world_threads("gradus-lane") + gr_pg_size(pg) <= (n_cores > 4 ? n_cores : 4));
    return gr_pg_barrier(pg);
}

static void test_default(void)
{
    cpu_set_t set;
    int n_cores;

    GR_CHECK_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    n_cores = CPU_COUNT(&set);
    unsetenv("GR_TCP_LANES");
    world_run(4, few_enough, &n_cores);
}

/* ---- what they give ---- */

static gr_status whole_grid(gr_pg *pg, void *arg)
{
    (void)arg;
    GR_TRY(grid_run_sum(pg, N_GRID, GR_F32)); /* every kind; of the reductions the sum */
    GR_TRY(grid_run_sum(pg, 2 * N_GRID + 5, GR_BF16));
    return grid_random(pg, 7, 20); /* long and short ones, several under way */
}

static void pause_ms(int ms)
{
    struct timespec t = { 0, ms * 1000000L };

    nanosleep(&t, NULL);
}

static float number(int rank, size_t i)
{
    return (float)(rank + 1) * 0.37F + (float)(i % 1013) * 1.7F;
}

static float sum_at(int n_ranks, size_t i)
{
    float sum = number(0, i);

    for (int r = 1; r < n_ranks; r++)
        sum += number(r, i);
    return sum;
}

/* Long and short calls under way at once, finished last one first; the slow rank (arg) begins
 * each only after the one before it is finished. */
static gr_status out_of_step(gr_pg *pg, void *arg)
{
    enum { N = 5 };
    int me = gr_pg_rank(pg), w = gr_pg_size(pg);
    bool is_slow = me == *(int *)arg;
    gr_work *work[N];
    float *mem[N];

    for (int k = 0; k < N; k++) {
        size_t n = k % 2 ? N_SHORT : N_LONG + (size_t)k;
        gr_pg_call c = { .kind = GR_CALL_ALLREDUCE, .dtype = GR_F32, .n_elem = n, .label = "x" };

        mem[k] = malloc(n * sizeof(float));
        for (size_t i = 0; i < n; i++)
            mem[k][i] = number(me, i);
        c.src = c.dst = mem[k];
        if (is_slow)
            pause_ms(5);
        GR_TRY(gr_pg_begin(&work[k], pg, &c));
        if (is_slow)
            GR_TRY(gr_work_finish(work[k]));
    }
    for (int k = N; k-- > 0 && !is_slow;)
        GR_TRY(gr_work_finish(work[k]));
    for (int k = 0; k < N; k++) {
        for (size_t i = 0; i < (k % 2 ? N_SHORT : N_LONG); i++)
            GR_CHECK(mem[k][i] == sum_at(w, i));
        free(mem[k]);
    }
    return GR_OK;
}

/* Buckets in the exchange space, all started before the first is finished, again and again. */
static gr_status in_exchange(gr_pg *pg, void *arg)
{
    enum { N = 3 };
    size_t stride = (N_LONG + 15) / 16 * 16;
    int me = gr_pg_rank(pg), w = gr_pg_size(pg);
    void *base;

    (void)arg;
    GR_TRY(gr_pg_exchange(pg, NULL, N * stride * sizeof(float), &base));
    for (int round = 0; round < 4; round++) {
        gr_coll c[N];

        for (int k = 0; k < N; k++) {
            float *mem = (float *)base + (size_t)k * stride;

            for (size_t i = 0; i < N_LONG; i++)
                mem[i] = number(me, i + (size_t)round);
            c[k] = (gr_coll){ .id = k, .label = "bucket", .n_elem = N_LONG, .dtype = GR_F32 };
            c[k].offset = (size_t)k * stride * sizeof(float);
            GR_TRY(gr_pg_start(pg, &c[k], NULL));
            GR_TRY(gr_pg_poll(pg));
        }
        for (int k = 0; k < N; k++) {
            const float *mem = (const float *)base + (size_t)k * stride;

            GR_TRY(gr_pg_finish(pg, &c[k], NULL));
            for (size_t i = 0; i < N_LONG; i++)
                GR_CHECK(mem[i] == sum_at(w, i + (size_t)round));
        }
    }
    return GR_OK;
}

/* Halves of the group, each with lanes of its own, and no more of them. */
static gr_status in_halves(gr_pg *pg, void *arg)
{
    int me = gr_pg_rank(pg), slow = 1;
    char text[4096];
    gr_pg *half;

    (void)arg;
    GR_TRY(gr_pg_split(&half, pg, me % 2, me));
    gr_pg_describe(half, text, sizeof(text));
    GR_CHECK(strstr(text, "long calls on 3 lanes") != NULL);
    GR_TRY(out_of_step(half, &slow));
    GR_TRY(out_of_step(pg, &slow));
    gr_pg_destroy(half);
    return GR_OK;
}

/* Threads that do not start: stacks of this size find no room. */
static void set_stacks(size_t n_bytes)
{
    pthread_attr_t attr;

    GR_CHECK_EQ(pthread_getattr_default_np(&attr), 0);
    GR_CHECK_EQ(pthread_attr_setstacksize(&attr, n_bytes), 0);
    GR_CHECK_EQ(pthread_setattr_default_np(&attr), 0);
    pthread_attr_destroy(&attr);
}

/* A group whose lanes cannot start works with those that did, and says how many these are. */
static gr_status without_threads(gr_pg *pg, void *arg)
{
    static size_t usual; /* rank 0's; the barriers keep the others away */
    int slow = 1, is_first = gr_pg_rank(pg) == 0;
    pthread_attr_t attr;
    char text[4096];
    gr_pg *sub;

    (void)arg;
    GR_TRY(gr_pg_barrier(pg));
    if (is_first) {
        GR_CHECK_EQ(pthread_getattr_default_np(&attr), 0);
        GR_CHECK_EQ(pthread_attr_getstacksize(&attr, &usual), 0);
        pthread_attr_destroy(&attr);
        set_stacks((size_t)1 << 47);
    }
    GR_TRY(gr_pg_barrier(pg));
    GR_TRY(gr_pg_split(&sub, pg, 0, gr_pg_rank(pg)));
    GR_TRY(gr_pg_barrier(pg));
    if (is_first)
        set_stacks(usual);
    gr_pg_describe(sub, text, sizeof(text));
    GR_CHECK(!strstr(text, "lanes"));
    gr_pg_describe(pg, text, sizeof(text));
    GR_CHECK(strstr(text, "long calls on 3 lanes") != NULL);
    GR_TRY(out_of_step(sub, &slow));
    gr_pg_destroy(sub);
    return GR_OK;
}

/* Who has everything leaves, maybe before the lanes of the others have everything. */
static gr_status sum_and_leave(gr_pg *pg, void *arg)
{
    float *mem = malloc(N_LONG * sizeof(float));
    gr_status st;

    (void)arg;
    for (size_t i = 0; i < N_LONG; i++)
        mem[i] = number(gr_pg_rank(pg), i);
    st = gr_pg_allreduce(pg, (gr_vec){ mem, N_LONG, GR_F32 }, GR_REDUCE_SUM);
    for (size_t i = 0; st == GR_OK && i < N_LONG; i++)
        GR_CHECK(mem[i] == sum_at(gr_pg_size(pg), i));
    free(mem);
    return st;
}

/* ---- misuse ---- */

/* Rank 1 means something else. Whichever lane finds out, the message is about the whole call. */
static gr_status differ(gr_pg *pg, void *arg)
{
    bool is_short = *(const bool *)arg;
    float *mem = (float *)calloc(N_LONG, sizeof(float));
    gr_vec v = { mem, N_LONG, GR_F32 };
    gr_status st = GR_OK;

    if (gr_pg_rank(pg) == 1)
        v = is_short ? (gr_vec){ mem, N_SHORT, GR_F32 } : (gr_vec){ mem, N_LONG, GR_I32 };
    for (int i = 0; i < 2 && st == GR_OK; i++)
        st = gr_pg_allreduce(pg, v, GR_REDUCE_SUM);
    free(mem);
    return st;
}

static void test_differ(bool is_short)
{
    gr_error e[3];
    bool is_named = false;

    world_try(3, 20000, differ, &is_short, e);
    for (int r = 0; r < 3; r++) {
        GR_CHECK(e[r].status != GR_OK && e[r].status != GR_ERR_TIMEOUT);
        is_named = is_named || (strstr(e[r].text, "different") && strstr(e[r].text, "150001 f32"));
    }
    GR_CHECK(is_named);
}

/* Rank 1 comes never: all say so at the deadline. */
static gr_status stay_away(gr_pg *pg, void *arg)
{
    gr_status st = GR_OK;

    pg->timeout_ms = SHORT_MS; /* not before: joining is not tried here */
    if (gr_pg_rank(pg) == 1)
        pause_ms(LATE_MS);
    else
        st = sum_and_leave(pg, arg);
    return st;
}

static void test_late(void)
{
    gr_error e[3];

    world_try(3, LONG_MS, stay_away, NULL, e);
    for (int r = 0; r < 3; r += 2) {
        GR_CHECK(e[r].status == GR_ERR_TIMEOUT || e[r].status == GR_ERR_PEER);
        GR_CHECK(strstr(e[r].text, "150001 f32") && strstr(e[r].text, "rank 1"));
    }
}

/* The deadline is for who waits: a call that is begun long before its peers come, and waited for
 * only then, is well. arg: has the late rank come? */
static gr_status begin_early(gr_pg *pg, void *arg)
{
    float *mem = malloc(N_LONG * sizeof(float));
    gr_pg_call c = { .kind = GR_CALL_ALLREDUCE, .dtype = GR_F32, .n_elem = N_LONG, .label = "x" };
    atomic_bool *has_come = arg;
    gr_work *work;
    gr_status st;

    pg->timeout_ms = SHORT_MS;
    for (size_t i = 0; i < N_LONG; i++)
        mem[i] = number(gr_pg_rank(pg), i);
    c.src = c.dst = mem;
    if (gr_pg_rank(pg) == 1)
        pause_ms(LATE_MS);
    st = gr_pg_begin(&work, pg, &c);
    if (gr_pg_rank(pg) == 1)
        atomic_store(has_come, true);
    while (!atomic_load(has_come))
        pause_ms(5);
    if (st == GR_OK)
        st = gr_work_finish(work);
    for (size_t i = 0; st == GR_OK && i < N_LONG; i++)
        GR_CHECK(mem[i] == sum_at(gr_pg_size(pg), i));
    free(mem);
    return st;
}

static void test_begun_early(void)
{
    atomic_bool has_come = false;
    gr_error e[3];

    world_try(3, LONG_MS, begin_early, &has_come, e);
    for (int r = 0; r < 3; r++)
        GR_CHECK_EQ(e[r].status, GR_OK);
}

int main(void)
{
    world_transport("tcp");
    test_wrong_wish("0");
    test_wrong_wish("9");
    test_wrong_wish("2x");
    test_default();
    test_count("tcp", "1", "2", 1);
    test_count("tcp", "3", "2", 3);
    test_count("tcp", "3", "1", 1);     /* without patience */
    test_count("hosts:2", "3", "2", 1); /* calls go from host to host */
    setenv("GR_TCP_LANES", "3", 1);
    world_run(3, whole_grid, NULL);
    for (int slow = 0; slow < 3; slow++)
        world_run(3, out_of_step, &slow);
    world_run(3, in_exchange, NULL);
    world_run(4, in_halves, NULL);
    world_run(3, without_threads, NULL);
    for (int i = 0; i < N_GROUPS; i++)
        world_run(2 + i % 3, sum_and_leave, NULL);
    test_differ(false);
    test_differ(true);
    test_late();
    test_begun_early();
    faults_run_long("tcp", 3);
    faults_run_started("tcp", 3);
#ifndef __SANITIZE_THREAD__ /* notes reads after the copy: the answer may be there by then */
    setenv("GR_TCP_SENDER", "1", 1); /* all threads at once */
    setenv("GR_TCP_LANES", "2", 1);
    world_run(3, whole_grid, NULL);
#endif
    return 0;
}

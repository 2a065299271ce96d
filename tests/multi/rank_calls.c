/* Calls of ranks under test. */
#include "multi/rank_calls.h"

#include "base/outfile.h"
#include "check.h"
#include "comm/pg.h"

#include <unistd.h>

#define N_ELEM    20000 /* divisible by every number of ranks that tests start */
#define STEP_US   20000
#define LATE_US   300000
#define SECOND_MS 1000

/* Fractions whose sums are rounded, so that another order of adding shows. */
static void fill(float *x, int rank, int seed)
{
    uint32_t state = (uint32_t)(seed * 1000 + rank);

    for (int i = 0; i < N_ELEM; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 3e5f;
    }
}

static gr_status one_call(gr_pg *pg, gr_call_kind kind, float *src, float *dst)
{
    int w = gr_pg_size(pg), me = gr_pg_rank(pg);
    gr_pg_call c = { .kind = kind,
                     .dtype = GR_F32,
                     .src = src,
                     .dst = dst,
                     .n_elem = N_ELEM / (size_t)w,
                     .root = (int)kind % w,
                     .label = "one of all" };
    gr_work *send;

    if (kind != GR_CALL_SEND)
        return gr_pg_run(pg, &c);
    c.root = (me + 1) % w;
    GR_TRY(gr_pg_begin(&send, pg, &c));
    GR_TRY(gr_pg_recv(pg, (gr_vec){ dst, c.n_elem, GR_F32 }, (me + w - 1) % w));
    return gr_work_finish(send);
}

gr_status rank_calls_all(void)
{
    float *src = calloc(N_ELEM, sizeof(*src)), *dst = calloc(N_ELEM, sizeof(*dst));
    uint32_t sum = 0;
    gr_pg *pg;

    GR_CHECK(src && dst);
    GR_TRY(gr_pg_create(&pg, NULL));
    for (int kind = 0; kind < GR_CALL_COUNT; kind++) {
        if (kind == GR_CALL_RECV)
            continue; /* together with send */
        fill(src, gr_pg_rank(pg), kind);
        memset(dst, 0, N_ELEM * sizeof(*dst));
        GR_TRY(one_call(pg, (gr_call_kind)kind, src, dst));
        sum = gr_crc32c(sum, dst, N_ELEM * sizeof(*dst));
    }
    printf("rank %d of %d has %08x\n", gr_pg_rank(pg), gr_pg_size(pg), sum);
    fflush(stdout);
    gr_pg_destroy(pg);
    free(src);
    free(dst);
    return GR_OK;
}

gr_status rank_calls_steps(long n)
{
    float *x = calloc(N_ELEM, sizeof(*x));
    gr_pg_call c = {
        .kind = GR_CALL_ALLREDUCE, .dtype = GR_F32, .dst = x, .n_elem = N_ELEM, .label = "steps"
    };
    gr_pg *pg;

    GR_CHECK(x);
    GR_TRY(gr_pg_create(&pg, NULL));
    for (long i = 0; i < n; i++) {
        for (int k = 0; k < N_ELEM; k++)
            x[k] = 1;
        GR_TRY(gr_pg_run(pg, &c));
        GR_CHECK(x[0] == (float)gr_pg_size(pg) && x[N_ELEM - 1] == x[0]);
        printf("step %ld of rank %d\n", i, gr_pg_rank(pg));
        fflush(stdout);
        usleep(STEP_US);
    }
    gr_pg_destroy(pg);
    free(x);
    return GR_OK;
}

static int kind_number(const char *name)
{
    static const char *const names[] = {
#define X(id, text) text,
        GR_CALL_MAP(X)
#undef X
    };

    for (int i = 0; i < GR_CALL_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return GR_CALL_COUNT; /* in the exchange space */
}

static gr_status repeat_once(gr_pg *pg, int kind, float *src, float *dst)
{
    gr_coll c = { .label = "one of all", .n_elem = N_ELEM, .dtype = GR_F32 };

    if (kind < GR_CALL_COUNT)
        return one_call(pg, (gr_call_kind)kind, src, dst);
    GR_TRY(gr_pg_start(pg, &c, NULL));
    return gr_pg_finish(pg, &c, NULL);
}

gr_status rank_calls_repeat(const char *kind, int ms)
{
    float *src = calloc(N_ELEM, sizeof(*src)), *dst = calloc(N_ELEM, sizeof(*dst));
    gr_pg_call barrier = { .kind = GR_CALL_BARRIER, .label = "one of all" };
    int number = kind_number(kind);
    void *exchange;
    gr_pg *pg;

    GR_CHECK(src && dst);
    GR_TRY(gr_pg_create(&pg, NULL));
    GR_TRY(gr_pg_exchange(pg, NULL, N_ELEM * sizeof(float), &exchange));
    for (long i = 0;; i++) {
        gr_status st = repeat_once(pg, number, src, dst);

        if (st == GR_OK && i % 4 == 3) /* nobody runs far ahead of a root */
            st = gr_pg_run(pg, &barrier);
        if (st != GR_OK)
            return st;
        if (i == 6) {
            pg->timeout_ms = ms;
            printf("rank %d is process %d\n", gr_pg_rank(pg), (int)getpid());
            fflush(stdout);
        }
    }
}

gr_status rank_calls_differ(void)
{
    float x[2] = { 0 };
    gr_pg *pg;

    GR_TRY(gr_pg_create(&pg, NULL));
    GR_TRY(gr_pg_barrier(pg));
    return gr_pg_rank(pg) == 1 ? gr_pg_broadcast(pg, (gr_vec){ x, 2, GR_F32 }, 1)
                               : gr_pg_allreduce(pg, (gr_vec){ x, 1, GR_F32 }, GR_REDUCE_SUM);
}

/* Two all-reduces of a group under way at once; the sum of its ranks in the group of all. */
static gr_status check_group(gr_pg *g, int me, double want)
{
    double a = me, b = 2 * me;
    gr_pg_call c = { .kind = GR_CALL_ALLREDUCE, .dtype = GR_F64, .dst = &a, .n_elem = 1 };
    gr_work *first, *second;

    if (!g)
        return GR_OK;
    GR_TRY(gr_pg_begin(&first, g, &c));
    c.dst = &b;
    GR_TRY(gr_pg_begin(&second, g, &c));
    GR_TRY(gr_work_finish(first));
    GR_TRY(gr_work_finish(second));
    GR_CHECK(a == want && b == 2 * want);
    return GR_OK;
}

gr_status rank_calls_groups(void)
{
    static const int low[] = { 1, 0 };
    gr_pg *all, *half, *pair = NULL, *again;
    double sum = 0, total = 0;
    int me, w;

    GR_TRY(gr_pg_create(&all, NULL));
    me = gr_pg_rank(all);
    w = gr_pg_size(all);
    for (int r = 0; r < w; r++) {
        total += r;
        sum += r % 2 == me % 2 ? r : 0;
    }
    GR_TRY(gr_pg_split(&half, all, me % 2, me));
    GR_TRY(gr_pg_create_sub(&pair, all, low, 2));
    GR_TRY(gr_pg_create(&again, NULL));
    for (int i = 0; i < 20; i++) {
        GR_TRY(check_group(half, me, sum));
        GR_TRY(check_group(pair, me, 1));
        GR_TRY(check_group(again, me, total));
        GR_TRY(check_group(all, me, total));
    }
    gr_pg_destroy(pair);
    gr_pg_destroy(half);
    gr_pg_destroy(again);
    gr_pg_destroy(all);
    printf("rank %d was in all groups\n", me);
    return GR_OK;
}

gr_status rank_calls_second(void)
{
    gr_pg_config config = { .timeout_ms = SECOND_MS };
    gr_pg *pg;

    GR_TRY(gr_pg_create(&pg, NULL));
    if (gr_pg_rank(pg) == 1)
        pause();
    gr_pg_destroy(pg);
    return gr_pg_create(&pg, &config);
}

gr_status rank_calls_leave(long n)
{
    int32_t *mine, *all;
    gr_status st;
    gr_pg *pg;
    int w;

    GR_TRY(gr_pg_create(&pg, NULL));
    w = gr_pg_size(pg);
    mine = calloc((size_t)n, sizeof(*mine));
    all = calloc((size_t)n * (size_t)w, sizeof(*all));
    GR_CHECK(mine && all);
    for (long i = 0; i < n; i++)
        mine[i] = (int32_t)(gr_pg_rank(pg) * n + i);
    printf("rank %d gives\n", gr_pg_rank(pg));
    fflush(stdout);
    usleep(gr_pg_rank(pg) == 0 ? 0 : LATE_US);
    st = gr_pg_gather(pg, all, (gr_vec){ mine, (size_t)n, GR_I32 }, 0);
    for (long i = 0; st == GR_OK && gr_pg_rank(pg) == 0 && i < w * n; i++)
        GR_CHECK(all[i] == (int32_t)i);
    if (st == GR_OK)
        printf("rank %d leaves\n", gr_pg_rank(pg));
    fflush(stdout);
    gr_pg_destroy(pg);
    free(mine);
    free(all);
    return st;
}

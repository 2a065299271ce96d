/* Calls of ranks under test. */
#include "multi/rank_calls.h"

#include "base/outfile.h"
#include "check.h"

#include <unistd.h>

#define N_ELEM  20000 /* divisible by every number of ranks that tests start */
#define STEP_US 20000
#define LATE_US 300000

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

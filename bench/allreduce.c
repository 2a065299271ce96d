/*
 * All-reduce between the ranks of a host:
 *
 *     gradrun --nproc-per-node 2 bench/allreduce
 *
 * For each size the time of one reduction, f32, in the exchange space (start and finish)
 * and on arbitrary memory (staged): the best and the median of batches of back-to-back
 * calls, and the bus bandwidth of the best, bytes / time * 2 (W - 1) / W. Where the best
 * and the median are far apart, other programs were running.
 */
#include "base/clock.h"
#include "base/cpu.h"
#include "comm/pg.h"

#include <stdio.h>
#include <stdlib.h>

#define N_BATCHES 15
#define BATCH_NS  20000000 /* aimed at */
#define MAX_BYTES ((size_t)256 << 20)

typedef gr_status call_fn(gr_pg *pg, void *base, size_t n_elem);

static gr_status in_exchange(gr_pg *pg, void *base, size_t n_elem)
{
    gr_coll c = { .label = "bench", .n_elem = n_elem, .dtype = GR_F32, .op = GR_REDUCE_AVG };

    (void)base;
    GR_TRY(gr_pg_start(pg, &c, NULL));
    return gr_pg_finish(pg, &c, NULL);
}

static gr_status staged(gr_pg *pg, void *mem, size_t n_elem)
{
    return gr_pg_allreduce(pg, (gr_vec){ mem, n_elem, GR_F32 }, GR_REDUCE_AVG);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Microseconds of one call: the best and the median of N_BATCHES. */
static gr_status measure(gr_pg *pg, call_fn *call, void *mem, size_t n_bytes, double us[2])
{
    int64_t n_calls = 1 + BATCH_NS / (int64_t)(2000 + n_bytes / 8);
    double batch[N_BATCHES];

    for (int b = -1; b < N_BATCHES; b++) { /* the first one warms up */
        int64_t start;

        GR_TRY(gr_pg_barrier(pg));
        start = gr_now_ns();
        for (int64_t i = 0; i < n_calls; i++)
            GR_TRY(call(pg, mem, n_bytes / sizeof(float)));
        if (b >= 0)
            batch[b] = (double)(gr_now_ns() - start) / (double)n_calls * 1e-3;
    }
    qsort(batch, N_BATCHES, sizeof(batch[0]), by_size);
    us[0] = batch[0];
    us[1] = batch[N_BATCHES / 2];
    return GR_OK;
}

static gr_status run(gr_pg *pg)
{
    static const size_t sizes[] = { 4u << 10, 64u << 10, 1u << 20, 16u << 20, MAX_BYTES };
    double factor = 2.0 * (gr_pg_size(pg) - 1) / gr_pg_size(pg);
    float *mem = (float *)calloc(MAX_BYTES, 1);
    gr_status st = GR_OK;
    void *base;

    if (!mem)
        return gr_fail(GR_ERR_NOMEM, "no memory for %zu bytes", MAX_BYTES);
    st = gr_pg_exchange(pg, NULL, MAX_BYTES, &base);
    if (gr_pg_rank(pg) == 0)
        printf("%d ranks, %d cores, f32 average; us: best, median (bus GB/s)\n%10s %27s %27s\n",
               gr_pg_size(pg), gr_cpu_count(), "bytes", "exchange", "staged");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && st == GR_OK; i++) {
        double x[2], s[2];

        st = measure(pg, in_exchange, base, sizes[i], x);
        if (st == GR_OK)
            st = measure(pg, staged, mem, sizes[i], s);
        if (st == GR_OK && gr_pg_rank(pg) == 0)
            printf("%10zu %9.1f %9.1f (%5.1f) %9.1f %9.1f (%5.1f)\n", sizes[i], x[0], x[1],
                   factor * (double)sizes[i] / x[0] * 1e-3, s[0], s[1],
                   factor * (double)sizes[i] / s[0] * 1e-3);
    }
    free(mem);
    return st;
}

int main(void)
{
    gr_pg *pg = NULL;
    gr_status st = gr_pg_create(&pg, NULL);

    if (st == GR_OK)
        st = run(pg);
    if (st != GR_OK)
        fprintf(stderr, "allreduce: %s: %s\n", gr_status_text(st), gr_error_message());
    gr_pg_destroy(pg);
    return st == GR_OK ? 0 : st == GR_ERR_PEER ? GR_EXIT_PEER : 1;
}

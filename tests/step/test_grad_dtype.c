/*
 * Gradients in 16 bits between ranks: exact where 16 bits hold the numbers, near f32's results
 * where they do not, the same bits on all ranks, over shm and tcp, with accumulation and in
 * several buckets. What f16 cannot hold skips the update on all ranks (P4).
 */
#include <math.h>
#include <pthread.h>

#include "base/cpu.h"
#include "base/half.h"
#include "check.h"
#include "op/collective/wire_kernels.h"
#include "step/world.h"

#define MAX_RANKS 4

typedef struct run {
    gr_step_config c;
    bool exact;
    int n_steps;
    float lift; /* times the targets: how large gradients are */
    const char *transport;
} run;

typedef struct rank_run {
    const run *r;
    gr_pg *pg;
    gr_snapshot *end;
    gr_step_stats stats;
    pthread_t thread;
} rank_run;

static void *rank_main(void *arg)
{
    rank_run *r = arg;
    gr_step_config c = r->r->c;
    batch *b = malloc(sizeof(*b));
    int world = gr_pg_size(r->pg), n = 32 / world / c.accumulate;
    gr_step *s;

    c.pg = r->pg;
    GR_CHECK_OK(gr_step_create(&s, &c));
    for (int i = 0; i < r->r->n_steps; i++)
        for (int m = 0; m < c.accumulate; m++) {
            batch_fill(b, r->r->exact, i, (m * world + gr_pg_rank(r->pg)) * n, n);
            for (int k = 0; r->r->exact && k < n * 5; k++)
                b->t[k] *= r->r->lift;
            GR_CHECK_OK(gr_step_train(s, b->feeds, 2, 0.125));
        }
    GR_CHECK_OK(gr_step_get_stats(s, &r->stats));
    GR_CHECK_OK(gr_step_save(s, &r->end));
    gr_step_destroy(s);
    gr_pg_destroy(r->pg);
    free(b);
    return NULL;
}

static void run_ranks_of(const run *x, int n, rank_run *r)
{
    gr_pg_config pc = GR_PG_CONFIG_INIT;
    gr_pg *pg[MAX_RANKS];

    pc.timeout_ms = 240000;
    pc.transport = x->transport;
    GR_CHECK_OK(gr_pg_create_threads(pg, n, &pc));
    for (int i = 0; i < n; i++) {
        r[i] = (rank_run){ .r = x, .pg = pg[i] };
        GR_CHECK_EQ(pthread_create(&r[i].thread, NULL, rank_main, &r[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(r[i].thread, NULL);
    for (int i = 1; i < n; i++)
        check_same_state(r[0].end, r[i].end);
}

static void forget(rank_run *r, int n)
{
    for (int i = 0; i < n; i++)
        gr_snapshot_destroy(r[i].end);
}

static run make(bool exact, gr_dtype wire, int accumulate)
{
    gr_step_config c = GR_STEP_CONFIG_INIT;

    c.trace = exact ? trace_exact : trace_mlp;
    c.device = "cpu";
    c.seed = 2;
    c.accumulate = accumulate;
    c.grad_dtype = wire;
    c.optim.momentum = 0.5;
    c.first_bucket_bytes = 64;
    c.bucket_bytes = 512;
    return (run){ .c = c, .exact = exact, .n_steps = exact ? 1 : 10, .lift = 1 };
}

/* Whole numbers over 32: gradients of the first step have few bits, so nothing is rounded. */
static void test_exact(gr_dtype wire, int n_ranks, int accumulate)
{
    run wide = make(true, GR_F32, accumulate), low = make(true, wire, accumulate);
    rank_run a[MAX_RANKS], b[MAX_RANKS];

    run_ranks_of(&wide, n_ranks, a);
    run_ranks_of(&low, n_ranks, b);
    check_same_state(a[0].end, b[0].end);
    forget(a, n_ranks);
    forget(b, n_ranks);
}

static double distance(const gr_snapshot *a, const gr_snapshot *b)
{
    double most = 0;

    for (int i = 0; i < gr_snapshot_count(a); i++) {
        const gr_named *x = gr_snapshot_at(a, i), *y = gr_snapshot_find(b, x->name);

        for (int64_t k = 0; x->dtype == GR_F32 && k < gr_shape_count(&x->shape); k++)
            most =
                fmax(most, fabs((double)(((const float *)x->mem)[k] - ((const float *)y->mem)[k])));
    }
    return most;
}

/* Over both transports: the same bits; and near f32, but not the same. */
static void test_near(gr_dtype wire, int n_ranks, int accumulate, double near)
{
    run wide = make(false, GR_F32, accumulate), low = make(false, wire, accumulate), tcp = low;
    rank_run a[MAX_RANKS], b[MAX_RANKS], c[MAX_RANKS];
    double off;

    tcp.transport = "tcp";
    run_ranks_of(&wide, n_ranks, a);
    run_ranks_of(&low, n_ranks, b);
    run_ranks_of(&tcp, n_ranks, c);
    check_same_state(b[0].end, c[0].end);
    off = distance(a[0].end, b[0].end);
    printf("%s, %d ranks, %d micro-steps: %.1e off\n", gr_dtype_name(wire), n_ranks, accumulate,
           off);
    GR_CHECK(off > 0 && off < near);
    forget(a, n_ranks);
    forget(b, n_ranks);
    forget(c, n_ranks);
}

/* Gradients of a million do not fit f16: no update, on no rank, and none of them is broken. */
static void test_overflow(void)
{
    run low = make(true, GR_F16, 1);
    rank_run a[2], b[2];

    low.lift = 1e6f;
    low.n_steps = 2;
    run_ranks_of(&low, 2, a);
    GR_CHECK_EQ(a[0].stats.n_skipped, 2);
    GR_CHECK_EQ(a[1].stats.n_skipped, 2);
    GR_CHECK_NEAR(*(const float *)gr_snapshot_find(a[0].end, "w1")->mem, 1, 0);
    GR_CHECK_NEAR(*(const float *)gr_snapshot_find(a[0].end, "w2")->mem, -1, 0);
    low.c.grad_dtype = GR_BF16; /* which has the room of f32 */
    run_ranks_of(&low, 2, b);
    GR_CHECK_EQ(b[0].stats.n_skipped, 0);
    GR_CHECK(*(const float *)gr_snapshot_find(b[0].end, "w1")->mem != 1.0f);
    forget(a, 2);
    forget(b, 2);
}

/* The fast loops have the bits of the slow ones, for every length and every kind of number. */
static void test_loops(void)
{
    enum { N = 1 << 16 };
    float *x = malloc(N * sizeof(*x)), *back[2];
    uint16_t *low[2];

    for (int k = 0; k < 2; k++) {
        back[k] = malloc(N * sizeof(float));
        low[k] = malloc(N * sizeof(uint16_t));
    }
    for (uint32_t i = 0; i < N; i++) { /* every upper half, with lower halves that tie or not */
        uint32_t bits = i << 16 | (i % 3 == 0 ? 0x8000u : i * 2654435761u >> 16);

        memcpy(&x[i], &bits, sizeof(bits));
    }
    for (int f16 = 0; f16 < 2; f16++)
        for (size_t n = N; n > N - 20; n--) {
            (f16 ? gr_wire_f16_pack_ref : gr_wire_bf16_pack_ref)(low[0], x, n);
            gr_wire_loops_avx2.pack[f16](low[1], x, n);
            (f16 ? gr_wire_f16_unpack_ref : gr_wire_bf16_unpack_ref)(back[0], low[0], n);
            gr_wire_loops_avx2.unpack[f16](back[1], low[0], n);
            for (size_t i = 0; i < n; i++) {
                bool both_nan = isnan(back[0][i]) && isnan(back[1][i]);

                GR_CHECK(both_nan || memcmp(&back[0][i], &back[1][i], 4) == 0);
                GR_CHECK(low[0][i] == low[1][i] || isnan(x[i]));
            }
            for (size_t i = 0; i < n; i++) /* NaN stays NaN */
                GR_CHECK(!isnan(x[i]) ||
                         isnan(f16 ? gr_f16_to_f32(low[1][i]) : gr_bf16_to_f32(low[1][i])));
        }
    for (int k = 0; k < 2; k++) {
        free(back[k]);
        free(low[k]);
    }
    free(x);
}

static void test_refused(void)
{
    run x = make(true, GR_I32, 1);
    gr_step *s;

    GR_CHECK_EQ(gr_step_create(&s, &x.c), GR_ERR_ARG);
    GR_CHECK(strstr(gr_error_message(), "grad_dtype") != NULL);
}

int main(void)
{
    if (gr_cpu_has_avx2())
        test_loops();
    test_exact(GR_F16, 2, 1);
    test_exact(GR_F16, 4, 2);
    test_near(GR_F16, 3, 1, 1e-3); /* 2^-11 of gradients near 1, ten steps of 1/8 */
    test_near(GR_BF16, 2, 2, 1e-2);
    test_near(GR_BF16, 4, 1, 1e-2);
    test_overflow();
    test_refused();
    return 0;
}

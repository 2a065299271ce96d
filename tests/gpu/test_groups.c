/*
 * Groups on a GPU: ipc between threads and between processes, nccl between processes, all
 * on one GPU. Sums are compared with the law (comm/reduce.h): bit by bit for ipc, within
 * rounding for NCCL. Then one rank dies, and the other must say so in time. P13: no rank sets a
 * device by hand; the library has one before it opens a group.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/half.h"
#include "comm/reduce.h"
#include "comm/world.h"
#include "gpu/gpu.h"
#include "tests/check.h"

#include <unistd.h>

#define MAX_ELEM 100007

typedef struct wanted {
    const char *group;
    gr_dtype dtype;
    gr_reduce op;
    size_t n_elem;
    bool exact;
} wanted;

/* Element i of rank r: not a power of two, different on each rank. */
static double element(int rank, size_t i)
{
    return ((double)(i * 37 % 1009) - 500.0) * 0.01 * (rank + 1) + 0.3 * rank;
}

static void put(gr_dtype t, void *mem, size_t i, double x)
{
    switch ((int)t) {
    case GR_F32: ((float *)mem)[i] = (float)x; break;
    case GR_F64: ((double *)mem)[i] = x; break;
    case GR_BF16: ((uint16_t *)mem)[i] = gr_f32_to_bf16((float)x); break;
    case GR_F16: ((uint16_t *)mem)[i] = gr_f32_to_f16((float)x); break;
    default: ((int32_t *)mem)[i] = (int32_t)x; break;
    }
}

static double get(gr_dtype t, const void *mem, size_t i)
{
    switch ((int)t) {
    case GR_F32: return (double)((const float *)mem)[i];
    case GR_F64: return ((const double *)mem)[i];
    case GR_BF16: return (double)gr_bf16_to_f32(((const uint16_t *)mem)[i]);
    case GR_F16: return (double)gr_f16_to_f32(((const uint16_t *)mem)[i]);
    default: return ((const int32_t *)mem)[i];
    }
}

/* What every rank must hold afterwards, by the scalar kernel of the host. */
static void expect(const wanted *w, int n_ranks, void *out)
{
    size_t n_bytes = w->n_elem * gr_dtype_bytes(w->dtype) + 1;
    void *part[8];

    for (int r = 0; r < n_ranks; r++) {
        part[r] = gr_malloc_aligned(n_bytes);
        GR_CHECK(part[r]);
        for (size_t i = 0; i < w->n_elem; i++)
            put(w->dtype, part[r], i, element(r, i));
    }
    gr_reduce_scalar.fn[w->dtype][w->op](part, n_ranks, 0, w->n_elem,
                                         gr_reduce_scale(w->op, n_ranks));
    memcpy(out, part[0], n_bytes - 1);
    for (int r = 0; r < n_ranks; r++)
        gr_free(part[r]);
}

static void compare(const wanted *w, const void *got, const void *want)
{
    double eps = w->dtype == GR_BF16 ? 0x1p-7 : w->dtype == GR_F16 ? 0x1p-10 : 0x1p-22;

    for (size_t i = 0; i < w->n_elem; i++) {
        double a = get(w->dtype, got, i), b = get(w->dtype, want, i);

        if (w->exact)
            GR_CHECK_NEAR(a, b, 0);
        else
            GR_CHECK_NEAR(a, b, eps * (fabs(b) + 10.0));
    }
}

/* Two collectives in flight at once, three times over, at two offsets. */
static gr_status reduce_twice(gr_pg *pg, gr_device *d, const wanted *w, char *base)
{
    const gr_backend_ops *ops = d->ops;
    size_t n_bytes = w->n_elem * gr_dtype_bytes(w->dtype), step = (n_bytes + 127) / 64 * 64;
    gr_coll a = { .id = 0, .label = "first", .n_elem = w->n_elem, .dtype = w->dtype, .op = w->op },
            b = a;
    char *host, *want;

    b.id = 1;
    b.label = "second";
    b.offset = step;
    GR_TRY(ops->host_alloc(d, 2 * step, (void **)&host));
    want = gr_malloc(n_bytes + 1);
    GR_CHECK(want);
    expect(w, pg->size, want);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < w->n_elem; i++) {
            put(w->dtype, host, i, element(pg->rank, i));
            put(w->dtype, host + step, i, element(pg->rank, i));
        }
        GR_TRY(ops->upload(d, base, host, 2 * step));
        GR_TRY(gr_pg_start(pg, &a, ops->stream(d, GR_STREAM_COMPUTE)));
        GR_TRY(gr_pg_start(pg, &b, ops->stream(d, GR_STREAM_COMPUTE)));
        GR_TRY(gr_pg_finish(pg, &a, ops->stream(d, GR_STREAM_COMPUTE)));
        GR_TRY(gr_pg_finish(pg, &b, ops->stream(d, GR_STREAM_COMPUTE)));
        GR_TRY(ops->download(d, host, base, 2 * step));
        GR_TRY(ops->sync(d));
        compare(w, host, want);
        compare(w, host + step, want);
    }
    gr_free(want);
    ops->host_free(d, host);
    return GR_OK;
}

/* Start and finish recorded once and replayed: only where the group says it can. */
static gr_status reduce_replayed(gr_pg *pg, gr_device *d, float *base)
{
    const gr_backend_ops *ops = d->ops;
    gr_coll c = {
        .id = 7, .label = "replayed", .n_elem = 1000, .dtype = GR_F32, .op = GR_REDUCE_AVG
    };
    void *recorded;
    float *host;

    if (!pg->ops->can_capture)
        return GR_OK;
    GR_TRY(ops->host_alloc(d, 4000, (void **)&host));
    GR_TRY(gr_pg_start(pg, &c, ops->stream(d, GR_STREAM_COMPUTE)));
    GR_TRY(gr_pg_finish(pg, &c, ops->stream(d, GR_STREAM_COMPUTE)));
    GR_TRY(ops->sync(d));
    GR_TRY(ops->capture_begin(d));
    GR_TRY(gr_pg_start(pg, &c, ops->stream(d, GR_STREAM_COMPUTE)));
    GR_TRY(gr_pg_finish(pg, &c, ops->stream(d, GR_STREAM_COMPUTE)));
    GR_TRY(ops->capture_end(d, &recorded));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 1000; i++)
            host[i] = (float)(round * 10 + pg->rank);
        GR_TRY(ops->upload(d, base, host, 4000));
        GR_TRY(ops->capture_launch(d, recorded));
        GR_TRY(ops->download(d, host, base, 4000));
        GR_TRY(ops->sync(d));
        for (int i = 0; i < 1000; i++)
            GR_CHECK_NEAR(host[i], round * 10 + 0.5 * (pg->size - 1), 1e-5);
    }
    ops->capture_free(d, recorded);
    ops->host_free(d, host);
    return GR_OK;
}

/* Milliseconds of one all-reduce of 64 MiB, the best of five. */
static gr_status measure(gr_pg *pg, gr_device *d, const char *name)
{
    const gr_backend_ops *ops = d->ops;
    size_t n_elem = (size_t)16 << 20;
    gr_coll c = {
        .id = 0, .label = "64 MiB", .n_elem = n_elem, .dtype = GR_F32, .op = GR_REDUCE_AVG
    };
    double best = 1e9;
    void *base;

    GR_TRY(gr_pg_exchange(pg, d, n_elem * 4, &base));
    for (int i = 0; i < 5; i++) {
        int64_t start;

        GR_TRY(gr_pg_barrier(pg));
        start = gr_now_ns();
        GR_TRY(gr_pg_start(pg, &c, ops->stream(d, GR_STREAM_COMPUTE)));
        GR_TRY(gr_pg_finish(pg, &c, ops->stream(d, GR_STREAM_COMPUTE)));
        GR_TRY(ops->sync(d));
        best = fmin(best, (double)(gr_now_ns() - start) * 1e-6);
    }
    if (pg->rank == 0)
        printf("%s: all-reduce of 64 MiB over %d ranks: %.3f ms\n", name, pg->size, best);
    return GR_OK;
}

static gr_status check_all(gr_pg *pg, gr_device *d, const char *group)
{
    static const size_t counts[] = { 0, 1, 2, 10, 100, 10007, MAX_ELEM };
    static const gr_dtype types[] = { GR_F32, GR_F64, GR_BF16, GR_F16, GR_I32 };
    static const gr_reduce reductions[] = { GR_REDUCE_SUM, GR_REDUCE_AVG, GR_REDUCE_MAX };
    bool exact = strcmp(group, "ipc") == 0;
    void *base;

    GR_TRY(gr_pg_exchange(pg, d, 1000, &base));
    GR_TRY(gr_pg_exchange(pg, d, (size_t)MAX_ELEM * 16 + 1024, &base)); /* replaces it */
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
        for (size_t o = 0; o < 3; o++)
            for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
                wanted w = { group, types[t], reductions[o], counts[c], exact };

                if (w.op == GR_REDUCE_AVG && !gr_dtype_is_float(w.dtype))
                    continue;
                GR_TRY(gr_wrap(reduce_twice(pg, d, &w, base), "%s of %zu %s", gr_reduce_name(w.op),
                               w.n_elem, gr_dtype_name(w.dtype)));
            }
    GR_TRY(reduce_replayed(pg, d, base));
    return measure(pg, d, group);
}

static gr_status one_rank(gr_pg *host, void *arg)
{
    const char *group = arg;
    gr_device *d = gpu_open();
    gr_pg *pg;
    gr_status st = gpu_group(&pg, group, host, d);

    if (st == GR_OK) {
        st = check_all(pg, d, group);
        gr_pg_destroy(pg);
    }
    d->ops->close(d);
    return st;
}

/* What rank 1 does instead of its second collective, and what rank 0 must then say. */
typedef struct mishap {
    const char *group;
    bool stops; /* sleeps past the deadline, else dies */
    gr_status want;
    const char *part; /* of the message */
} mishap;

static gr_status reduce_once(gr_pg *pg, gr_device *d)
{
    gr_coll c = {
        .id = 0, .label = "bucket 0", .n_elem = 1000, .dtype = GR_F32, .op = GR_REDUCE_AVG
    };

    GR_TRY(gr_pg_start(pg, &c, d->ops->stream(d, GR_STREAM_COMPUTE)));
    GR_TRY(gr_pg_finish(pg, &c, d->ops->stream(d, GR_STREAM_COMPUTE)));
    return d->ops->sync(d);
}

static gr_status one_fails(gr_pg *host, void *arg)
{
    const mishap *m = arg;
    gr_device *d = gpu_open();
    int64_t start;
    void *base;
    gr_pg *pg;

    GR_TRY(gpu_group(&pg, m->group, host, d));
    GR_TRY(gr_pg_exchange(pg, d, 4096, &base));
    GR_TRY(reduce_once(pg, d));
    if (pg->rank == 1 && !m->stops)
        _exit(9);
    if (pg->rank == 1)
        sleep(2 * (unsigned)host->timeout_ms / 1000);
    start = gr_now_ns();
    if (pg->rank == 0) {
        GR_CHECK_FAILS(reduce_once(pg, d), m->want, m->part);
        GR_CHECK(strstr(gr_error_message(), "bucket 0"));
        printf("%s, rank 1 %s: %s\n", m->group, m->stops ? "stops" : "dies", gr_error_message());
    } else {
        GR_CHECK_EQ(reduce_once(pg, d), GR_ERR_PEER);
    }
    GR_CHECK(gr_now_ns() - start < 10000000000);
    gr_pg_destroy(pg);
    d->ops->close(d);
    return GR_OK;
}

static gr_status shared_gpu_is_refused(gr_pg *host, void *arg)
{
    gr_device *d = gpu_open();
    gr_pg *pg;

    (void)arg;
    unsetenv("NCCL_HOSTID");
    GR_CHECK_FAILS(gpu_group(&pg, "nccl", host, d), GR_ERR_ARG, "NCCL_HOSTID");
    GR_CHECK_OK(gr_pg_barrier(host)); /* found by all alike: the host group still works */
    d->ops->close(d);
    return GR_OK;
}

int main(void)
{
    static char ipc[] = "ipc", nccl[] = "nccl";
    static mishap mishaps[] = {
        { "ipc", false, GR_ERR_PEER, "rank 1" },
        { "nccl", false, GR_ERR_PEER, "rank 1" },
        { "ipc", true, GR_ERR_TIMEOUT, "rank 1" },
        { "nccl", true, GR_ERR_TIMEOUT, "has not finished" },
    };

    gpu_ranks(2, 60000, 0, one_rank, ipc);
    gpu_ranks(3, 60000, 0, one_rank, ipc);
    gpu_ranks(2, 60000, 0, one_rank, nccl);
    gpu_ranks(2, 60000, 0, shared_gpu_is_refused, NULL);
    for (size_t i = 0; i < sizeof(mishaps) / sizeof(mishaps[0]); i++)
        gpu_ranks(2, mishaps[i].stops ? 4000 : 60000, mishaps[i].stops ? 0 : 2, one_fails,
                  &mishaps[i]);
    /* Last: from here on this process itself uses the GPU, and can fork no more. */
    world_run(2, one_rank, ipc);
    return 0;
}

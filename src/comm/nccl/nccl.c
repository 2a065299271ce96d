/*
 * All-reduce by NCCL, on the stream that a start is queued on. The executor hands it the
 * device's exchange stream, which forks off where the gradients are there:
 *
 *     compute    ...gradients | event a |  ...more backward...        | waits for b | update
 *     exchange                waits for a | all-reduce | event b
 *
 * (1) Averages multiply by 1/size before the sum, as our own transports do.
 * (2) The communicator is non-blocking: every call may say "in progress", and is then
 *     asked after until the group's deadline, so that a missing rank is an error.
 * (3) NCCL itself never gives up. While the host waits for the GPU it calls nccl_watch(),
 *     which ends the communicator when a peer is gone or the deadline has passed.
 * (4) Before and after each collective its id is copied to host memory by the stream, so
 *     that such a message can name it, also in a replayed graph.
 *
 * start and finish queue work and nothing else: they may be recorded.
 */
#include "comm/nccl/nccl.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/half.h"
#include "base/log.h"
#include "comm/ipc/over.h"
#include "comm/nccl/api.h"

#include <stdio.h>

#define CHECK_EVERY_NS 5000000
#define CULPRIT_NS     500000000
#define LABEL          64
#define NOTHING        GR_MAX_COLLS /* in `running`: no collective */

typedef struct nccl_group {
    gr_over over; /* first: a gr_pg * is a nccl_group * */
    nccl_api api;
    ncclComm_t comm;
    ncclRedOp_t average[GR_DTYPE_COUNT]; /* floating types: 1/size, then sum */
    cudaEvent_t *done;                   /* [id]; made at the first start of that id */
    char (*label)[LABEL];                /* [id] */
    int *ids;                            /* device memory: 0, 1, ... NOTHING */
    volatile int *running;               /* host memory: what the stream is in */
    void *mem;                           /* exchange space; owned */
    size_t n_bytes;
    bool from_nccl; /* mem is ncclMemAlloc's */
} nccl_group;

static nccl_group *group_of(gr_pg *pg)
{
    return (nccl_group *)pg;
}

/* NCCL notices a closed connection before anybody says whose it was: waits a moment for
 * a peer to be missed, whose message then says more. */
static gr_status look_for_culprit(nccl_group *g)
{
    int64_t since = gr_now_ns(), now = since;
    gr_status st = GR_OK;

    while (st == GR_OK && now - since < CULPRIT_NS) {
        st = gr_over_check(&g->over);
        now = gr_now_ns();
        gr_over_pause(now - since);
    }
    return st;
}

static gr_status nccl_fail(nccl_group *g, ncclResult_t r, const char *what)
{
    gr_status st = r == ncclRemoteError ? GR_ERR_PEER : GR_ERR_DEVICE;
    gr_status known = look_for_culprit(g);
    const char *last = g->api.GetLastError(g->comm);

    if (known != GR_OK)
        return gr_wrap(known, "%s: NCCL: %s", what, g->api.GetErrorString(r));

    return gr_fail(st, "%s: NCCL: %s%s%s", what, g->api.GetErrorString(r),
                   last && *last ? "; " : "", last ? last : "");
}

static gr_status timed_out(const nccl_group *g, const char *what)
{
    return gr_fail(GR_ERR_TIMEOUT,
                   "%s: NCCL has not finished after %d ms; is every rank there, and "
                   "do they reach each other (NCCL_SOCKET_IFNAME, NCCL_DEBUG=INFO)?",
                   what, g->over.pg.timeout_ms);
}

/* The result of a call, asked after while it is in progress (2). */
static gr_status settle(nccl_group *g, ncclResult_t r, const char *what)
{
    int64_t since = gr_now_ns(), checked = since;
    gr_deadline end = gr_deadline_in_ms(g->over.pg.timeout_ms);

    while (r == ncclInProgress) {
        int64_t now = gr_now_ns();
        ncclResult_t asked = g->api.CommGetAsyncError(g->comm, &r);

        if (asked != ncclSuccess)
            return nccl_fail(g, asked, what);
        if (r != ncclInProgress)
            break;
        if (now - checked >= CHECK_EVERY_NS) {
            checked = now;
            GR_TRY(gr_wrap(gr_over_check(&g->over), "%s", what));
            if (gr_deadline_passed(end))
                return timed_out(g, what);
        }
        gr_over_pause(now - since);
    }
    return r == ncclSuccess ? GR_OK : nccl_fail(g, r, what);
}

/* ---- exchange space ---- */

static void drop_space(nccl_group *g)
{
    if (g->mem && g->from_nccl)
        g->api.MemFree(g->mem);
    else if (g->mem)
        cudaFree(g->mem);
    g->mem = NULL;
}

static gr_status nccl_exchange(gr_pg *pg, gr_device *dev, size_t n_bytes, void **base)
{
    nccl_group *g = group_of(pg);
    size_t room = n_bytes ? n_bytes : 1;

    if (dev != &g->over.dev->base)
        return gr_fail(GR_ERR_ARG, "the group belongs to another device");
    if (g->mem && n_bytes <= g->n_bytes) {
        *base = g->mem;
        return GR_OK;
    }
    GR_TRY(dev->ops->sync(dev));
    drop_space(g);
    /* Memory of NCCL's own can be read by the network directly; not every system has it. */
    g->from_nccl = g->api.MemAlloc(&g->mem, room) == ncclSuccess;
    if (!g->from_nccl) {
        (void)cudaGetLastError();
        GR_TRY(gr_cuda_check(cudaMalloc(&g->mem, room), "cudaMalloc"));
    }
    GR_TRY(dev->ops->zero(dev, g->mem, room));
    GR_TRY(dev->ops->sync(dev));
    g->n_bytes = n_bytes;
    *base = g->mem;
    return GR_OK;
}

/* ---- collectives ---- */

static gr_status vendor_type(gr_dtype t, ncclDataType_t *out)
{
    switch (t) {
    case GR_F32: *out = ncclFloat32; return GR_OK;
    case GR_F64: *out = ncclFloat64; return GR_OK;
    case GR_BF16: *out = ncclBfloat16; return GR_OK;
    case GR_F16: *out = ncclFloat16; return GR_OK;
    case GR_I32: *out = ncclInt32; return GR_OK;
    case GR_I64: *out = ncclInt64; return GR_OK;
    case GR_U8: *out = ncclUint8; return GR_OK;
    case GR_BOOL:
    case GR_DTYPE_COUNT: break;
    }
    return gr_fail(GR_ERR_ARG, "there is no reduction of %s elements", gr_dtype_name(t));
}

static gr_status vendor_op(const nccl_group *g, const gr_coll *c, ncclRedOp_t *out)
{
    switch (c->op) {
    case GR_REDUCE_SUM: *out = ncclSum; return GR_OK;
    case GR_REDUCE_MAX: *out = ncclMax; return GR_OK;
    case GR_REDUCE_MIN: *out = ncclMin; return GR_OK;
    case GR_REDUCE_PROD: *out = ncclProd; return GR_OK;
    case GR_REDUCE_OR: return gr_fail(GR_ERR_ARG, "NCCL has no bit-or");
    case GR_REDUCE_AVG: break;
    }
    if (!gr_dtype_is_float(c->dtype))
        return gr_fail(GR_ERR_ARG, "the average of %s elements is not defined",
                       gr_dtype_name(c->dtype));
    *out = g->average[c->dtype];
    return GR_OK;
}

static gr_status check_coll(const nccl_group *g, const gr_coll *c)
{
    size_t end = c->offset + c->n_elem * gr_dtype_bytes(c->dtype);

    if (c->id < 0 || c->id >= GR_MAX_COLLS)
        return gr_fail(GR_ERR_ARG, "all-reduce '%s': id %d is not below %d", c->label, c->id,
                       GR_MAX_COLLS);
    if (end > g->n_bytes)
        return gr_fail(GR_ERR_ARG, "all-reduce '%s': bytes %zu to %zu of an exchange space of %zu",
                       c->label, c->offset, end, g->n_bytes);
    return GR_OK;
}

/* Says in host memory what the stream does from here on (4). */
static gr_status mark(nccl_group *g, int id, cudaStream_t stream)
{
    return gr_cuda_check(cudaMemcpyAsync((void *)(uintptr_t)g->running, g->ids + id, sizeof(int),
                                         cudaMemcpyDeviceToHost, stream),
                         "cudaMemcpy");
}

static gr_status nccl_start(gr_pg *pg, const gr_coll *c, void *stream)
{
    nccl_group *g = group_of(pg);
    cudaStream_t on = gr_cuda_stream(stream);
    char *at = (char *)g->mem + c->offset;
    ncclDataType_t type = ncclFloat32;
    ncclRedOp_t op = ncclSum;
    cudaEvent_t *done;

    GR_TRY(check_coll(g, c));
    GR_TRY(vendor_type(c->dtype, &type));
    GR_TRY(vendor_op(g, c, &op));
    done = &g->done[c->id];
    if (!*done)
        GR_TRY(gr_cuda_check(cudaEventCreateWithFlags(done, cudaEventDisableTiming),
                             "cudaEventCreate"));
    snprintf(g->label[c->id], LABEL, "%s", c->label ? c->label : "");
    GR_TRY(mark(g, c->id, on));
    GR_TRY(settle(g, g->api.AllReduce(at, at, c->n_elem, type, op, g->comm, on), g->label[c->id]));
    GR_TRY(mark(g, NOTHING, on));
    return gr_cuda_check(cudaEventRecord(*done, on), "cudaEventRecord");
}

static gr_status nccl_finish(gr_pg *pg, const gr_coll *c, void *stream)
{
    nccl_group *g = group_of(pg);

    GR_TRY(check_coll(g, c));
    if (!g->done[c->id])
        return gr_fail(GR_ERR_ARG, "all-reduce %d '%s' is finished but was not started", c->id,
                       c->label);
    return gr_cuda_check(cudaStreamWaitEvent(gr_cuda_stream(stream), g->done[c->id], 0),
                         "cudaStreamWaitEvent");
}

/* ---- watching ---- */

static void end_comm(nccl_group *g)
{
    if (g->comm)
        g->api.CommAbort(g->comm);
    g->comm = NULL;
}

static gr_status look(nccl_group *g, int64_t waited_ns)
{
    ncclResult_t r = ncclSuccess, asked;

    GR_TRY(gr_over_check(&g->over));
    if (!g->comm)
        return gr_fail(GR_ERR_PEER, "NCCL was ended after a failure");
    asked = g->api.CommGetAsyncError(g->comm, &r);
    if (asked != ncclSuccess || (r != ncclSuccess && r != ncclInProgress))
        return nccl_fail(g, asked != ncclSuccess ? asked : r, "collective");
    if (waited_ns >= (int64_t)g->over.pg.timeout_ms * 1000000)
        return timed_out(g, "collective");
    return GR_OK;
}

static gr_status nccl_watch(void *arg, int64_t waited_ns)
{
    nccl_group *g = (nccl_group *)arg;
    int id = *g->running;
    gr_status st = look(g, waited_ns);

    if (st == GR_OK)
        return GR_OK;
    if (id >= 0 && id < GR_MAX_COLLS)
        st = gr_wrap(st, "in all-reduce %d '%s'", id, g->label[id]);
    if (g->over.pg.broken == GR_OK) {
        g->over.pg.broken = st;
        gr_over_abort(&g->over.pg, gr_error_message());
    }
    end_comm(g);
    return st;
}

/* ---- making and ending ---- */

static void nccl_destroy(gr_pg *pg)
{
    nccl_group *g = group_of(pg);
    gr_cuda_device *d;
    bool is_fine;

    if (!g)
        return;
    d = g->over.dev;
    is_fine = d && !d->is_lost && pg->broken == GR_OK && g->over.host->broken == GR_OK;
    if (d && d->watch.arg == g)
        d->watch = (gr_cuda_watch){ NULL, NULL };
    /* Leaving is done together; after a failure everybody leaves alone. */
    if (g->comm && is_fine) {
        GR_IGNORE(d->base.ops->sync(&d->base));
        if (settle(g, g->api.CommFinalize(g->comm), "leaving NCCL") == GR_OK) {
            g->api.CommDestroy(g->comm);
            g->comm = NULL;
        }
    }
    end_comm(g);
    if (d && !d->is_lost) {
        for (int i = 0; i < GR_MAX_COLLS && g->done; i++)
            if (g->done[i])
                cudaEventDestroy(g->done[i]);
        drop_space(g);
        d->base.ops->free(&d->base, g->ids);
        d->base.ops->host_free(&d->base, (void *)(uintptr_t)g->running);
        nccl_api_unload(&g->api);
    }
    gr_over_fini(&g->over);
    gr_free(g->label);
    gr_free(g->done);
    gr_free(g);
}

static const gr_pg_ops nccl_ops = {
    .name = "nccl",
    .can_capture = true,
    .exchange = nccl_exchange,
    .start = nccl_start,
    .finish = nccl_finish,
    .poll = gr_over_poll,
    .gather_bytes = gr_over_gather_bytes,
    .run = gr_over_run,
    .begin = gr_over_begin,
    .split = gr_over_split,
    .describe = gr_over_describe,
    .abort = gr_over_abort,
    .destroy = nccl_destroy,
};

/* What ranks tell each other before they join. All see the same, so all fail alike. */
typedef struct ready_card {
    char trouble[200]; /* why this rank cannot join; "" when it can */
    char gpu[32];      /* bus id; "" when several ranks on it are wanted */
} ready_card;

static gr_status compare_ready(const nccl_group *g, char *const *all)
{
    for (int a = 0; a < g->over.pg.size; a++) {
        const ready_card *x = (const ready_card *)(const void *)all[a];

        if (x->trouble[0])
            return gr_fail(GR_ERR_ARG, "rank %d: %s", a, x->trouble);
        for (int b = a + 1; b < g->over.pg.size; b++) {
            const ready_card *y = (const ready_card *)(const void *)all[b];

            /* NCCL's own message does not say how to go on. */
            if (x->gpu[0] && strcmp(x->gpu, y->gpu) == 0)
                return gr_fail(GR_ERR_ARG,
                               "ranks %d and %d share the GPU at %s: take group 'ipc', or give "
                               "each rank an NCCL_HOSTID of its own",
                               a, b, x->gpu);
        }
    }
    return GR_OK;
}

static gr_status get_ready(nccl_group *g)
{
    ready_card mine = { "", "" };
    bool may_share = getenv("NCCL_HOSTID") || getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    gr_status st = nccl_api_load(&g->api);
    char **all;

    if (st == GR_OK && !may_share && g->over.is_one_host)
        st = gr_cuda_check(
            cudaDeviceGetPCIBusId(mine.gpu, (int)sizeof(mine.gpu), g->over.dev->base.index),
            "bus id");
    if (st != GR_OK)
        snprintf(mine.trouble, sizeof(mine.trouble), "%s", gr_error_message());
    GR_TRY(gr_pg_gather_bytes(g->over.host, &mine, sizeof(mine), &all, NULL));
    st = compare_ready(g, all);
    free(all);
    return st;
}

static gr_status make_comm(nccl_group *g)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    char **all;
    ncclResult_t r = ncclSuccess;

    memset(&id, 0, sizeof(id));
    if (g->over.pg.rank == 0)
        r = g->api.GetUniqueId(&id);
    /* Also after a failure: the others wait for these bytes. */
    GR_TRY(gr_pg_gather_bytes(g->over.host, &id, sizeof(id), &all, NULL));
    memcpy(&id, all[0], sizeof(id));
    free(all);
    if (r != ncclSuccess)
        return nccl_fail(g, r, "ncclGetUniqueId");
    config.blocking = 0;
    return settle(
        g, g->api.CommInitRankConfig(&g->comm, g->over.pg.size, id, g->over.pg.rank, &config),
        "joining");
}

/* 1/size as an element of each floating type. */
static gr_status make_averages(nccl_group *g)
{
    float f32 = 1.0f / (float)g->over.pg.size;
    double f64 = 1.0 / g->over.pg.size;
    uint16_t bf16 = gr_f32_to_bf16(f32), f16 = gr_f32_to_f16(f32);
    void *scalar[GR_DTYPE_COUNT] = {
        [GR_F32] = &f32, [GR_F64] = &f64, [GR_BF16] = &bf16, [GR_F16] = &f16
    };

    for (int t = 0; t < GR_DTYPE_COUNT; t++) {
        ncclDataType_t type = ncclFloat32;

        if (!scalar[t])
            continue;
        GR_TRY(vendor_type((gr_dtype)t, &type));
        GR_TRY(settle(g,
                      g->api.RedOpCreatePreMulSum(&g->average[t], scalar[t], type,
                                                  ncclScalarHostImmediate, g->comm),
                      "ncclRedOpCreatePreMulSum"));
    }
    return GR_OK;
}

static gr_status make_marks(nccl_group *g)
{
    gr_device *dev = &g->over.dev->base;
    int ids[GR_MAX_COLLS + 1];
    void *host;

    for (int i = 0; i <= GR_MAX_COLLS; i++)
        ids[i] = i;
    GR_TRY(dev->ops->host_alloc(dev, sizeof(int), &host));
    g->running = (volatile int *)host;
    *g->running = NOTHING;
    GR_TRY(dev->ops->alloc(dev, sizeof(ids), (void **)&g->ids));
    GR_TRY(dev->ops->upload(dev, g->ids, ids, sizeof(ids)));
    return dev->ops->sync(dev);
}

static gr_status join(nccl_group *g, gr_pg *host, gr_device *dev)
{
    int version = 0;

    GR_TRY(gr_over_init(&g->over, &nccl_ops, host, dev));
    g->done = (cudaEvent_t *)gr_calloc(GR_MAX_COLLS, sizeof(cudaEvent_t));
    g->label = (char(*)[LABEL])gr_calloc(GR_MAX_COLLS, sizeof(*g->label));
    if (!g->done || !g->label)
        return GR_ERR_NOMEM;
    GR_TRY(get_ready(g));
    if (g->api.GetVersion(&version) == ncclSuccess)
        gr_log(CUDA, DEBUG, "NCCL %d, rank %d of %d", version, host->rank, host->size);
    GR_TRY(make_marks(g));
    GR_TRY(make_comm(g));
    GR_TRY(make_averages(g));
    g->over.dev->watch = (gr_cuda_watch){ nccl_watch, g };
    return GR_OK;
}

gr_status gr_nccl_create(gr_pg **out, gr_pg *host, gr_device *dev)
{
    nccl_group *g = (nccl_group *)gr_calloc(1, sizeof(*g));
    gr_status st;

    if (!g)
        return GR_ERR_NOMEM;
    st = join(g, host, dev);
    if (st != GR_OK) {
        /* GR_ERR_ARG is found by every rank alike; else the others must not wait for us. */
        if (st != GR_ERR_ARG)
            gr_pg_abort(host, gr_error_message());
        g->over.pg.broken = st;
        nccl_destroy(&g->over.pg);
        return gr_wrap(st, "group 'nccl'");
    }
    *out = &g->over.pg;
    return GR_OK;
}

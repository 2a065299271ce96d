/*
 * All-reduce between ranks that can write to each other's memory: the exchange space of
 * every rank is mapped by all, through CUDA IPC between processes and directly between
 * threads of one process.
 *
 *              rank 0                     rank 1                     (for one collective)
 *     start    event s0, shows card       event s1, shows card
 *     finish   host: all cards there?     host: all cards there?
 *              stream waits for s1        stream waits for s0
 *              sums its half into both    sums its half into both
 *              event d0, shows it         event d1, shows it
 *              stream waits for d1        stream waits for d0
 *
 * (1) The host waits only for other hosts: until they have queued their part, never until
 *     a GPU is done. Such waits have the group's deadline and look after dead peers.
 * (2) Each collective id has events of its own. A rank starts an id again only after it
 *     finished it, which it can do only after all have queued their waits; so an event is
 *     never recorded anew while somebody still has to wait for its last record.
 * (3) Sums are taken in rank order, whoever takes them (sum.h).
 *
 * Because of (1) it cannot be part of a recorded step.
 */
#include "comm/ipc/ipc.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/ipc/shared.h"
#include "comm/ipc/sum.h"

#include <stdio.h>

#define CHECK_EVERY_NS 5000000
#define CLOSE_WAIT_NS  2000000000 /* at the end: for peers that still use our memory */
/* Small allocations share a block, and a handle would give away all of it. */
#define ALLOC_BYTES ((size_t)2 << 20)
#define LINE        64 /* shares are cut at multiples of it */

typedef struct ipc_pair {
    cudaEvent_t start, done; /* NULL: not made or not opened yet */
} ipc_pair;

typedef struct ipc {
    gr_over over; /* first: a gr_pg * is an ipc * */
    ipc_shared shared;
    void *mem;       /* this rank's exchange space; owned */
    size_t n_bytes;  /* of it */
    void **part;     /* exchange space of each rank, as mapped here */
    ipc_pair *event; /* [rank][id]; own ones are owned, others' opened */
} ipc;

static ipc *ipc_of(gr_pg *pg)
{
    return (ipc *)pg;
}

static bool is_same_process(const ipc *s, int rank)
{
    return s->over.pids[rank] == s->over.pids[s->over.pg.rank];
}

static ipc_card *card_of(const ipc *s, int rank, int id)
{
    return &s->shared.boards[rank].card[id];
}

static ipc_pair *pair_of(const ipc *s, int rank, int id)
{
    return &s->event[(size_t)rank * GR_MAX_COLLS + (size_t)id];
}

/* ---- exchange space ---- */

typedef struct mem_card {
    cudaIpcMemHandle_t handle;
    void *local;
    uint64_t n_bytes;
    int device;
} mem_card;

static void close_parts(ipc *s)
{
    for (int r = 0; r < s->over.pg.size; r++) {
        if (s->part[r] && r != s->over.pg.rank && !is_same_process(s, r))
            cudaIpcCloseMemHandle(s->part[r]);
        s->part[r] = NULL;
    }
}

/* Between processes opening a handle does this. */
static gr_status enable_access(int device)
{
    cudaError_t e = cudaDeviceEnablePeerAccess(device, 0);

    if (e == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError(); /* a known state, not an error to be found later */
        return GR_OK;
    }
    return gr_cuda_check(e, "cudaDeviceEnablePeerAccess");
}

static gr_status open_part(ipc *s, int rank, const mem_card *c)
{
    gr_status st;

    if (is_same_process(s, rank)) {
        s->part[rank] = c->local;
        if (c->device == s->over.dev->base.index)
            return GR_OK;
        return gr_wrap(enable_access(c->device), "memory of rank %d", rank);
    }
    st = gr_cuda_check(
        cudaIpcOpenMemHandle(&s->part[rank], c->handle, cudaIpcMemLazyEnablePeerAccess),
        "cudaIpcOpenMemHandle");
    return gr_wrap(st, "memory of rank %d", rank);
}

static gr_status open_parts(ipc *s, char *const *cards)
{
    for (int r = 0; r < s->over.pg.size; r++) {
        mem_card c;

        memcpy(&c, cards[r], sizeof(c));
        if (c.n_bytes != s->n_bytes)
            return gr_fail(GR_ERR_ARG,
                           "exchange space: rank %d wants %zu bytes, rank %d wants %llu",
                           s->over.pg.rank, s->n_bytes, r, (unsigned long long)c.n_bytes);
        GR_TRY(open_part(s, r, &c));
    }
    return GR_OK;
}

/* Nobody may have the old space mapped when its owner frees it: one meeting in between. */
static gr_status drop_space(ipc *s)
{
    gr_device *dev = &s->over.dev->base;

    GR_TRY(dev->ops->sync(dev));
    GR_TRY(gr_pg_barrier(s->over.host));
    close_parts(s);
    GR_TRY(gr_pg_barrier(s->over.host));
    dev->ops->free(dev, s->mem);
    s->mem = NULL;
    return GR_OK;
}

static gr_status ipc_exchange(gr_pg *pg, gr_device *dev, size_t n_bytes, void **base)
{
    ipc *s = ipc_of(pg);
    mem_card mine = { .n_bytes = n_bytes, .device = dev->index };
    char **cards;
    gr_status st;

    if (dev != &s->over.dev->base)
        return gr_fail(GR_ERR_ARG, "the group belongs to another device");
    if (s->mem && n_bytes <= s->n_bytes) {
        *base = s->mem;
        return GR_OK;
    }
    if (s->mem)
        GR_TRY(drop_space(s));
    GR_TRY(dev->ops->alloc(dev, (n_bytes / ALLOC_BYTES + 1) * ALLOC_BYTES, &s->mem));
    s->n_bytes = n_bytes;
    mine.local = s->mem;
    GR_TRY(gr_cuda_check(cudaIpcGetMemHandle(&mine.handle, s->mem), "cudaIpcGetMemHandle"));
    GR_TRY(gr_pg_gather_bytes(s->over.host, &mine, sizeof(mine), &cards, NULL));
    st = open_parts(s, cards);
    free(cards);
    GR_TRY(st);
    *base = s->mem;
    return GR_OK;
}

/* ---- events ---- */

static gr_status make_event(ipc *s, cudaEvent_t *out, ipc_event *shown)
{
    bool is_shared = false;
    unsigned flags = cudaEventDisableTiming;

    for (int r = 0; r < s->over.pg.size; r++)
        is_shared = is_shared || !is_same_process(s, r);
    if (is_shared)
        flags |= cudaEventInterprocess;
    GR_TRY(gr_cuda_check(cudaEventCreateWithFlags(out, flags), "cudaEventCreate"));
    shown->local = *out;
    if (!is_shared)
        return GR_OK;
    return gr_cuda_check(cudaIpcGetEventHandle(&shown->handle, *out), "cudaIpcGetEventHandle");
}

static gr_status open_event(const ipc *s, int rank, cudaEvent_t *out, const ipc_event *shown)
{
    if (*out)
        return GR_OK;
    if (is_same_process(s, rank)) {
        *out = shown->local;
        return GR_OK;
    }
    return gr_cuda_check(cudaIpcOpenEventHandle(out, shown->handle), "cudaIpcOpenEventHandle");
}

/* ---- collectives ---- */

static gr_status ipc_start(gr_pg *pg, const gr_coll *c, void *stream)
{
    ipc *s = ipc_of(pg);
    ipc_card *card;
    ipc_pair *pair;
    size_t end;

    if (c->id < 0 || c->id >= GR_MAX_COLLS)
        return gr_fail(GR_ERR_ARG, "all-reduce '%s': id %d is not below %d", c->label, c->id,
                       GR_MAX_COLLS);
    end = c->offset + c->n_elem * gr_dtype_bytes(c->dtype);
    if (c->offset % LINE != 0 || end > s->n_bytes)
        return gr_fail(GR_ERR_ARG, "all-reduce '%s': bytes %zu to %zu of an exchange space of %zu",
                       c->label, c->offset, end, s->n_bytes);
    card = card_of(s, pg->rank, c->id);
    pair = pair_of(s, pg->rank, c->id);
    if (!pair->start) {
        GR_TRY(make_event(s, &pair->start, &card->start));
        GR_TRY(make_event(s, &pair->done, &card->done));
    }
    GR_TRY(gr_cuda_check(cudaEventRecord(pair->start, gr_cuda_stream(stream)), "cudaEventRecord"));
    card->n_elem = c->n_elem;
    card->offset = c->offset;
    card->dtype = (int32_t)c->dtype;
    card->op = (int32_t)c->op;
    snprintf(card->label, sizeof(card->label), "%s", c->label ? c->label : "");
    __atomic_add_fetch(&card->n_started, 1, __ATOMIC_SEQ_CST);
    return GR_OK;
}

typedef enum stage { STARTED, DONE } stage;

static uint64_t count_of(const ipc *s, int rank, int id, stage what)
{
    ipc_card *card = card_of(s, rank, id);

    return __atomic_load_n(what == STARTED ? &card->n_started : &card->n_done, __ATOMIC_SEQ_CST);
}

static gr_status too_late(const gr_coll *c, int rank, stage what, int64_t waited_ns)
{
    return gr_fail(GR_ERR_TIMEOUT, "all-reduce %d '%s' waited %.1f s for rank %d to %s it", c->id,
                   c->label, (double)waited_ns * 1e-9, rank, what == STARTED ? "start" : "reduce");
}

/* Until `rank` has queued its stage of collective c for the n-th time. */
static gr_status wait_for(ipc *s, const gr_coll *c, int rank, stage what, uint64_t n)
{
    int64_t since = gr_now_ns(), checked = since;
    int64_t limit_ns = (int64_t)s->over.pg.timeout_ms * 1000000;

    while (count_of(s, rank, c->id, what) < n) {
        int64_t now = gr_now_ns();

        if (now - checked >= CHECK_EVERY_NS) {
            checked = now;
            GR_TRY(gr_wrap(gr_over_check(&s->over), "all-reduce %d '%s'", c->id, c->label));
        }
        if (now - since >= limit_ns)
            return too_late(c, rank, what, now - since);
        gr_over_pause(now - since);
    }
    return GR_OK;
}

static gr_status compare_cards(const ipc *s, const gr_coll *c, int rank)
{
    const ipc_card *theirs = card_of(s, rank, c->id);

    if (theirs->n_elem == c->n_elem && theirs->offset == c->offset &&
        theirs->dtype == (int32_t)c->dtype && theirs->op == (int32_t)c->op)
        return GR_OK;
    return gr_fail(GR_ERR_ARG,
                   "ranks call different collectives: rank %d reduces '%s' (%zu elements at %zu), "
                   "rank %d '%.*s' (%llu elements at %llu)",
                   s->over.pg.rank, c->label, c->n_elem, c->offset, rank, IPC_LABEL, theirs->label,
                   (unsigned long long)theirs->n_elem, (unsigned long long)theirs->offset);
}

/* Makes the stream wait for that stage on every other rank. */
static gr_status stream_wait_all(ipc *s, const gr_coll *c, stage what, uint64_t n,
                                 cudaStream_t stream)
{
    for (int r = 0; r < s->over.pg.size; r++) {
        ipc_pair *pair = pair_of(s, r, c->id);
        ipc_card *card = card_of(s, r, c->id);

        if (r == s->over.pg.rank)
            continue;
        GR_TRY(wait_for(s, c, r, what, n));
        if (what == STARTED) {
            GR_TRY(compare_cards(s, c, r));
            GR_TRY(open_event(s, r, &pair->start, &card->start));
            GR_TRY(open_event(s, r, &pair->done, &card->done));
        }
        GR_TRY(gr_cuda_check(
            cudaStreamWaitEvent(stream, what == STARTED ? pair->start : pair->done, 0),
            "cudaStreamWaitEvent"));
    }
    return GR_OK;
}

/* This rank's stretch, cut at multiples of LINE bytes. */
static gr_status sum_share(const ipc *s, const gr_coll *c, cudaStream_t stream)
{
    gr_ipc_sum sum = { .n_parts = s->over.pg.size, .dtype = c->dtype, .op = c->op };
    size_t per_line = LINE / gr_dtype_bytes(c->dtype), n = (size_t)s->over.pg.size;
    size_t n_lines = (c->n_elem + per_line - 1) / per_line;
    size_t share = (n_lines + n - 1) / n * per_line;
    size_t lo = share * (size_t)s->over.pg.rank, hi = lo + share;

    hi = hi < c->n_elem ? hi : c->n_elem;
    if (lo >= hi)
        return GR_OK;
    sum.first = lo;
    sum.n_elem = hi - lo;
    for (int r = 0; r < s->over.pg.size; r++)
        sum.part[r] = (char *)s->part[r] + c->offset;
    return gr_ipc_sum_run(&sum, stream);
}

static gr_status ipc_finish(gr_pg *pg, const gr_coll *c, void *stream)
{
    ipc *s = ipc_of(pg);
    cudaStream_t st = gr_cuda_stream(stream);
    ipc_card *card;
    uint64_t n;

    if (c->id < 0 || c->id >= GR_MAX_COLLS)
        return gr_fail(GR_ERR_ARG, "all-reduce '%s': id %d is not below %d", c->label, c->id,
                       GR_MAX_COLLS);
    card = card_of(s, pg->rank, c->id);
    n = __atomic_load_n(&card->n_started, __ATOMIC_SEQ_CST);
    if (n != __atomic_load_n(&card->n_done, __ATOMIC_SEQ_CST) + 1)
        return gr_fail(GR_ERR_ARG, "all-reduce %d '%s' is finished but was not started", c->id,
                       c->label);
    GR_TRY(stream_wait_all(s, c, STARTED, n, st));
    GR_TRY(sum_share(s, c, st));
    GR_TRY(
        gr_cuda_check(cudaEventRecord(pair_of(s, pg->rank, c->id)->done, st), "cudaEventRecord"));
    __atomic_store_n(&card->n_done, n, __ATOMIC_SEQ_CST);
    return stream_wait_all(s, c, DONE, n, st);
}

/* ---- making and ending ---- */

/* While the host waits for the stream: a peer's event may never come. */
static gr_status ipc_watch(void *arg, int64_t waited_ns)
{
    ipc *s = (ipc *)arg;

    GR_TRY(gr_over_check(&s->over));
    if (waited_ns >= (int64_t)s->over.pg.timeout_ms * 1000000)
        return gr_fail(GR_ERR_TIMEOUT, "the GPU has not finished after %d ms",
                       s->over.pg.timeout_ms);
    return GR_OK;
}

/* Memory of ours must not go while a peer has it mapped: waits a moment for all to close. */
static void wait_until_closed(ipc *s)
{
    int64_t since = gr_now_ns(), now = since;
    bool is_open = true;

    while (is_open && now - since < CLOSE_WAIT_NS && gr_over_check(&s->over) == GR_OK) {
        is_open = false;
        for (int r = 0; r < s->over.pg.size; r++)
            is_open =
                is_open || !__atomic_load_n(&s->shared.boards[r].has_closed, __ATOMIC_SEQ_CST);
        now = gr_now_ns();
        gr_over_pause(now - since);
    }
}

/* Of one rank: what it opened must go before the owner destroys its own. */
static void destroy_events(ipc *s, int rank)
{
    for (int i = 0; i < GR_MAX_COLLS; i++) {
        ipc_pair *p = pair_of(s, rank, i);

        if (p->start)
            cudaEventDestroy(p->start);
        if (p->done)
            cudaEventDestroy(p->done);
        *p = (ipc_pair){ NULL, NULL };
    }
}

/* Lets go of everything of other ranks, tells them, and then frees what is ours. */
static void release_device(ipc *s)
{
    gr_cuda_device *d = s->over.dev;
    int rank = s->over.pg.rank;

    GR_IGNORE(d->base.ops->sync(&d->base)); /* what fails here is lost anyway */
    if (s->part)
        close_parts(s);
    for (int r = 0; r < s->over.pg.size && s->event; r++)
        if (!is_same_process(s, r))
            destroy_events(s, r);
    if (s->shared.boards) {
        __atomic_store_n(&s->shared.boards[rank].has_closed, 1, __ATOMIC_SEQ_CST);
        wait_until_closed(s);
    }
    if (s->event)
        destroy_events(s, rank);
    d->base.ops->free(&d->base, s->mem);
}

static void ipc_destroy(gr_pg *pg)
{
    ipc *s = ipc_of(pg);
    gr_cuda_device *d;

    if (!s)
        return;
    d = s->over.dev;
    if (d && d->watch.arg == s)
        d->watch = (gr_cuda_watch){ NULL, NULL };
    /* With work stuck on the stream, freeing would wait for ever. */
    if (d && !d->is_lost)
        release_device(s);
    ipc_shared_close(&s->shared);
    gr_over_fini(&s->over);
    gr_free(s->event);
    gr_free(s->part);
    gr_free(s);
}

static const gr_pg_ops ipc_ops = {
    .name = "ipc",
    .can_capture = false,
    .exchange = ipc_exchange,
    .start = ipc_start,
    .finish = ipc_finish,
    .poll = gr_over_poll,
    .gather_bytes = gr_over_gather_bytes,
    .run = gr_over_run,
    .begin = gr_over_begin,
    .split = gr_over_split,
    .describe = gr_over_describe,
    .abort = gr_over_abort,
    .destroy = ipc_destroy,
};

static gr_status join(ipc *s, gr_pg *host, gr_device *dev)
{
    size_t n = (size_t)host->size;

    GR_TRY(gr_over_init(&s->over, &ipc_ops, host, dev));
    if (!s->over.is_one_host)
        return gr_fail(GR_ERR_ARG, "group 'ipc' is for ranks of one host; take 'nccl'");
    s->part = (void **)gr_calloc(n, sizeof(*s->part));
    s->event = (ipc_pair *)gr_calloc(n * GR_MAX_COLLS, sizeof(*s->event));
    if (!s->part || !s->event)
        return GR_ERR_NOMEM;
    GR_TRY(ipc_shared_open(&s->shared, &s->over));
    s->over.dev->watch = (gr_cuda_watch){ ipc_watch, s };
    return GR_OK;
}

gr_status gr_ipc_create(gr_pg **out, gr_pg *host, gr_device *dev)
{
    ipc *s;
    gr_status st;

    if (host->size > GR_IPC_MAX_RANKS)
        return gr_fail(GR_ERR_ARG, "group 'ipc' takes up to %d ranks, not %d", GR_IPC_MAX_RANKS,
                       host->size);
    s = (ipc *)gr_calloc(1, sizeof(*s));
    if (!s)
        return GR_ERR_NOMEM;
    s->shared.fd = -1;
    s->over.pg.size = 0;
    st = join(s, host, dev);
    if (st != GR_OK) {
        /* GR_ERR_ARG is found by every rank alike; else the others must not wait for us. */
        if (st != GR_ERR_ARG)
            gr_pg_abort(host, gr_error_message());
        ipc_destroy(&s->over.pg);
        return gr_wrap(st, "group 'ipc'");
    }
    *out = &s->over.pg;
    return GR_OK;
}

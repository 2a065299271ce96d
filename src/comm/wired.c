/* Process groups over wires. */
#include "comm/wired.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"
#include "comm/lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A reduction in the exchange space, written once. */
typedef struct slot {
    gr_job_work *work; /* owned here while it is not open */
    size_t offset, n_elem;
    gr_dtype dtype;
    gr_reduce op;
    gr_call_kind kind;
} slot;

typedef struct wired {
    gr_pg pg; /* first: a gr_pg * is a wired * */
    const gr_wired_kind *kind;
    gr_engine engine;
    char *exchange; /* owned */
    size_t exchange_bytes;
    slot slots[GR_MAX_COLLS];
} wired;

/* ---- lanes ---- */

/* All ranks meet again, in the group, for one more wire. */
static gr_status add_lane(wired *g, const gr_meet *m, const gr_pg_config *config)
{
    int *ranks = (int *)gr_calloc((size_t)m->size, sizeof(*ranks));
    gr_part all = { ranks, m->size, m->rank };
    gr_wire *wire = NULL;
    gr_meet_pg in_pg;
    gr_meet again;
    gr_status st;

    if (!ranks)
        return GR_ERR_NOMEM;
    for (int r = 0; r < m->size; r++)
        ranks[r] = r;
    gr_meet_in_pg(&again, &in_pg, &g->pg, &all);
    again.is_threads = m->is_threads;
    again.most_lanes = 1;
    again.is_lane = true;
    memcpy(again.address, m->address, sizeof(again.address));
    memcpy(again.token, m->token, sizeof(again.token));
    st = g->kind->make_wire(&wire, &again, config);
    gr_free(ranks);
    return st == GR_OK ? gr_lanes_add(g->engine.lanes, wire) : st;
}

static gr_status open_lanes(wired *g, const gr_meet *m, const gr_pg_config *config)
{
    gr_pg_call least = { .kind = GR_CALL_ALLREDUCE,
                         .dtype = GR_I32,
                         .n_elem = 1,
                         .op = GR_REDUCE_MIN,
                         .label = "lanes" };
    int32_t n_lanes;

    if (g->engine.wire->n_lanes <= 1)
        return GR_OK;
    GR_TRY(gr_lanes_create(&g->engine.lanes, &g->engine));
    for (int i = 1; i < g->engine.wire->n_lanes; i++)
        GR_TRY(gr_wrap(add_lane(g, m, config), "lane %d", i));
    n_lanes = gr_lanes_start(g->engine.lanes);
    least.dst = &n_lanes;
    GR_TRY(gr_pg_run(&g->pg, &least));
    gr_lanes_limit(g->engine.lanes, n_lanes);
    g->engine.wire->n_lanes = gr_lanes_count(g->engine.lanes);
    return GR_OK;
}

/* ---- making and ending ---- */

gr_status gr_wired_create(gr_pg **out, const gr_wired_kind *kind, gr_meet *m,
                          const gr_pg_config *config, int local_rank)
{
    gr_pg_call barrier = { .kind = GR_CALL_BARRIER, .label = "join" };
    wired *g = (wired *)gr_calloc(1, sizeof(*g));
    gr_wire *wire = NULL;
    gr_hosts hosts = { .n = 1 };
    gr_status st;

    if (!g)
        return GR_ERR_NOMEM;
    g->pg = (gr_pg){ .ops = &kind->ops,
                     .rank = m->rank,
                     .size = m->size,
                     .local_rank = local_rank,
                     .timeout_ms = config->timeout_ms };
    g->kind = kind;
    st = kind->make_wire(&wire, m, config);
    if (st == GR_OK) {
        if (wire->hosts)
            hosts = *wire->hosts;
        st = gr_engine_init(&g->engine, &g->pg, wire, &hosts);
    }
    if (st == GR_OK)
        st = gr_pg_run(&g->pg, &barrier);
    if (st == GR_OK)
        st = open_lanes(g, m, config);
    if (st != GR_OK) {
        gr_error e;

        gr_error_take(&e, st);
        gr_wired_destroy(&g->pg);
        return gr_error_raise(&e);
    }
    *out = &g->pg;
    return GR_OK;
}

void gr_wired_destroy(gr_pg *pg)
{
    wired *g = (wired *)pg;

    if (!g)
        return;
    gr_engine_leave(&g->engine);
    gr_lanes_destroy(g->engine.lanes); /* before the works: they hold parts of them */
    g->engine.lanes = NULL;
    for (int i = 0; i < GR_MAX_COLLS; i++)
        if (g->slots[i].work && !g->slots[i].work->is_open)
            gr_engine_recycle(&g->engine, g->slots[i].work);
    gr_engine_fini(&g->engine);
    gr_free(g->exchange);
    gr_free(g);
}

void gr_wired_abort(gr_pg *pg, const char *why)
{
    gr_engine_abort(&((wired *)pg)->engine, why);
}

/* ---- the exchange space ---- */

static void forget_slots(wired *g)
{
    for (int i = 0; i < GR_MAX_COLLS; i++) {
        if (g->slots[i].work)
            gr_engine_recycle(&g->engine, g->slots[i].work);
        g->slots[i].work = NULL;
    }
}

gr_status gr_wired_exchange(gr_pg *pg, gr_device *dev, size_t n_bytes, void **base)
{
    wired *g = (wired *)pg;

    if (dev && !dev->ops->has_host_memory)
        return gr_fail(GR_ERR_ARG, "group '%s' has no memory on device '%s'", pg->ops->name,
                       dev->ops->name);
    for (int i = 0; i < GR_MAX_COLLS; i++)
        if (g->slots[i].work && g->slots[i].work->is_open)
            return gr_fail(GR_ERR_ARG, "'%s' is started and not finished", g->slots[i].work->label);
    if (!g->exchange || n_bytes > g->exchange_bytes) {
        forget_slots(g);
        gr_free(g->exchange);
        g->exchange_bytes = 0;
        g->exchange = (char *)gr_malloc_aligned(n_bytes ? n_bytes : 1);
        if (!g->exchange)
            return GR_ERR_NOMEM;
        memset(g->exchange, 0, n_bytes);
        g->exchange_bytes = n_bytes;
    }
    *base = g->exchange;
    return GR_OK;
}

static gr_status check_coll(const wired *g, const gr_coll *c)
{
    size_t n_bytes, end;

    if (c->id < 0 || c->id >= GR_MAX_COLLS)
        return gr_fail(GR_ERR_ARG, "collective %d is not below %d", c->id, GR_MAX_COLLS);
    GR_TRY(gr_size_mul(&n_bytes, c->n_elem, gr_dtype_bytes(c->dtype)));
    GR_TRY(gr_size_add(&end, c->offset, n_bytes));
    if (end > g->exchange_bytes || c->offset % 64 != 0)
        return gr_fail(GR_ERR_ARG,
                       "bytes %zu to %zu do not lie in the exchange space of %zu bytes, "
                       "or not at a multiple of 64",
                       c->offset, end, g->exchange_bytes);
    if (g->slots[c->id].work && g->slots[c->id].work->is_open)
        return gr_fail(GR_ERR_ARG, "collective %d is started again before it is finished", c->id);
    return GR_OK;
}

static gr_status start(wired *g, const gr_coll *c)
{
    slot *s;
    size_t n_blocks = c->kind == GR_CALL_ALLREDUCE ? 1 : (size_t)g->pg.size;
    gr_pg_call call = { .kind = c->kind,
                        .dtype = c->dtype,
                        .n_elem = c->n_elem / n_blocks,
                        .op = c->op,
                        .label = c->label };

    GR_TRY(check_coll(g, c));
    s = &g->slots[c->id];
    if (s->work && s->offset == c->offset && s->n_elem == c->n_elem && s->dtype == c->dtype &&
        s->op == c->op && s->kind == c->kind &&
        strncmp(s->work->label, c->label ? c->label : "", GR_LABEL - 1) == 0)
        return gr_engine_again(&g->engine, s->work);
    if (s->work)
        gr_engine_recycle(&g->engine, s->work);
    *s = (slot){
        .offset = c->offset, .n_elem = c->n_elem, .dtype = c->dtype, .op = c->op, .kind = c->kind
    };
    call.dst = g->exchange + c->offset;
    GR_TRY(gr_call_check(&g->pg, &call, &call));
    return gr_engine_begin(&g->engine, &call, (gr_place_id){ c->id + 1, c->offset }, &s->work);
}

gr_status gr_wired_start(gr_pg *pg, const gr_coll *c, void *stream)
{
    (void)stream;
    return gr_wrap(start((wired *)pg, c), "%s '%s'", gr_coll_name(c), c->label ? c->label : "");
}

gr_status gr_wired_finish(gr_pg *pg, const gr_coll *c, void *stream)
{
    wired *g = (wired *)pg;
    gr_job_work *w;

    (void)stream;
    if (c->id < 0 || c->id >= GR_MAX_COLLS || !g->slots[c->id].work ||
        !g->slots[c->id].work->is_open)
        return gr_fail(GR_ERR_ARG, "%s %d '%s' is finished but was not started", gr_coll_name(c),
                       c->id, c->label ? c->label : "");
    w = g->slots[c->id].work;
    GR_TRY(gr_engine_wait(&g->engine, w));
    gr_engine_close(&g->engine, w);
    return GR_OK;
}

gr_status gr_wired_poll(gr_pg *pg)
{
    return gr_engine_move(&((wired *)pg)->engine);
}

/* ---- calls ---- */

gr_status gr_wired_run(gr_pg *pg, const gr_pg_call *c)
{
    wired *g = (wired *)pg;
    gr_job_work *w = NULL;

    GR_TRY(gr_engine_begin(&g->engine, c, (gr_place_id){ 0, 0 }, &w));
    GR_TRY(gr_engine_wait(&g->engine, w));
    gr_engine_recycle(&g->engine, w);
    return GR_OK;
}

gr_status gr_wired_begin(gr_pg *pg, const gr_pg_call *c, gr_work **out)
{
    wired *g = (wired *)pg;
    gr_job_work *w = NULL;

    GR_TRY(gr_engine_begin(&g->engine, c, (gr_place_id){ 0, 0 }, &w));
    *out = &w->base;
    return GR_OK;
}

gr_status gr_wired_test(gr_work *work, bool *is_done)
{
    gr_job_work *w = (gr_job_work *)work;

    GR_TRY(gr_engine_move(w->engine));
    *is_done = gr_work_is_done(w);
    return GR_OK;
}

gr_status gr_wired_finish_work(gr_work *work)
{
    gr_job_work *w = (gr_job_work *)work;

    GR_TRY(gr_engine_wait(w->engine, w));
    gr_engine_recycle(w->engine, w);
    return GR_OK;
}

/* ---- everybody's bytes ---- */

static gr_status gather(gr_pg *pg, const void *src, size_t n_bytes, char ***out, size_t *sizes)
{
    gr_pg_call lengths = { .kind = GR_CALL_ALLGATHER,
                           .dtype = GR_I64,
                           .src = &n_bytes,
                           .dst = sizes,
                           .n_elem = 1,
                           .label = "lengths" };
    gr_pg_call bytes = { .kind = GR_CALL_ALLGATHER, .dtype = GR_U8, .src = src, .counts = sizes };
    size_t total = 0;
    char *mem;
    gr_status st;

    GR_TRY(gr_wired_run(pg, &lengths));
    for (int r = 0; r < pg->size; r++)
        GR_TRY(gr_size_add(&total, total, sizes[r]));
    mem = (char *)gr_malloc(total + 1);
    if (!mem)
        return GR_ERR_NOMEM;
    bytes.dst = mem;
    bytes.src = src ? src : mem;
    st = gr_wired_run(pg, &bytes);
    if (st == GR_OK)
        st = gr_bytes_table(out, mem, sizes, pg->size);
    gr_free(mem);
    return st;
}

gr_status gr_wired_gather_bytes(gr_pg *pg, const void *src, size_t n_bytes, char ***out,
                                size_t *sizes)
{
    size_t *n = (size_t *)gr_calloc((size_t)pg->size, sizeof(*n));
    gr_status st;

    if (!n)
        return GR_ERR_NOMEM;
    st = gather(pg, src, n_bytes, out, n);
    if (st == GR_OK && sizes)
        memcpy(sizes, n, (size_t)pg->size * sizeof(*n));
    gr_free(n);
    return st;
}

/* ---- sub-groups ---- */

gr_status gr_wired_split(gr_pg *pg, const gr_part *part, gr_pg **out)
{
    wired *g = (wired *)pg;
    gr_pg_config config = { .timeout_ms = pg->timeout_ms };
    gr_meet_pg in_pg;
    gr_meet m;

    gr_meet_in_pg(&m, &in_pg, pg, part);
    m.is_threads = g->engine.wire->is_threads;
    m.most_lanes = gr_lanes_count(g->engine.lanes);
    if (g->engine.wire->address)
        snprintf(m.address, sizeof(m.address), "%s", g->engine.wire->address);
    if (part->n == 0)
        return gr_meet_outside(&in_pg);
    return gr_wired_create(out, g->kind, &m, &config, pg->local_rank);
}

void gr_wired_describe(const gr_pg *pg, gr_text *text)
{
    const wired *g = (const wired *)pg;

    g->engine.wire->ops->describe(g->engine.wire, text);
    gr_choose_print(text);
}

/* The exchange space: making it, and collectives on what lies there. */
#include "comm/shm/shm.h"

#include "base/pages.h"
#include "base/size.h"
#include "comm/reduce.h"

#include <stdio.h>
#include <string.h>

/* ---- making the space ---- */

static gr_status make_parts(gr_shm *s, size_t n_bytes)
{
    shm_world *w = s->world;

    if (w->is_threads)
        return shm_segment_anonymous(&w->exchange, n_bytes);
    GR_TRY(shm_segment_create(&w->exchange, n_bytes, SHM_LARGE_PAGES));
    s->head->exchange_fd = w->exchange.fd;
    return GR_OK;
}

/* Round 1: nobody uses the old space any more. Round 2: rank 0 has made the new one.
 * Round 3: everybody has mapped it and given its own part pages. */
static gr_status replace_parts(gr_shm *s, const gr_what *what)
{
    size_t stride =
        gr_round_up(what->n_elem ? what->n_elem : 1,
                    what->n_elem >= GR_LARGE_PAGE_BYTES ? GR_LARGE_PAGE_BYTES : GR_PAGE_BYTES);
    shm_world *w = s->world;
    bool is_mine = s->pg.rank == 0 || !w->is_threads;
    size_t n_bytes;

    GR_TRY(gr_size_mul(&n_bytes, stride, (size_t)s->pg.size));
    GR_TRY(shm_round(s, what, NULL, 0));
    s->parts = NULL;
    s->part_bytes = 0;
    if (is_mine)
        shm_segment_close(&w->exchange);
    if (s->pg.rank == 0)
        GR_TRY(make_parts(s, n_bytes));
    GR_TRY(shm_round(s, what, NULL, 0));
    if (s->pg.rank != 0 && is_mine)
        GR_TRY(shm_segment_open(&w->exchange, w->owner_pid, s->head->exchange_fd, n_bytes,
                                SHM_LARGE_PAGES));
    GR_TRY(shm_segment_populate(&w->exchange, (size_t)s->pg.rank * stride, stride));
    GR_TRY(shm_round(s, what, NULL, 0));
    if (!w->is_threads) {
        shm_segment_hide(&w->exchange);
        GR_TRY(shm_segment_populate(&w->exchange, 0, n_bytes));
    }
    s->parts = (char *)w->exchange.mem;
    s->part_bytes = what->n_elem;
    s->part_stride = stride;
    return GR_OK;
}

gr_status shm_exchange(gr_pg *pg, gr_device *dev, size_t n_bytes, void **base)
{
    gr_shm *s = (gr_shm *)pg;
    gr_what what = { .kind = GR_WHAT_EXCHANGE, .n_elem = n_bytes };

    if (dev && !dev->ops->has_host_memory)
        return gr_fail(GR_ERR_ARG, "group 'shm' has no memory on device '%s'", dev->ops->name);
    for (int i = 0; i < GR_MAX_COLLS; i++)
        if (s->is_open[i])
            return gr_fail(GR_ERR_ARG, "'%s' is started and not finished",
                           s->ranks[pg->rank].coll[i].label);
    /* All ranks have equal sizes, so all take the same way; the round checks it. */
    if (s->parts && n_bytes <= s->part_bytes)
        GR_TRY(shm_round(s, &what, NULL, 0));
    else
        GR_TRY(replace_parts(s, &what));
    *base = s->parts + (size_t)pg->rank * s->part_stride;
    return GR_OK;
}

/* ---- collectives ---- */

static gr_status check(const gr_shm *s, const gr_coll *c)
{
    size_t n_bytes, end;

    if (c->id < 0 || c->id >= GR_MAX_COLLS)
        return gr_fail(GR_ERR_ARG, "collective %d is not below %d", c->id, GR_MAX_COLLS);
    GR_TRY(gr_size_mul(&n_bytes, c->n_elem, gr_dtype_bytes(c->dtype)));
    GR_TRY(gr_size_add(&end, c->offset, n_bytes));
    if (end > s->part_bytes || c->offset % SHM_LINE != 0)
        return gr_fail(GR_ERR_ARG,
                       "bytes %zu to %zu do not lie in the exchange space of %zu bytes, "
                       "or not at a multiple of 64",
                       c->offset, end, s->part_bytes);
    return GR_OK;
}

static gr_status start(gr_shm *s, const gr_coll *c)
{
    uint64_t number = s->n_started;
    size_t i = number % GR_MAX_COLLS;
    shm_rank *me = &s->ranks[s->pg.rank];
    gr_fold_fn *fn;

    GR_TRY(check(s, c)); /* own mistakes before those of others */
    if (c->kind != GR_CALL_ALLGATHER)
        GR_TRY(gr_fold_pick(&fn, c->dtype, c->op));
    if (s->is_open[i] || s->number_of[c->id] != 0)
        return gr_fail(GR_ERR_ARG, "collective %d is started again before it is finished", c->id);
    GR_TRY(shm_alive(s));
    s->is_open[i] = true;
    s->number_of[c->id] = number + 1;
    s->n_started++;
    me->coll[i].what = (gr_what){ .kind = c->rows ? GR_WHAT_ROWS : (int32_t)c->kind,
                                  .id = c->id + 1,
                                  .dtype = (int32_t)c->dtype,
                                  .op = (int32_t)c->op,
                                  .n_ranks = s->pg.size,
                                  .n_elem = c->n_elem,
                                  .detail = c->offset,
                                  .agreed = s->pg.agreed_name ? s->pg.agreed : 0 };
    gr_label_put(me->coll[i].label, c->label);
    atom64_hint(&me->last, number * 4 + SHM_GOAL_DONE);
    shm_share_open(s, number);
    shm_publish(s, &me->coll[i].number, number + 1);
    return shm_progress(s, SHM_BUSY);
}

gr_status shm_start(gr_pg *pg, const gr_coll *c, void *stream)
{
    (void)stream;
    return gr_wrap(start((gr_shm *)pg, c), "%s '%s'", gr_coll_name(c), c->label ? c->label : "");
}

/* ---- what comes of it ---- */

/* Counts the collectives that all have started, and compares what they say they are. */
static gr_status find_ready(gr_shm *s)
{
    for (; s->n_ready < s->n_started; s->n_ready++) {
        size_t i = s->n_ready % GR_MAX_COLLS;
        const shm_card *mine = &s->ranks[s->pg.rank].coll[i];

        for (; s->next_started < s->pg.size; s->next_started++) {
            shm_card *theirs = &s->ranks[s->next_started].coll[i];

            if (atom64_get(&theirs->number) != s->n_ready + 1)
                return GR_OK;
            if (memcmp(&mine->what, &theirs->what, sizeof(gr_what)) != 0)
                return shm_mismatch(s, s->next_started, mine, theirs);
        }
        s->next_started = 0;
    }
    return GR_OK;
}

gr_status shm_progress(gr_shm *s, shm_haste haste)
{
    if (s->engine.open)
        GR_TRY(gr_engine_move(&s->engine));
    GR_TRY(find_ready(s));
    while (!shm_has_done(s, s->pg.rank, s->n_ready)) {
        uint64_t number = s->n_done[s->pg.rank];

        if (haste == SHM_BUSY && shm_may_spin(s) && atom32_get(&s->head->n_waiting) > 0)
            return GR_OK;
        GR_TRY(shm_share_work(s, number));
        if (!shm_has_done(s, s->pg.rank, number + 1))
            return GR_OK; /* others have pieces of it */
    }
    return GR_OK;
}

gr_status shm_poll(gr_pg *pg)
{
    gr_shm *s = (gr_shm *)pg;

    GR_TRY(shm_alive(s));
    return shm_progress(s, SHM_BUSY);
}

gr_status shm_finish(gr_pg *pg, const gr_coll *c, void *stream)
{
    gr_shm *s = (gr_shm *)pg;
    uint64_t number;

    (void)stream;
    if (c->id < 0 || c->id >= GR_MAX_COLLS || s->number_of[c->id] == 0)
        return gr_fail(GR_ERR_ARG, "%s %d '%s' is finished but was not started", gr_coll_name(c),
                       c->id, c->label ? c->label : "");
    number = s->number_of[c->id] - 1;
    GR_TRY(shm_wait(
        s, (shm_goal){ .kind = SHM_GOAL_DONE, .number = number, .own_only = c->own_only }));
    s->last_of[c->id] = s->number_of[c->id];
    s->number_of[c->id] = 0;
    s->is_open[number % GR_MAX_COLLS] = false;
    return GR_OK;
}

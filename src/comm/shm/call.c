/*
 * Calls of a shared-memory group: through the staging slots where that is fastest and the
 * call is run from end to end, else by messages through the rings.
 */
#include "comm/shm/shm.h"

#include <stdio.h>
#include <string.h>

/* Shows the others which call this rank has begun. */
static void show_card(gr_shm *s, const gr_job_work *w)
{
    uint64_t number = s->n_begun++;
    shm_rank *me = &s->ranks[s->pg.rank];
    shm_card *card = &me->call[number % SHM_CALLS];

    atom64_set(&card->number, 0);
    card->what = w->what;
    card->n_bytes = w->seq;
    memcpy(card->label, w->label, GR_LABEL);
    atom64_set(&card->number, number + 1);
    atom64_hint(&me->last, number * 4 + SHM_GOAL_CALL);
}

static gr_status begin(gr_shm *s, const gr_pg_call *c, gr_job_work **w)
{
    GR_TRY(shm_alive(s));
    if (s->ring_bytes == 0)
        return gr_fail(GR_ERR_ARG, "%d ranks on one host are too many for calls by messages",
                       s->pg.size);
    GR_TRY(gr_engine_begin(&s->engine, c, (gr_place_id){ 0, 0 }, w));
    (*w)->order = s->n_begun;
    show_card(s, *w);
    return GR_OK;
}

static gr_status finish(gr_shm *s, gr_job_work *w)
{
    GR_TRY(shm_wait(s, (shm_goal){ .kind = SHM_GOAL_CALL, .number = w->order, .work = w }));
    gr_engine_recycle(&s->engine, w);
    return GR_OK;
}

gr_status shm_run(gr_pg *pg, const gr_pg_call *c)
{
    gr_shm *s = (gr_shm *)pg;
    gr_job_work *w;

    if (c->kind == GR_CALL_ALLREDUCE)
        return shm_allreduce(s, c);
    if (c->kind == GR_CALL_BROADCAST)
        return shm_broadcast(s, c);
    if (c->kind == GR_CALL_BARRIER)
        return shm_barrier(s, c);
    GR_TRY(begin(s, c, &w));
    return finish(s, w);
}

gr_status shm_begin(gr_pg *pg, const gr_pg_call *c, gr_work **out)
{
    gr_job_work *w;

    GR_TRY(begin((gr_shm *)pg, c, &w));
    *out = &w->base;
    return GR_OK;
}

gr_status shm_work_test(gr_work *work, bool *is_done)
{
    gr_job_work *w = (gr_job_work *)work;

    GR_TRY(shm_poll(work->pg));
    *is_done = gr_work_is_done(w);
    return GR_OK;
}

gr_status shm_work_finish(gr_work *work)
{
    return finish((gr_shm *)work->pg, (gr_job_work *)work);
}

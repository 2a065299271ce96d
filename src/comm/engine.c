/* Calls under way: beginning them, moving them on, comparing them with the peers'. */
#include "comm/lanes.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOVES     8    /* rounds of moving before whoever waits looks at the clock */
#define SETTLE_MS 7000 /* for a farewell, where the wire does not say how long */

/* ---- comparing ---- */

static gr_status compare(const gr_engine *e, const gr_seen *mine, int peer, const gr_seen *theirs)
{
    gr_side a = { e->pg->rank, &mine->what, mine->label };
    gr_side b = { peer, &theirs->what, theirs->label };

    if (memcmp(&mine->what, &theirs->what, sizeof(gr_what)) == 0)
        return GR_OK;
    return gr_what_differ(&a, &b, e->pg->agreed_name);
}

/* Something is known about a call of a peer: has this rank been there? */
static gr_status compare_seen(const gr_engine *e, int peer, const gr_seen *theirs)
{
    const gr_seen *mine = &e->recent[theirs->seq % GR_RECENT];

    if ((theirs->seq & GR_SEQ_PAIR) || !mine->is_set || mine->seq != theirs->seq)
        return GR_OK;
    return compare(e, mine, peer, theirs);
}

/* This rank begins a call: what do those say who were there before? */
static gr_status compare_early(const gr_engine *e, const gr_seen *mine)
{
    for (int r = 0; r < e->pg->size; r++) {
        const gr_parcel *p = gr_inbox_find(&e->wire->inboxes[r], mine->seq);
        gr_seen theirs;

        if (r == e->pg->rank)
            continue;
        if (e->peers[r].waits.is_set && e->peers[r].waits.seq == mine->seq)
            GR_TRY(compare(e, mine, r, &e->peers[r].waits));
        if (!p)
            continue;
        theirs = (gr_seen){ .seq = p->frame.seq, .is_set = true, .what = p->frame.what };
        memcpy(theirs.label, p->frame.label, GR_LABEL);
        GR_TRY(compare(e, mine, r, &theirs));
    }
    return GR_OK;
}

static gr_status on_frame(void *arg, int peer, const gr_head *f, const char *text)
{
    gr_engine *e = (gr_engine *)arg;
    gr_seen seen = { .seq = f->seq, .is_set = true, .what = f->what };

    memcpy(seen.label, f->label, GR_LABEL);
    switch (f->type) {
    case GR_HEAD_MESSAGE: e->peers[peer].last = seen; return compare_seen(e, peer, &seen);
    case GR_HEAD_WAITS: e->peers[peer].waits = seen; return compare_seen(e, peer, &seen);
    case GR_HEAD_ABORT:
        e->aborted = true;
        return gr_fail(GR_ERR_PEER, "rank %d broke the group: %s", peer, text);
    case GR_HEAD_BYE: e->peers[peer].left = true; return GR_OK;
    case GR_HEAD_WAKE:
    case GR_HEAD_TYPES: break;
    }
    return gr_fail(GR_ERR_FORMAT, "rank %d sent a message of type %d", peer, (int)f->type);
}

/* ---- making and ending ---- */

static gr_status read_piece(size_t *n_bytes)
{
    const char *text = getenv("GR_COMM_PIECE");
    char *end;
    unsigned long n;

    *n_bytes = GR_PIECE_BYTES;
    if (!text || !*text)
        return GR_OK;
    n = strtoul(text, &end, 10);
    if (*end != '\0' || n < 64 || n > 2 * GR_PIECE_BYTES)
        return gr_fail(GR_ERR_ARG, "GR_COMM_PIECE is '%.40s'; it must be 64 to %zu bytes", text,
                       2 * GR_PIECE_BYTES);
    *n_bytes = n & ~63ul;
    return GR_OK;
}

gr_status gr_engine_init(gr_engine *e, gr_pg *pg, gr_wire *wire, const gr_hosts *hosts)
{
    *e = (gr_engine){ .pg = pg, .wire = wire, .hosts = *hosts, .forced = getenv("GR_COMM_ALGO") };
    wire->user = (gr_wire_user){ e, on_frame };
    e->peers = (gr_peer *)gr_calloc((size_t)pg->size, sizeof(*e->peers));
    if (!e->peers)
        return GR_ERR_NOMEM;
    GR_TRY(read_piece(&e->piece_bytes));
    return gr_choose_check(e->forced);
}

static void free_works(gr_job_work *w)
{
    while (w) {
        gr_job_work *next = w->next;

        gr_lanes_free_parts(w);
        gr_sched_fini(&w->sched);
        gr_free(w);
        w = next;
    }
}

void gr_engine_fini(gr_engine *e)
{
    if (e->wire)
        e->wire->ops->destroy(e->wire); /* before the works: it holds their messages */
    free_works(e->open);
    free_works(e->spare);
    gr_free(e->peers);
    memset(e, 0, sizeof(*e));
}

/* ---- calls ---- */

static gr_job_work *take_work(gr_engine *e)
{
    gr_job_work *w = e->spare;

    if (w) {
        e->spare = w->next;
        gr_sched_clear(&w->sched);
        w->n_parts = 0;
        return w;
    }
    w = (gr_job_work *)gr_calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->base.pg = e->pg;
    w->engine = e;
    if (gr_sched_init(&w->sched, e->pg->size) == GR_OK)
        return w;
    gr_sched_fini(&w->sched);
    gr_free(w);
    return NULL;
}

static gr_algo_args args_of(gr_engine *e, gr_sched *s, const gr_pg_call *c)
{
    return (gr_algo_args){ .sched = s,
                           .call = c,
                           .rank = e->pg->rank,
                           .size = e->pg->size,
                           .hosts = e->hosts,
                           .piece_bytes = e->piece_bytes,
                           .has_patience = e->wire->has_patience,
                           .elem_bytes = c->kind == GR_CALL_BARRIER ? 1 : gr_dtype_bytes(c->dtype),
                           .n_lanes = 1 };
}

gr_status gr_engine_write(gr_engine *e, gr_job_work *w, const gr_pg_call *c, int n_lanes)
{
    gr_algo_args a = args_of(e, &w->sched, c);

    a.lane = e->lane;
    a.n_lanes = n_lanes;
    GR_TRY(gr_choose(&a, e->forced)(&a));
    return w->sched.status;
}

static gr_status write_schedules(gr_engine *e, gr_job_work *w, const gr_pg_call *c)
{
    gr_algo_args a = args_of(e, &w->sched, c);
    bool is_cut_up = gr_lanes_count(e->lanes) > 1 && gr_choose_lanes(&a, gr_choose(&a, e->forced));

    if (c->kind == GR_CALL_ALLREDUCE || c->kind == GR_CALL_REDUCE ||
        c->kind == GR_CALL_REDUCE_SCATTER)
        GR_TRY(gr_fold_pick(&w->sched.fn, c->dtype, c->op));
    if (is_cut_up)
        GR_TRY(gr_lanes_write(e->lanes, w, c));
    return gr_engine_write(e, w, c, is_cut_up ? gr_lanes_count(e->lanes) : 1);
}

static uint64_t next_number(gr_engine *e, const gr_pg_call *c)
{
    if (c->kind == GR_CALL_SEND)
        return GR_SEQ_PAIR | e->peers[c->root].n_to++;
    if (c->kind == GR_CALL_RECV)
        return GR_SEQ_PAIR | e->peers[c->root].n_from++;
    return e->n_calls++;
}

/* Collectives are remembered and compared; of pairs only the receiver can compare. */
static gr_status announce(gr_engine *e, const gr_job_work *w)
{
    gr_seen mine = { .seq = w->seq, .is_set = true, .what = w->what };

    memcpy(mine.label, w->label, GR_LABEL);
    if (!(w->seq & GR_SEQ_PAIR))
        e->recent[w->seq % GR_RECENT] = mine;
    return w->seq & GR_SEQ_PAIR ? GR_OK : compare_early(e, &mine);
}

static gr_status set_off(gr_engine *e, gr_job_work *w)
{
    gr_job_work **at = &e->open;

    gr_sched_name(&w->sched, w->seq, &w->what, w->label);
    while (*at)
        at = &(*at)->next;
    w->next = NULL;
    *at = w;
    w->is_open = true;
    GR_TRY(announce(e, w));
    return gr_engine_move(e);
}

/* On lane 0; the others have the call first, and work while this one does. */
static gr_status set_off_all(gr_engine *e, gr_job_work *w)
{
    atom32_set(&w->has_complained, 0);
    if (w->n_parts > 0)
        gr_lanes_post(e->lanes, w);
    return set_off(e, w);
}

gr_status gr_engine_set_off(gr_engine *e, gr_job_work *part)
{
    gr_sched_rewind(&part->sched);
    part->seq = e->n_calls++;
    return set_off(e, part);
}

gr_status gr_engine_begin(gr_engine *e, const gr_pg_call *c, gr_place_id where, gr_job_work **out)
{
    gr_job_work *w = take_work(e);
    gr_status st;

    if (!w)
        return GR_ERR_NOMEM;
    gr_call_what(e->pg, c, &w->what);
    w->what.id = where.id;
    if (where.offset > 0)
        w->what.detail = where.offset;
    gr_label_put(w->label, c->label);
    st = write_schedules(e, w, c);
    if (st != GR_OK) {
        w->next = e->spare;
        e->spare = w;
        return st;
    }
    w->seq = next_number(e, c);
    *out = w;
    return set_off_all(e, w);
}

gr_status gr_engine_again(gr_engine *e, gr_job_work *w)
{
    gr_sched_rewind(&w->sched);
    w->what.agreed = e->pg->agreed_name ? e->pg->agreed : 0;
    w->seq = e->n_calls++;
    return set_off_all(e, w);
}

gr_status gr_engine_move(gr_engine *e)
{
    bool moved = true;

    if (e->lanes)
        GR_TRY(gr_lanes_check(e->lanes));
    /* Not for ever: a rank that runs ahead can send faster than this one looks up. */
    for (int i = 0; i < MOVES && moved; i++) {
        moved = false;
        for (gr_job_work *w = e->open; w; w = w->next)
            if (!gr_sched_is_done(&w->sched))
                GR_TRY(gr_sched_move(&w->sched, e->wire));
        GR_TRY(e->wire->ops->move(e->wire, &moved));
        e->n_moved += moved;
    }
    return GR_OK;
}

bool gr_work_is_done(const gr_job_work *w)
{
    return gr_sched_is_done(&w->sched) && (w->n_parts == 0 || atom32_get(&w->n_left) == 0);
}

void gr_engine_close(gr_engine *e, gr_job_work *w)
{
    gr_job_work **at = &e->open;

    while (*at && *at != w)
        at = &(*at)->next;
    if (*at)
        *at = w->next;
    w->is_open = false;
    w->next = NULL;
}

void gr_engine_recycle(gr_engine *e, gr_job_work *w)
{
    gr_engine_close(e, w);
    w->next = e->spare;
    e->spare = w;
}

/* ---- the end ---- */

static void tell_all(gr_engine *e, const gr_head *f, const char *text)
{
    for (int r = 0; r < e->pg->size; r++)
        if (r != e->pg->rank && !e->peers[r].left)
            e->wire->ops->tell(e->wire, r, f, text);
}

void gr_engine_abort(gr_engine *e, const char *why)
{
    gr_head f = { .type = GR_HEAD_ABORT };

    if (e->wire && !e->aborted)
        tell_all(e, &f, why);
    if (e->wire && e->wire->ops->halt)
        e->wire->ops->halt(e->wire);
    if (e->lanes)
        gr_lanes_abort(e->lanes, why);
    e->aborted = true;
}

void gr_engine_leave(gr_engine *e)
{
    gr_head f = { .type = GR_HEAD_BYE };

    if (!e->wire || !e->peers)
        return;
    tell_all(e, &f, "");
    if (!e->aborted) { /* a broken group has nothing to lose, and nobody to wait for */
        int ms = e->wire->silence_ms > 0 ? e->wire->silence_ms : SETTLE_MS;

        e->wire->ops->settle(e->wire, e->pg->timeout_ms < ms ? e->pg->timeout_ms : ms);
    }
}

/*
 * Waiting over a wire, and what to say about those who do not come.
 *
 * A rank that has waited for a second tells all others in which call. So each knows of
 * the others: they wait too (in the same call, or in another one: that is then the
 * failure), they left, or they have said nothing and are busy or stopped.
 */
#include "base/log.h"
#include "comm/lanes.h"

#include <stdio.h>
#include <string.h>

#define SPIN_NS  200000
#define TELL_NS  1000000000
#define LATE_NS  5000000000
#define SLICE_MS 100

#define SILENT_MS 2000 /* of a host that says nothing; less is a slow network, or a busy system */

static bool waits_in(const gr_engine *e, int rank, const gr_job_work *w)
{
    return e->peers[rank].waits.is_set && e->peers[rank].waits.seq == w->seq;
}

/* "rank 2 (process 17 on 'b', busy or stopped; last seen in all-reduce 'loss')". What a host said
 * before it fell silent is old: that it is silent is the news. */
static void describe_peer(const gr_engine *e, int rank, const gr_job_work *w, char *text,
                          size_t n_bytes)
{
    const gr_peer *p = &e->peers[rank];
    char where[120] = "", what[GR_WHAT_TEXT];
    int silent_ms = e->wire->ops->silent_ms ? e->wire->ops->silent_ms(e->wire, rank) : 0;

    e->wire->ops->peer_text(e->wire, rank, where, sizeof(where));
    if (p->left)
        snprintf(text, n_bytes, "rank %d (%s; it left)", rank, where);
    else if (silent_ms >= SILENT_MS)
        snprintf(text, n_bytes, "rank %d (%s; its host has not answered for %d of at most %d s)",
                 rank, where, silent_ms / 1000, e->wire->silence_ms / 1000);
    else if (p->waits.is_set && p->waits.seq >= w->seq && !(p->waits.seq & GR_SEQ_PAIR))
        snprintf(text, n_bytes, "rank %d (%s; it waits in %s)", rank, where,
                 gr_what_text(&p->waits.what, p->waits.label, what, sizeof(what)));
    else if (p->last.is_set)
        snprintf(text, n_bytes, "rank %d (%s; alive, busy or stopped; last seen in %s)", rank,
                 where, gr_what_text(&p->last.what, p->last.label, what, sizeof(what)));
    else
        snprintf(text, n_bytes, "rank %d (%s; alive, busy or stopped; in no call yet)", rank,
                 where);
}

/* Those who wait in this very call are not to blame, unless nobody else is left. */
static void describe_missing(const gr_engine *e, const gr_job_work *w, char *text, size_t n_bytes)
{
    size_t at = 0;

    text[0] = '\0';
    for (int again = 0; again < 2 && at == 0; again++)
        for (int r = 0; r < e->pg->size && at + 8 < n_bytes; r++) {
            char peer[400];
            int n;

            if (r == e->pg->rank || (!again && waits_in(e, r, w)) ||
                (again && !gr_sched_waits_for(&w->sched, r)))
                continue;
            if (!again && !gr_sched_waits_for(&w->sched, r) && e->peers[r].last.is_set &&
                e->peers[r].last.seq >= w->seq)
                continue; /* has been there, and owes nothing */
            describe_peer(e, r, w, peer, sizeof(peer));
            n = snprintf(text + at, n_bytes - at, "%s%s", at ? ", " : "", peer);
            at += n > 0 ? (size_t)n : 0;
        }
    if (at == 0)
        snprintf(text, n_bytes, "%s", GR_NOBODY_TEXT);
}

gr_status gr_engine_timed_out(gr_engine *e, const gr_job_work *w, int64_t since_ns)
{
    char where[GR_WHAT_TEXT], missing[240];

    gr_what_text(&w->what, w->label, where, sizeof(where));
    describe_missing(e, w, missing, sizeof(missing));
    return gr_fail(GR_ERR_TIMEOUT, "%s waited %.1f s for %s; " GR_TIMEOUT_HINT, where,
                   (double)(gr_now_ns() - since_ns) * 1e-9, missing);
}

void gr_engine_log_late(gr_engine *e, const gr_job_work *w, int64_t since_ns)
{
    char where[GR_WHAT_TEXT], missing[800];

    if (!gr_log_wants(GR_LOG_COMM, GR_LEVEL_WARN))
        return;
    gr_what_text(&w->what, w->label, where, sizeof(where));
    describe_missing(e, w, missing, sizeof(missing));
    gr_log(COMM, WARN, "%s has waited %.0f s for %s", where,
           (double)(gr_now_ns() - since_ns) * 1e-9, missing);
}

static void tell_waiting(gr_engine *e, const gr_job_work *w)
{
    gr_head f = { .type = GR_HEAD_WAITS, .seq = w->seq, .what = w->what };

    memcpy(f.label, w->label, GR_LABEL);
    for (int r = 0; r < e->pg->size; r++)
        if (r != e->pg->rank && !e->peers[r].left)
            e->wire->ops->tell(e->wire, r, &f, "");
}

/* A rank that left owes something that will never come: the last that it sent is there, and
 * has been looked at. */
static gr_status look_for_leavers(gr_engine *e, const gr_job_work *w)
{
    char where[GR_WHAT_TEXT];

    for (int r = 0; r < e->pg->size; r++) {
        if (!e->peers[r].left || !gr_sched_waits_for(&w->sched, r) ||
            !e->wire->ops->is_over(e->wire, r))
            continue;
        GR_TRY(gr_engine_move(e)); /* steps whose messages came last are not noted as done yet */
        if (gr_sched_waits_for(&w->sched, r))
            return gr_fail(GR_ERR_PEER, "rank %d left the group before %s", r,
                           gr_what_text(&w->what, w->label, where, sizeof(where)));
    }
    return GR_OK;
}

/* What has been done about a wait so far. */
typedef struct patience {
    int64_t since_ns; /* the last time that a step of the call was done */
    int64_t tell_ns;
    uint32_t n_waits; /* of a lane: as it was then */
    bool told, logged;
    int64_t late_ns; /* since when a rank was late, if this wait said so; 0: it did not */
} patience;

/* Rule (6) of lanes. */
static void set_clock(const gr_engine *e, patience *p)
{
    uint32_t n = e->n_waits ? atom32_get(e->n_waits) : 0;

    if (e->n_waits && (n % 2 == 0 || n != p->n_waits))
        p->since_ns = gr_now_ns();
    p->n_waits = n;
}

/* Nothing moves: says so in time, and gives up in time. */
static gr_status lose_patience(gr_engine *e, gr_job_work *w, patience *p, int *left_ms)
{
    gr_job_work *whole = w->whole ? w->whole : w;
    gr_deadline deadline;
    int64_t waited_ns;

    set_clock(e, p);
    deadline.at_ns = p->since_ns + ((int64_t)e->pg->timeout_ms + e->grace_ms) * 1000000;
    waited_ns = gr_now_ns() - p->since_ns;
    GR_TRY(look_for_leavers(e, w));
    *left_ms = gr_deadline_left_ms(deadline);
    if (*left_ms == 0)
        return gr_engine_timed_out(e, w, p->since_ns);
    if (!p->told && waited_ns > p->tell_ns) {
        tell_waiting(e, w);
        p->told = true;
    }
    if (!p->logged && waited_ns > LATE_NS) {
        if (atom32_claim(&whole->has_complained, 0, 1)) {
            gr_engine_log_late(e, w, p->since_ns);
            p->late_ns = p->since_ns;
        }
        p->logged = true;
    }
    return GR_OK;
}

/* Who read that a rank is late wants to know that it came. */
static void log_gone_on(const gr_job_work *w, const patience *p)
{
    char where[GR_WHAT_TEXT];

    if (p->late_ns)
        gr_log(COMM, INFO, "%s goes on after %.0f s",
               gr_what_text(&w->what, w->label, where, sizeof(where)),
               (double)(gr_now_ns() - p->late_ns) * 1e-9);
}

/* Spins for a moment after everything that moved, if every rank has a core; else sleeps. */
static gr_status wait_for(gr_engine *e, gr_job_work *w)
{
    patience p = { .since_ns = gr_now_ns(),
                   .tell_ns =
                       e->pg->timeout_ms < 4000 ? (int64_t)e->pg->timeout_ms * 250000 : TELL_NS };
    uint64_t n_moved = e->n_moved;
    int64_t spin_ns = p.since_ns;
    int n_done = w->sched.n_done;

    for (;;) {
        bool has_moved;
        int left_ms = SLICE_MS;

        GR_TRY(gr_engine_move(e));
        if (gr_work_is_done(w)) {
            log_gone_on(w, &p);
            return GR_OK;
        }
        if (e->is_cut && atom32_get(e->is_cut))
            return gr_fail(GR_ERR_PEER, "the group failed on another lane");
        /* Others' messages may keep moving while this call stands still. */
        if (w->sched.n_done != n_done)
            p.since_ns = gr_now_ns();
        has_moved = e->n_moved != n_moved;
        if (has_moved)
            spin_ns = gr_now_ns();
        n_done = w->sched.n_done;
        n_moved = e->n_moved;
        if (e->wire->may_spin && gr_now_ns() - spin_ns < SPIN_NS)
            continue;
        if (!gr_sched_is_done(&w->sched)) /* else further lanes are at it, and have their clocks */
            GR_TRY(lose_patience(e, w, &p, &left_ms));
        if (!has_moved && !gr_work_is_done(w)) /* else there may be more to do */
            GR_TRY(e->wire->ops->sleep(e->wire, left_ms < SLICE_MS ? left_ms : SLICE_MS));
    }
}

gr_status gr_engine_wait(gr_engine *e, gr_job_work *w)
{
    gr_status st;

    if (e->lanes)
        gr_lanes_note_wait(e->lanes);
    st = wait_for(e, w);
    if (e->lanes)
        gr_lanes_note_wait(e->lanes);
    return st;
}

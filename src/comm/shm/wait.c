/*
 * Waiting for other ranks, and telling them.
 *
 * (1) A sleeper announces itself in n_sleepers before it looks a last time; a publisher
 *     stores first and then looks at n_sleepers. All four accesses are sequentially
 *     consistent, so one of the two sees the other and no wake-up is lost.
 * (2) Sleep comes in slices. Ten times a second peers are checked for death: a killed process
 *     tells nobody.
 * (3) Only ranks that hold this one up are blamed: those that have not come to the
 *     meeting, not those that wait for the same ones (see holds_up).
 */
#include "comm/shm/shm.h"

#include "base/log.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS   1000000 /* ranks of a step seldom differ by more; a sleep costs 0.1 ms */
#define SPIN_LOOK 64      /* looks between two readings of the clock */
#define SLICE_MS  100
#define LATE_NS   5000000000 /* after this a line in the log says who is missing */

static int futex(atom32 *word, int op, uint32_t value, const struct timespec *timeout)
{
    /* Not FUTEX_PRIVATE: the word is shared between processes. */
    return (int)syscall(SYS_futex, &word->v, op, value, timeout, NULL, 0);
}

void shm_wake_all(gr_shm *s)
{
    atom32_add(&s->head->event, 1);
    (void)futex(&s->head->event, FUTEX_WAKE, INT32_MAX, NULL); /* cannot fail: the word exists */
}

void shm_tell(gr_shm *s)
{
    if (atom32_get(&s->head->n_sleepers) > 0)
        shm_wake_all(s);
}

void shm_publish(gr_shm *s, atom64 *number, uint64_t value)
{
    atom64_set(number, value);
    shm_tell(s);
}

void shm_abort(gr_pg *pg, const char *why)
{
    gr_shm *s = (gr_shm *)pg;

    /* The first reason stays: what follows it is its consequence. */
    if (!atom32_claim(&s->head->aborted, 0, 1))
        return;
    s->head->abort_rank = pg->rank;
    snprintf(s->head->abort_text, sizeof(s->head->abort_text), "%s", why);
    atom32_set(&s->head->aborted, 2);
    shm_wake_all(s);
}

gr_status shm_alive(gr_shm *s)
{
    if (atom32_get(&s->head->aborted) != 2)
        return GR_OK;
    return gr_fail(GR_ERR_PEER, "rank %d broke the group: %s", (int)s->head->abort_rank,
                   s->head->abort_text);
}

static bool has_reached(gr_shm *s, int rank, const shm_goal *g)
{
    shm_rank *r = &s->ranks[rank];

    if (g->kind == SHM_GOAL_ROUND)
        return atom64_get(&r->round[g->number % 2].number) == g->number + 1;
    if (g->kind == SHM_GOAL_CALL)
        return gr_work_is_done(g->work) || !gr_sched_waits_for(&g->work->sched, rank);
    return shm_has_done(s, rank, g->number + 1);
}

/* Does this rank wait for `rank` itself? In a collective that is not complete, only
 * ranks that have not started it count; the others wait as we do. */
static bool holds_up(gr_shm *s, int rank, const shm_goal *g)
{
    const uint64_t first = s->n_ready;
    const uint32_t helps = atom32_get(&s->ranks[rank].helps);

    if (rank == s->pg.rank)
        return false;
    if (g->kind != SHM_GOAL_DONE)
        return !has_reached(s, rank, g);
    if (first <= g->number)
        return atom64_get(&s->ranks[rank].coll[first % GR_MAX_COLLS].number) != first + 1;
    if (helps != 0 && !has_reached(s, (int)helps - 1, g))
        return true;
    return !g->own_only && !has_reached(s, rank, g);
}

/* Does what can be done for this rank, and looks whether everybody is there. */
static gr_status look_around(gr_shm *s, shm_goal *g, bool *reached)
{
    const shm_card *mine = &s->ranks[s->pg.rank].round[g->number % 2];

    GR_TRY(shm_progress(s, SHM_WAITS));
    if (g->kind == SHM_GOAL_CALL) {
        *reached = gr_work_is_done(g->work);
        return GR_OK;
    }
    if (g->own_only) {
        *reached = shm_has_done(s, s->pg.rank, g->number + 1);
        return GR_OK;
    }
    for (; g->next < s->pg.size && has_reached(s, g->next, g); g->next++) {
        const shm_card *theirs = &s->ranks[g->next].round[g->number % 2];

        if (g->kind == SHM_GOAL_ROUND && memcmp(&mine->what, &theirs->what, sizeof(gr_what)) != 0)
            return shm_mismatch(s, g->next, mine, theirs);
    }
    *reached = g->next == s->pg.size;
    return GR_OK;
}

/* And who need not go on yet helps others. Not where cores are short: others sum their shares
 * themselves there, and waking somebody for it would only cost. */
static gr_status look(gr_shm *s, shm_goal *g, bool *reached)
{
    GR_TRY(look_around(s, g, reached));
    return *reached || !shm_may_spin(s) ? GR_OK : shm_help(s);
}

/* Whether the peer has done its part by now. What it did before it began to wait elsewhere
 * may have come while this rank slept: it is not looked at until somebody looks. */
static gr_status has_come(gr_shm *s, int rank, shm_goal *g, bool *out)
{
    bool reached = false;

    GR_TRY(look(s, g, &reached));
    *out = reached || !holds_up(s, rank, g);
    return GR_OK;
}

/* The same for a peer that has left: its last messages are looked at until none is left. */
static gr_status had_come(gr_shm *s, int rank, shm_goal *g, bool *out)
{
    uint64_t n_moved;

    do {
        n_moved = s->engine.n_moved;
        GR_TRY(has_come(s, rank, g, out));
    } while (!*out && s->engine.n_moved != n_moved);
    return GR_OK;
}

/* Abort, and peers that left before the meeting. Cheap enough for the spinning loop. */
static gr_status look_for_leavers(gr_shm *s, shm_goal *g)
{
    char where[256];
    bool came = true;

    GR_TRY(shm_alive(s));
    for (int r = 0; r < s->pg.size; r++) {
        /* The state is read before the meeting: a rank may come, and leave afterwards. */
        if (atom32_get(&s->ranks[r].state) == SHM_LEFT && holds_up(s, r, g))
            GR_TRY(had_come(s, r, g, &came));
        if (!came) {
            shm_describe_goal(s, g, where, sizeof(where));
            return gr_fail(GR_ERR_PEER, "rank %d left the group before %s", r, where);
        }
    }
    return GR_OK;
}

static bool is_dead(const gr_shm *s, int rank)
{
    struct pollfd p = { .fd = s->pid_fds[rank], .events = POLLIN };

    if (p.fd >= 0)
        return poll(&p, 1, 0) == 1;
    return kill(s->pids[rank], 0) != 0 && errno == ESRCH;
}

/* A peer waits in a call by messages: has this rank begun that call, and as the same? */
static gr_status compare_call(gr_shm *s, int rank, uint64_t number, bool *is_unknown)
{
    const shm_card *theirs = &s->ranks[rank].call[number % SHM_CALLS];
    uint64_t seq = theirs->n_bytes;
    const gr_seen *mine = &s->engine.recent[seq % GR_RECENT];
    gr_side a = { s->pg.rank, &mine->what, mine->label };
    gr_side b = { rank, &theirs->what, theirs->label };

    *is_unknown = false;
    if (atom64_get(&theirs->number) != number + 1 || (seq & GR_SEQ_PAIR))
        return GR_OK;
    *is_unknown = seq >= s->engine.n_calls;
    if (*is_unknown || !mine->is_set || mine->seq != seq ||
        memcmp(&mine->what, &theirs->what, sizeof(gr_what)) == 0)
        return GR_OK;
    return gr_what_differ(&a, &b, s->pg.agreed_name);
}

/* A peer that waits in another meeting which this rank has not come to: both orders of
 * calls cannot be right, and nobody would ever go on. */
static gr_status look_for_crossed(gr_shm *s, int rank, shm_goal *g, const char *where)
{
    uint32_t waits = atom32_get(&s->ranks[rank].waits);
    uint64_t number = atom64_get(&s->ranks[rank].waits_for);
    bool is_crossed = false;
    char peer[300];

    if (waits == SHM_GOAL_CALL + 1) {
        GR_TRY(compare_call(s, rank, number, &is_crossed));
        is_crossed = is_crossed && g->kind != SHM_GOAL_CALL;
    } else if (waits == SHM_GOAL_ROUND + 1) {
        is_crossed = g->kind != SHM_GOAL_ROUND && number >= s->n_rounds;
    } else if (waits == SHM_GOAL_DONE + 1) {
        is_crossed = g->kind != SHM_GOAL_DONE && number >= s->n_started;
    }
    /* Who waits for a message of one other rank may well be overtaken by the rest. */
    if (!is_crossed || (g->kind == SHM_GOAL_CALL && (g->work->seq & GR_SEQ_PAIR)))
        return GR_OK;
    GR_TRY(has_come(s, rank, g, &is_crossed));
    if (is_crossed || atom32_get(&s->ranks[rank].waits) != waits ||
        atom64_get(&s->ranks[rank].waits_for) != number)
        return GR_OK;
    shm_describe_peer(s, rank, peer, sizeof(peer));
    return gr_fail(GR_ERR_ARG, "ranks call different collectives: rank %d is in %s, not so %s",
                   s->pg.rank, where, peer);
}

/* Killed peers, and peers that will never come. */
static gr_status look_for_lost(gr_shm *s, shm_goal *g)
{
    char where[256];

    for (int r = 0; r < s->pg.size; r++) {
        if (!holds_up(s, r, g))
            continue;
        shm_describe_goal(s, g, where, sizeof(where));
        if (s->pid_fds && is_dead(s, r)) {
            GR_TRY(look_for_leavers(s, g)); /* it may have given up, and said why, and ended */
            return gr_fail(GR_ERR_PEER, "rank %d (process %d) died; rank %d waited for it in %s", r,
                           s->pids[r], s->pg.rank, where);
        }
        GR_TRY(look_for_crossed(s, r, g, where));
    }
    return GR_OK;
}

/* The ranks that hold this one up, in words, as many as fit. */
static void describe_missing(gr_shm *s, const shm_goal *g, char *text, size_t n_bytes)
{
    size_t at = 0;

    text[0] = '\0';
    for (int r = 0; r < s->pg.size && at + 8 < n_bytes; r++) {
        char peer[300];
        int n;

        if (!holds_up(s, r, g))
            continue;
        shm_describe_peer(s, r, peer, sizeof(peer));
        n = snprintf(text + at, n_bytes - at, "%s%s", at ? ", " : "", peer);
        at += n > 0 ? (size_t)n : 0;
    }
    if (at == 0)
        snprintf(text, n_bytes, "%s", GR_NOBODY_TEXT);
}

static gr_status timed_out(gr_shm *s, const shm_goal *g, int64_t since_ns)
{
    char where[GR_WHAT_TEXT], missing[250];

    shm_describe_goal(s, g, where, sizeof(where));
    describe_missing(s, g, missing, sizeof(missing));
    return gr_fail(GR_ERR_TIMEOUT, "%s waited %.1f s for %s; " GR_TIMEOUT_HINT, where,
                   (double)(gr_now_ns() - since_ns) * 1e-9, missing);
}

static void log_late(gr_shm *s, const shm_goal *g, int64_t since_ns)
{
    char where[GR_WHAT_TEXT], missing[900];

    if (!gr_log_wants(GR_LOG_COMM, GR_LEVEL_WARN))
        return;
    shm_describe_goal(s, g, where, sizeof(where));
    describe_missing(s, g, missing, sizeof(missing));
    gr_log(COMM, WARN, "%s has waited %.0f s for %s", where,
           (double)(gr_now_ns() - since_ns) * 1e-9, missing);
}

/* One slice of sleep, unless something happened since the last look. */
static gr_status doze(gr_shm *s, shm_goal *g, bool *reached, int left_ms)
{
    int ms = left_ms < SLICE_MS ? left_ms : SLICE_MS;
    struct timespec slice = { .tv_sec = 0, .tv_nsec = (long)ms * 1000000 };
    uint32_t seen;
    gr_status st;

    atom32_add(&s->head->n_sleepers, 1);
    seen = atom32_get(&s->head->event);
    st = look(s, g, reached);
    if (st == GR_OK && !*reached)
        st = look_for_leavers(s, g);
    if (st == GR_OK && !*reached) /* the last message of a leaver may have been the last of all */
        st = look(s, g, reached);
    if (st == GR_OK && !*reached) /* wakes, is woken, or has nothing to sleep for */
        (void)futex(&s->head->event, FUTEX_WAIT, seen, &slice);
    atom32_add(&s->head->n_sleepers, -1);
    return st;
}

static gr_status block(gr_shm *s, shm_goal *g, int64_t since_ns)
{
    gr_deadline deadline = { since_ns + (int64_t)s->pg.timeout_ms * 1000000 };
    shm_rank *me = &s->ranks[s->pg.rank];
    bool reached = false, said = false;
    int64_t looked_ns = since_ns;
    gr_status st = GR_OK;

    atom64_set(&me->waits_for, g->number);
    atom32_set(&me->waits, (uint32_t)g->kind + 1);
    while (st == GR_OK && !reached) {
        int left_ms = gr_deadline_left_ms(deadline);

        if (left_ms == 0) {
            st = timed_out(s, g, since_ns);
            break;
        }
        if (!said && gr_now_ns() - since_ns > LATE_NS) {
            log_late(s, g, since_ns);
            said = true;
        }
        st = doze(s, g, &reached, left_ms);
        if (st == GR_OK && !reached && gr_now_ns() - looked_ns > SLICE_MS * 1000000) {
            st = look_for_lost(s, g);
            looked_ns = gr_now_ns();
        }
    }
    atom32_set(&me->waits, 0);
    return st;
}

/* Ranks that are bound to a core each may spin, though each by itself sees one core only. */
bool shm_may_spin(gr_shm *s)
{
    cpu_set_t all;

    CPU_ZERO(&all);
    for (int r = 0; r < s->pg.size && s->spin == SHM_SPIN_UNKNOWN; r++) {
        if (atom32_get(&s->ranks[r].state) == SHM_EXPECTED)
            return false;
        CPU_OR(&all, &all, &s->ranks[r].cores);
    }
    if (s->spin == SHM_SPIN_UNKNOWN)
        s->spin = CPU_COUNT(&all) >= s->pg.size ? SHM_SPINS : SHM_SLEEPS;
    return s->spin == SHM_SPINS;
}

static gr_status spin(gr_shm *s, shm_goal *g, bool *reached, int64_t since_ns)
{
    while (shm_may_spin(s) && gr_now_ns() - since_ns < SPIN_NS) {
        for (int i = 0; i < SPIN_LOOK; i++) {
            __builtin_ia32_pause();
            GR_TRY(look(s, g, reached));
            if (*reached)
                return GR_OK;
        }
        GR_TRY(look_for_leavers(s, g));
    }
    return GR_OK;
}

gr_status shm_wait(gr_shm *s, shm_goal goal)
{
    bool reached = false;
    int64_t since_ns;
    gr_status st;

    GR_TRY(look(s, &goal, &reached));
    if (reached)
        return GR_OK;
    since_ns = gr_now_ns();
    atom32_add(&s->head->n_waiting, 1);
    st = spin(s, &goal, &reached, since_ns);
    if (st == GR_OK && !reached)
        st = block(s, &goal, since_ns);
    atom32_add(&s->head->n_waiting, -1);
    return st;
}

gr_status shm_round(gr_shm *s, const gr_what *what, const char *label, uint64_t n_bytes)
{
    uint64_t number = s->n_rounds;
    shm_card *card = &s->ranks[s->pg.rank].round[number % 2];

    GR_TRY(shm_alive(s));
    s->n_rounds++;
    card->what = *what;
    card->n_bytes = n_bytes;
    gr_label_put(card->label, label);
    atom64_hint(&s->ranks[s->pg.rank].last, number * 4 + SHM_GOAL_ROUND);
    shm_publish(s, &card->number, number + 1);
    return shm_wait(s, (shm_goal){ .kind = SHM_GOAL_ROUND, .number = number });
}

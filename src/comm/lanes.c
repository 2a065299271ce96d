/* Lanes: their threads, and what lane 0 hands them. */
#include "comm/lanes.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"

#include <pthread.h>
#include <string.h>

#define SPIN_NS  100000 /* before a lane without work sleeps, if every rank has a core */
#define GRACE_MS 250    /* a deadline is lane 0's to find, which knows of all calls */

typedef struct lane {
    gr_lanes *all;
    gr_engine engine; /* the thread's while it runs */
    pthread_t thread;
    bool is_running;
    uint32_t n_taken;          /* the thread's */
    gr_job_work *first, *last; /* parts to be done; under the lock */
} lane;

struct gr_lanes {
    gr_engine *main;
    int n; /* further lanes */
    lane lanes[GR_MAX_LANES - 1];
    pthread_mutex_t lock; /* over the lists of parts and `error` */
    pthread_cond_t news;
    atom32 n_posted; /* calls so far */
    atom32 is_cut;   /* 1: all is to end */
    atom32 n_waits;  /* rule (6) */
    atom32 has_failed;
    gr_error error; /* the first; from has_failed on it stays */
};

gr_status gr_lanes_create(gr_lanes **out, gr_engine *main)
{
    gr_lanes *l = (gr_lanes *)gr_calloc(1, sizeof(*l));

    if (!l)
        return GR_ERR_NOMEM;
    l->main = main;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->news, NULL);
    *out = l;
    return GR_OK;
}

gr_status gr_lanes_add(gr_lanes *l, gr_wire *wire)
{
    lane *x = &l->lanes[l->n++];

    GR_BUG_IF(l->n >= GR_MAX_LANES);
    x->all = l;
    GR_TRY(gr_engine_init(&x->engine, l->main->pg, wire, &l->main->hosts));
    x->engine.lane = l->n;
    x->engine.is_cut = &l->is_cut;
    x->engine.n_waits = &l->n_waits;
    x->engine.grace_ms = GRACE_MS;
    return GR_OK;
}

int gr_lanes_count(const gr_lanes *l)
{
    return l ? 1 + l->n : 1;
}

/* ---- the threads ---- */

static void spin(const lane *x)
{
    int64_t until_ns = gr_now_ns() + SPIN_NS;

    while (atom32_get(&x->all->n_posted) == x->n_taken && !atom32_get(&x->all->is_cut) &&
           gr_now_ns() < until_ns)
        __builtin_ia32_pause();
}

/* Waits for the next part; NULL when all is to end. */
static gr_job_work *take(lane *x)
{
    gr_lanes *l = x->all;
    gr_job_work *part = NULL;

    if (x->engine.wire->may_spin)
        spin(x);
    pthread_mutex_lock(&l->lock);
    while (!x->first && !atom32_get(&l->is_cut))
        pthread_cond_wait(&l->news, &l->lock);
    if (!atom32_get(&l->is_cut)) {
        part = x->first;
        x->first = part->next;
        x->n_taken++;
    }
    pthread_mutex_unlock(&l->lock);
    return part;
}

static gr_status carry_out(lane *x, gr_job_work *part)
{
    GR_TRY(gr_engine_set_off(&x->engine, part));
    GR_TRY(gr_engine_wait(&x->engine, part));
    gr_engine_close(&x->engine, part);
    return GR_OK;
}

/* When all is to end, whatever this lane says is a consequence of that. */
static void note_failure(gr_lanes *l, gr_status st)
{
    pthread_mutex_lock(&l->lock);
    if (!atom32_get(&l->has_failed) && !atom32_get(&l->is_cut)) {
        gr_error_take(&l->error, st);
        atom32_set(&l->has_failed, 1);
    }
    pthread_mutex_unlock(&l->lock);
}

static void *lane_main(void *arg)
{
    lane *x = (lane *)arg;
    gr_wire *main = x->all->main->wire;
    gr_job_work *part;
    gr_status st = GR_OK;

    while (st == GR_OK && (part = take(x))) {
        gr_job_work *whole = part->whole;

        st = carry_out(x, part);
        if (st != GR_OK)
            note_failure(x->all, st);
        if (st != GR_OK || atom32_add(&whole->n_left, -1) == 0) /* from here on it is lane 0's */
            main->ops->wake(main);
    }
    return NULL;
}

static gr_status start_one(lane *x)
{
    int rc = gr_thread_start(&x->thread, lane_main, x);

    if (rc != 0)
        return gr_fail(GR_ERR_NOMEM, "pthread_create: %s", strerror(rc));
    x->is_running = true;
    pthread_setname_np(x->thread, "gradus-lane"); /* for top and debuggers */
    return GR_OK;
}

/* With fewer lanes everything goes as well, only slower. */
int gr_lanes_start(gr_lanes *l)
{
    for (int i = 0; i < l->n; i++)
        if (start_one(&l->lanes[i]) != GR_OK) {
            gr_log(COMM, INFO, "%d lane%s, not %d: %s", 1 + i, gr_plural(1 + i), 1 + l->n,
                   gr_error_message());
            return 1 + i;
        }
    return 1 + l->n;
}

/* ---- the group's thread ---- */

static gr_status make_parts(gr_job_work *w, int n)
{
    gr_status st = GR_OK;

    w->parts = (gr_job_work *)gr_calloc((size_t)n, sizeof(*w->parts));
    if (!w->parts)
        return GR_ERR_NOMEM;
    w->cap_parts = n;
    for (int i = 0; i < n && st == GR_OK; i++) {
        w->parts[i].base.pg = w->base.pg;
        w->parts[i].whole = w;
        st = gr_sched_init(&w->parts[i].sched, w->base.pg->size);
    }
    return st;
}

void gr_lanes_free_parts(gr_job_work *w)
{
    for (int i = 0; i < w->cap_parts; i++)
        gr_sched_fini(&w->parts[i].sched);
    gr_free(w->parts);
    w->parts = NULL;
    w->cap_parts = w->n_parts = 0;
}

gr_status gr_lanes_write(gr_lanes *l, gr_job_work *w, const gr_pg_call *c)
{
    if (!w->parts)
        GR_TRY(make_parts(w, l->n));
    for (int i = 0; i < l->n; i++) {
        gr_job_work *part = &w->parts[i];

        gr_sched_clear(&part->sched);
        part->sched.fn = w->sched.fn;
        part->what = w->what;
        memcpy(part->label, w->label, GR_LABEL);
        GR_TRY(gr_engine_write(&l->lanes[i].engine, part, c, 1 + l->n));
    }
    w->n_parts = l->n;
    return GR_OK;
}

void gr_lanes_post(gr_lanes *l, gr_job_work *w)
{
    atom32_set(&w->n_left, (uint32_t)w->n_parts);
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < w->n_parts; i++) {
        lane *x = &l->lanes[i];
        gr_job_work *part = &w->parts[i];

        part->what.agreed = w->what.agreed;
        part->next = NULL;
        *(x->first ? &x->last->next : &x->first) = part;
        x->last = part;
    }
    atom32_add(&l->n_posted, 1);
    pthread_cond_broadcast(&l->news);
    pthread_mutex_unlock(&l->lock);
}

void gr_lanes_note_wait(gr_lanes *l)
{
    atom32_add(&l->n_waits, 1);
}

gr_status gr_lanes_check(gr_lanes *l)
{
    return atom32_get(&l->has_failed) ? gr_error_raise(&l->error) : GR_OK;
}

static void halt(gr_lanes *l)
{
    atom32_set(&l->is_cut, 1);
    pthread_mutex_lock(&l->lock);
    pthread_cond_broadcast(&l->news);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < GR_MAX_LANES - 1; i++) {
        lane *x = &l->lanes[i];

        if (!x->is_running)
            continue;
        x->engine.wire->ops->wake(x->engine.wire);
        pthread_join(x->thread, NULL);
        x->is_running = false;
    }
}

void gr_lanes_limit(gr_lanes *l, int n_lanes)
{
    l->n = n_lanes - 1 < l->n ? n_lanes - 1 : l->n;
}

void gr_lanes_abort(gr_lanes *l, const char *why)
{
    halt(l);
    for (int i = 0; i < GR_MAX_LANES - 1; i++)
        if (l->lanes[i].engine.wire)
            gr_engine_abort(&l->lanes[i].engine, why);
}

void gr_lanes_destroy(gr_lanes *l)
{
    if (!l)
        return;
    halt(l);
    for (int i = 0; i < GR_MAX_LANES - 1; i++) {
        gr_engine *e = &l->lanes[i].engine;

        e->open = NULL; /* rule (1): what it was about is lane 0's */
        gr_engine_leave(e);
        gr_engine_fini(e);
    }
    pthread_cond_destroy(&l->news);
    pthread_mutex_destroy(&l->lock);
    gr_free(l);
}

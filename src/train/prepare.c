/*
 * What a recipe builds before its data are opened, shared by the ranks. A thread of each rank
 * builds, and the rank's own one counts in its claim (share.h) and votes with the others: a part
 * that takes hours makes nobody wait in vain for a collective, a rank that fails or dies ends the
 * job as in training, and a signal ends it between two parts.
 *
 * Ranks deal parts out by claims in the folder itself. So hosts that share it share the work, each
 * host with a folder of its own builds all of it, and so do two jobs that want the same cache.
 */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/outfile.h"
#include "base/thread.h"
#include "comm/pg.h"
#include "train/share.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VOTE_MS 500
#define WAIT_MS 200 /* of a builder that found nothing to take */
#define SAY_NS  (30 * (int64_t)1000000000)

enum { HAS_DONE, IS_BUILDING, HAS_FAILED }; /* votes: the greatest counts */

typedef struct preparing {
    gr_trainer *t;
    const gr_preparation *how;
    void *job;
    gr_prepared plan;
    gr_claim_watch *watches;
    bool *is_there;       /* of each part */
    pthread_mutex_t lock; /* of `claim` between builder and who counts */
    gr_claim claim;
    _Atomic bool is_over;    /* no further part is begun */
    _Atomic int state;       /* a vote */
    _Atomic int64_t n_there; /* parts */
    gr_error error;          /* HAS_FAILED */
} preparing;

/* ---- one part ---- */

static gr_status path_of(const preparing *p, int64_t part, gr_text *out)
{
    out->len = 0;
    gr_text_addf(out, "%s/%s", p->plan.folder, p->plan.names[part]);
    return gr_text_status(out);
}

static bool is_current(const preparing *p, int64_t part, const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           (!p->how->is_current || p->how->is_current(p->job, part, path));
}

static void set_claim(preparing *p, const gr_claim *c)
{
    pthread_mutex_lock(&p->lock);
    p->claim = *c;
    pthread_mutex_unlock(&p->lock);
}

/* The claim is held. */
static gr_status build(preparing *p, int64_t part, const char *path, gr_claim *c)
{
    const gr_claim none = GR_CLAIM_INIT;
    gr_status st;

    set_claim(p, c);
    st = p->how->build(p->job, part, c->aside);
    set_claim(p, &none);
    if (st == GR_OK)
        return gr_claim_keep(c, path);
    gr_claim_drop(c);
    return gr_wrap(st, "'%s'", p->plan.names[part]);
}

/* Takes the part if it is wanting and nobody has it. */
static gr_status visit(preparing *p, int64_t part, gr_text *path)
{
    gr_claim c;

    GR_TRY(path_of(p, part, path));
    if (!is_current(p, part, path->str)) {
        GR_TRY(gr_claim_try(&c, p->plan.folder, p->plan.names[part], &p->watches[part]));
        if (c.fd < 0)
            return GR_OK;                   /* another builds it */
        if (is_current(p, part, path->str)) /* by now */
            gr_claim_drop(&c);
        else
            GR_TRY(build(p, part, path->str, &c));
    }
    p->is_there[part] = true;
    atomic_fetch_add(&p->n_there, 1);
    return GR_OK;
}

/* ---- all of them ---- */

static void nap(int ms)
{
    usleep((useconds_t)ms * 1000);
}

/* Parts from..to, until all are there. Ranks begin at different ones. */
static gr_status go_through(preparing *p, int64_t from, int64_t to, gr_text *path)
{
    int64_t n = to - from, wanting = n;
    int64_t first = n > 0 ? p->t->rank * n / p->t->n_ranks : 0;

    while (wanting > 0 && !p->is_over) {
        int64_t before = p->n_there;

        wanting = 0;
        for (int64_t k = 0; k < n && !p->is_over; k++) {
            int64_t part = from + (first + k) % n;

            if (!p->is_there[part])
                GR_TRY(visit(p, part, path));
            wanting += !p->is_there[part];
        }
        if (wanting > 0 && p->n_there == before && !p->is_over)
            nap(WAIT_MS);
    }
    return GR_OK;
}

static void *run_builder(void *arg)
{
    preparing *p = arg;
    int64_t n_first = p->plan.n_parts - p->plan.n_last;
    gr_text path = GR_TEXT_INIT;
    gr_status st = go_through(p, 0, n_first, &path);

    if (st == GR_OK && !p->is_over)
        st = go_through(p, n_first, p->plan.n_parts, &path);
    gr_text_fini(&path);
    if (st != GR_OK)
        gr_error_take(&p->error, st);
    p->state = st == GR_OK ? HAS_DONE : HAS_FAILED;
    return NULL;
}

/* ---- the ranks together ---- */

static void tell(preparing *p, int64_t began_ns, int64_t *said_ns)
{
    int64_t now = gr_now_ns();

    if (now - *said_ns < SAY_NS)
        return;
    *said_ns = now;
    gr_trainer_say(p->t, "Preparing data in '%s': %" PRId64 " of %" PRId64 " parts after %.0f s",
                   p->plan.folder, (int64_t)p->n_there, p->plan.n_parts,
                   (double)(now - began_ns) / 1e9);
}

/* Until all ranks have done, or one of them must end. */
static gr_status vote(preparing *p, int *signal)
{
    int64_t began = gr_now_ns(), said = began, most = IS_BUILDING;

    *signal = 0;
    while (most == IS_BUILDING && *signal == 0) {
        most = p->state;
        GR_TRY(gr_trainer_agree_on_signal(p->t, signal, &most));
        if (most != IS_BUILDING || *signal != 0)
            break;
        pthread_mutex_lock(&p->lock);
        gr_claim_beat(&p->claim);
        pthread_mutex_unlock(&p->lock);
        if (gr_trainer_writes(p->t))
            tell(p, began, &said);
        nap(gr_now_ns() - began < 2000000000 ? VOTE_MS / 10 : VOTE_MS);
    }
    return GR_OK;
}

static gr_status build_together(preparing *p)
{
    pthread_t builder;
    int failed = gr_thread_start(&builder, run_builder, p), signal = 0;
    gr_status st;

    if (failed)
        return gr_fail(GR_ERR_NOMEM, "cannot start a thread: %s", strerror(failed));
    st = vote(p, &signal);
    p->is_over = true;
    pthread_join(builder, NULL);
    if (p->state == HAS_FAILED)
        return gr_error_raise(&p->error);
    GR_TRY(st);
    GR_TRY(gr_pg_barrier(p->t->pg)); /* who failed is gone now, and says why */
    if (signal == 0)
        return GR_OK;
    p->t->stopped_by = signal;
    gr_trainer_say(p->t,
                   "Stopped while the data were prepared: %" PRId64 " of %" PRId64 " parts are "
                   "there, and the next run goes on with them",
                   (int64_t)p->n_there, p->plan.n_parts);
    return gr_fail(GR_ERR_STOPPED, "signal %d before the first step", signal);
}

/* ---- the plan ---- */

static gr_status check_plan(preparing *p)
{
    const gr_prepared *plan = &p->plan;
    gr_text text = GR_TEXT_INIT;
    uint32_t crc = 0;
    gr_status st;

    if (plan->n_parts < 0 || plan->n_last < 0 || plan->n_last > plan->n_parts ||
        (plan->n_parts > 0 && (!plan->folder || !plan->names)))
        return gr_fail(GR_ERR_ARG, "a preparation of %" PRId64 " parts, %" PRId64 " of them last",
                       plan->n_parts, plan->n_last);
    for (int64_t i = 0; i < plan->n_parts; i++)
        crc = gr_crc32c(crc, plan->names[i], strlen(plan->names[i]) + 1);
    gr_text_addf(&text, "parts to prepare = %" PRId64 ", names %08x\n", plan->n_parts,
                 (unsigned)crc);
    st = gr_text_status(&text);
    if (st == GR_OK && p->t->n_ranks > 1)
        st = gr_pg_compare(p->t->pg, text.str);
    p->t->told_all = st == GR_ERR_ARG;
    gr_text_fini(&text);
    return st;
}

static gr_status run(preparing *p)
{
    size_t n;

    GR_TRY(check_plan(p));
    n = (size_t)p->plan.n_parts;
    if (n == 0)
        return GR_OK;
    p->watches = gr_calloc(n, sizeof(*p->watches));
    p->is_there = gr_calloc(n, sizeof(*p->is_there));
    if (!p->watches || !p->is_there)
        return GR_ERR_NOMEM;
    return build_together(p);
}

gr_status gr_trainer_prepare(gr_trainer *t, const gr_recipe_config *config)
{
    preparing p = {
        .t = t, .how = t->recipe->data->preparation, .claim = GR_CLAIM_INIT, .state = IS_BUILDING
    };
    gr_status st;

    if (!p.how)
        return GR_OK;
    GR_TRY(p.how->begin(&p.job, config, &p.plan));
    pthread_mutex_init(&p.lock, NULL);
    st = run(&p);
    pthread_mutex_destroy(&p.lock);
    gr_free(p.watches);
    gr_free(p.is_there);
    p.how->end(p.job);
    return st;
}

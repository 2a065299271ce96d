/*
 * What the workers of a loader do: give batches to slots, claim stretches of them, and load.
 * The caller does the same when there are no workers. The invariants are in loader_impl.h.
 */
#include "data/loader_impl.h"

#include "base/clock.h"
#include "base/size.h"

#include <inttypes.h>
#include <string.h>

/* A worker has about this many stretches of a batch, so that all end at about the same time. */
#define STRETCHES_PER_WORKER 4

bool gr_loader_is_done(const gr_loader_slot *s)
{
    return s->n_loaded == s->n_all;
}

/* ---- giving batches to slots ---- */

static void wake_workers(gr_loader *l)
{
    if (l->n_idle > 0)
        pthread_cond_broadcast(&l->work);
}

static gr_loader_epoch *unused_epoch(gr_loader *l)
{
    int i = 0;

    while (i < l->n_epochs && l->epochs[i].n_users > 0)
        i++;
    GR_BUG_IF(i == l->n_epochs);
    return &l->epochs[i];
}

/* Makes at_epoch the current one. The lock is free while the order is drawn. */
static gr_status open_epoch(gr_loader *l)
{
    gr_loader_epoch *e;
    gr_status st;

    if (l->current && l->current->epoch == l->at_epoch)
        return GR_OK;
    if (l->current)
        l->current->n_users--;
    l->current = NULL;
    e = unused_epoch(l);
    e->n_users = 1;
    l->issuing = true;
    l->n_busy++;
    pthread_mutex_unlock(&l->lock);
    st = l->c.source->ops->fill(l->c.source, l->at_epoch, &e->order);
    pthread_mutex_lock(&l->lock);
    l->n_busy--;
    l->issuing = false;
    if (st != GR_OK) {
        e->n_users = 0;
        return gr_wrap(st, "order of epoch %" PRId64, l->at_epoch);
    }
    GR_BUG_IF(e->order.n_batches < l->n_batches);
    e->epoch = l->at_epoch;
    l->current = e;
    return GR_OK;
}

/* Where the fields of n samples of size k lie. */
static void place_fields(const gr_loader *l, gr_loader_slot *s, int64_t n, int k)
{
    size_t at = 0;

    for (int f = 0; f < l->c.n_fields; f++) {
        s->out.mem[f] = (char *)s->block + at;
        at += gr_round_up((size_t)n * gr_loader_bytes(l, f, k), GR_LOADER_ALIGN);
    }
}

/* The batch at_batch of the current epoch goes into `s`. */
static void fill_slot(gr_loader *l, gr_loader_slot *s)
{
    const gr_order *o = &l->current->order;
    const gr_order_source *source = l->c.source;
    int64_t b = l->at_batch, n = o->first[b + 1] - o->first[b];

    GR_BUG_IF(n > (source->sizes ? source->max_of[o->size[b]] : source->max_batch));
    place_fields(l, s, n, (int)o->size[b]);
    s->out.epoch = l->at_epoch;
    s->out.number = b;
    s->out.n = n;
    s->out.n_all = o->n_all[b];
    s->out.size = (int)o->size[b];
    s->out.n_skipped = 0;
    s->epoch = l->current;
    s->epoch->n_users++;
    s->first = o->first[b];
    s->n_all = n;
    s->n_claimed = s->n_loaded = 0;
    s->is_fatal = false;
    s->notes.n = 0;
    memcpy(s->index, o->index + s->first, (size_t)n * sizeof(*s->index));
    memset(s->failed, 0, (size_t)n * sizeof(*s->failed));
}

/* A failure that belongs to no sample takes a slot too, so that it comes in its turn. */
static void fill_failed(gr_loader *l, gr_loader_slot *s, gr_status st)
{
    s->n_all = s->n_claimed = s->n_loaded = 0;
    s->epoch = NULL;
    s->is_fatal = true;
    s->notes.n = 1;
    gr_error_take(&s->notes.error[0], st);
    l->ended = true;
}

static bool can_issue(const gr_loader *l)
{
    return !l->ended && !l->issuing && !gr_loader_cancelled(l) &&
           l->n_issued < l->n_released + l->n_slots;
}

/* Ends at end_epoch, or when epochs are empty: then all of them are. */
static bool goes_on(gr_loader *l)
{
    if (l->at_batch >= l->n_batches) {
        l->at_batch = 0;
        l->at_epoch++;
    }
    return l->n_batches > 0 && (l->c.end_epoch == 0 || l->at_epoch < l->c.end_epoch);
}

static void issue(gr_loader *l)
{
    gr_loader_slot *s = gr_loader_slot_of(l, l->n_issued);
    gr_status st;

    if (!goes_on(l)) {
        l->ended = true;
        pthread_cond_signal(&l->ready);
        return;
    }
    st = open_epoch(l);
    if (gr_loader_cancelled(l))
        return;
    if (st == GR_OK) {
        fill_slot(l, s);
        l->at_batch++;
    } else {
        fill_failed(l, s, st);
    }
    l->n_issued++;
    if (gr_loader_is_done(s))
        pthread_cond_signal(&l->ready);
    wake_workers(l);
}

/* ---- loading ---- */

typedef struct stretch {
    gr_loader_slot *slot;
    int64_t lo, hi; /* places in the batch */
    int worker;
    int64_t n_skipped;
    bool is_fatal;
    gr_loader_notes notes;
} stretch;

static gr_status load_one(gr_loader *l, const stretch *w, int64_t i, int64_t index)
{
    gr_loader_slot *s = w->slot;
    gr_load_item item = {
        .epoch = s->out.epoch, .index = index, .size = s->out.size, .worker = w->worker
    };
    void *mem[GR_LOADER_MAX_FIELDS] = { 0 };

    for (int f = 0; f < l->c.n_fields; f++)
        mem[f] = (char *)s->out.mem[f] + (size_t)i * gr_loader_bytes(l, f, s->out.size);
    s->index[i] = index;
    return gr_wrap(l->c.load(l->c.load_arg, &item, mem), "%s sample %" PRId64, l->c.what, index);
}

static void note_failure(stretch *w, int64_t i, gr_status st)
{
    gr_loader_notes *notes = &w->notes;

    w->slot->failed[i] = true;
    w->n_skipped++;
    if (notes->n == GR_LOADER_NOTES)
        return;
    notes->at[notes->n] = i;
    gr_error_take(&notes->error[notes->n++], st);
}

/* Nothing of the order loads: the first failure is told, and that it is not the only one. */
static void note_hopeless(stretch *w, int64_t n_samples, bool by_size)
{
    gr_status st =
        gr_wrap(gr_error_raise(&w->notes.error[0]), "none of %" PRId64 " samples%s loads",
                n_samples, by_size ? " that fits into this batch" : "");

    gr_error_take(&w->notes.error[0], st);
}

/* Place i did not load: the next ones of the order are tried, around its end too. Which one is
 * taken depends on the data alone, so that any number of workers takes the same. */
static bool replace(gr_loader *l, stretch *w, int64_t i)
{
    const gr_order *o = &w->slot->epoch->order;
    const gr_sizes *sizes = l->c.source->sizes;

    for (int64_t k = 1; k < o->n_samples; k++) {
        int64_t index = o->index[(w->slot->first + i + k) % o->n_samples];

        if (gr_loader_cancelled(l))
            return true; /* nobody will look at it */
        if (sizes && !gr_sizes_holds(sizes, w->slot->out.size, index))
            continue;
        if (load_one(l, w, i, index) == GR_OK)
            return true;
    }
    note_hopeless(w, o->n_samples, sizes != NULL);
    return false;
}

static void load_stretch(gr_loader *l, stretch *w)
{
    for (int64_t i = w->lo; i < w->hi && !gr_loader_cancelled(l); i++) {
        gr_status st = load_one(l, w, i, w->slot->index[i]);

        if (st == GR_OK)
            continue;
        note_failure(w, i, st);
        if (l->c.policy == GR_LOAD_DROP || (l->c.policy == GR_LOAD_REPLACE && replace(l, w, i)))
            continue;
        w->is_fatal = true;
        return;
    }
}

/* The failures at the lowest places are those that are told, whoever met them first. A stretch
 * lies as a whole before or behind any other. */
static void merge_notes(gr_loader_notes *to, const gr_loader_notes *from)
{
    int before = 0, n_in, n_behind;

    while (before < to->n && to->at[before] < from->at[0])
        before++;
    n_in = from->n < GR_LOADER_NOTES - before ? from->n : GR_LOADER_NOTES - before;
    n_behind = to->n - before;
    if (n_behind > GR_LOADER_NOTES - before - n_in)
        n_behind = GR_LOADER_NOTES - before - n_in;
    memmove(&to->at[before + n_in], &to->at[before], (size_t)n_behind * sizeof(to->at[0]));
    memmove(&to->error[before + n_in], &to->error[before], (size_t)n_behind * sizeof(to->error[0]));
    memcpy(&to->at[before], from->at, (size_t)n_in * sizeof(to->at[0]));
    memcpy(&to->error[before], from->error, (size_t)n_in * sizeof(to->error[0]));
    to->n = before + n_in + n_behind;
}

static void merge(gr_loader *l, const stretch *w, int64_t took_ns)
{
    gr_loader_slot *s = w->slot;

    l->stats.load_ns += took_ns;
    s->out.n_skipped += w->n_skipped;
    s->is_fatal = s->is_fatal || w->is_fatal;
    if (w->notes.n > 0)
        merge_notes(&s->notes, &w->notes);
    s->n_loaded += w->hi - w->lo;
    if (gr_loader_is_done(s))
        pthread_cond_signal(&l->ready);
}

static void claim(gr_loader *l, stretch *w)
{
    gr_loader_slot *s = gr_loader_slot_of(l, l->claim_at);
    int64_t left = s->n_all - s->n_claimed;
    int64_t n = s->n_all / ((int64_t)STRETCHES_PER_WORKER * (l->c.n_workers + 1));

    n = n < 1 ? 1 : n;
    n = n > left ? left : n;
    w->slot = s;
    w->lo = s->n_claimed;
    w->hi = s->n_claimed + n;
    s->n_claimed += n;
}

static bool can_claim(gr_loader *l)
{
    while (l->claim_at < l->n_issued) {
        const gr_loader_slot *s = gr_loader_slot_of(l, l->claim_at);

        if (s->n_claimed < s->n_all)
            return !gr_loader_cancelled(l);
        l->claim_at++;
    }
    return false;
}

static void work_on_claim(gr_loader *l, int worker)
{
    stretch w;
    int64_t began;

    w.worker = worker;
    w.n_skipped = 0;
    w.notes.n = 0;
    w.is_fatal = false;
    claim(l, &w);
    l->n_busy++;
    pthread_mutex_unlock(&l->lock);
    began = gr_now_ns();
    load_stretch(l, &w);
    began = gr_now_ns() - began;
    pthread_mutex_lock(&l->lock);
    l->n_busy--;
    merge(l, &w, began);
}

bool gr_loader_work(gr_loader *l, int worker)
{
    if (can_claim(l))
        work_on_claim(l, worker);
    else if (can_issue(l))
        issue(l);
    else
        return false;
    if (l->n_busy == 0 && gr_loader_cancelled(l))
        pthread_cond_signal(&l->ready);
    return true;
}

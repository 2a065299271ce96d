/* The loader: its life, and the caller's side. The invariants are in loader_impl.h. */
#include "data/loader_impl.h"

#include "backend/host.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/size.h"
#include "base/thread.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_WORKERS 4

/* ---- memory ---- */

/* Of all fields of n samples of size k. */
static gr_status batch_bytes(const gr_loader *l, int64_t n, int k, size_t *out)
{
    *out = GR_LOADER_ALIGN;
    for (int f = 0; f < l->c.n_fields; f++) {
        size_t bytes;

        GR_TRY(gr_size_mul(&bytes, gr_loader_bytes(l, f, k), (size_t)n));
        GR_TRY(gr_size_add(out, *out, gr_round_up(bytes, GR_LOADER_ALIGN)));
    }
    return GR_OK;
}

/* Of the largest batch. */
static gr_status slot_bytes(const gr_loader *l, size_t *out)
{
    const gr_order_source *source = l->c.source;
    int n_sizes = source->sizes ? source->sizes->n_sizes : 1;

    *out = GR_LOADER_ALIGN;
    for (int k = 0; k < n_sizes; k++) {
        size_t bytes;

        GR_TRY(batch_bytes(l, source->sizes ? source->max_of[k] : source->max_batch, k, &bytes));
        *out = bytes > *out ? bytes : *out;
    }
    return GR_OK;
}

static gr_status block_alloc(const gr_loader *l, size_t n_bytes, void **out)
{
    gr_device *d = l->c.device;

    return d ? d->ops->host_alloc(d, n_bytes, out) : gr_host_alloc(NULL, n_bytes, out);
}

static void block_free(const gr_loader *l, void *block)
{
    gr_device *d = l->c.device;

    if (d && block)
        d->ops->host_free(d, block);
    else
        gr_host_free(NULL, block);
}

static gr_status make_slot(gr_loader *l, gr_loader_slot *s)
{
    size_t n_bytes = 0, n_max = (size_t)l->c.source->max_batch;

    GR_TRY(slot_bytes(l, &n_bytes));
    GR_TRY(block_alloc(l, n_bytes, &s->block));
    s->index = gr_calloc(n_max + 1, sizeof(*s->index));
    s->failed = gr_calloc(n_max + 1, sizeof(*s->failed));
    s->skipped = gr_calloc(n_max + 1, sizeof(*s->skipped));
    return s->index && s->failed && s->skipped ? GR_OK : GR_ERR_NOMEM;
}

static gr_status make_memory(gr_loader *l)
{
    l->slots = gr_calloc((size_t)l->n_slots, sizeof(*l->slots));
    l->epochs = gr_calloc((size_t)l->n_epochs, sizeof(*l->epochs));
    l->threads = gr_calloc((size_t)l->c.n_workers + 1, sizeof(*l->threads));
    if (!l->slots || !l->epochs || !l->threads)
        return GR_ERR_NOMEM;
    for (int i = 0; i < l->n_slots; i++)
        GR_TRY(make_slot(l, &l->slots[i]));
    for (int i = 0; i < l->n_epochs; i++)
        GR_TRY(
            gr_order_reserve(&l->epochs[i].order, l->c.source->n_samples, l->c.source->n_batches));
    return GR_OK;
}

static void free_memory(gr_loader *l)
{
    for (int i = 0; l->slots && i < l->n_slots; i++) {
        block_free(l, l->slots[i].block);
        gr_free(l->slots[i].index);
        gr_free(l->slots[i].failed);
        gr_free(l->slots[i].skipped);
    }
    for (int i = 0; l->epochs && i < l->n_epochs; i++)
        gr_order_fini(&l->epochs[i].order);
    gr_free(l->slots);
    gr_free(l->epochs);
    gr_free(l->threads);
}

/* ---- threads ---- */

static void *worker_main(void *arg)
{
    gr_loader *l = arg;
    int worker;

    pthread_mutex_lock(&l->lock);
    worker = l->n_named++;
    while (!l->quit) {
        if (gr_loader_work(l, worker))
            continue;
        l->n_idle++;
        pthread_cond_wait(&l->work, &l->lock);
        l->n_idle--;
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static gr_status start_threads(gr_loader *l)
{
    int err = 0;

    while (l->n_threads < l->c.n_workers && err == 0) {
        err = gr_thread_start(&l->threads[l->n_threads], worker_main, l);
        if (err == 0)
            l->n_threads++;
    }
    if (err != 0)
        return gr_fail(GR_ERR_NOMEM, "loader thread %d of %d did not start: %s", l->n_threads + 1,
                       l->c.n_workers, strerror(err));
    return GR_OK;
}

/* ---- life ---- */

static gr_status check(const gr_loader_config *c)
{
    if (c->n_fields < 0 || c->n_fields > GR_LOADER_MAX_FIELDS)
        return gr_fail(GR_ERR_ARG, "a loader takes up to %d fields, not %d", GR_LOADER_MAX_FIELDS,
                       c->n_fields);
    if (c->n_workers < 0 || c->n_workers > GR_LOADER_MAX_WORKERS)
        return gr_fail(GR_ERR_ARG, "%d loader threads; 0 to %d are possible", c->n_workers,
                       GR_LOADER_MAX_WORKERS);
    if (c->prefetch < 0 || c->prefetch > GR_LOADER_MAX_PREFETCH)
        return gr_fail(GR_ERR_ARG, "prefetch of %d batches; 0 to %d are possible", c->prefetch,
                       GR_LOADER_MAX_PREFETCH);
    if (c->batches_per_epoch > c->source->n_batches)
        return gr_fail(GR_ERR_ARG,
                       "%" PRId64 " batches an epoch were asked for, and there are %" PRId64,
                       c->batches_per_epoch, c->source->n_batches);
    return GR_OK;
}

/* When a new epoch is opened all slots but one may hold batches of those before it. */
static int epochs_in_flight(const gr_loader *l)
{
    int64_t others = l->n_slots - 1;

    return 1 + (int)(l->n_batches > 0 ? (others + l->n_batches - 1) / l->n_batches : 0);
}

gr_status gr_loader_create(gr_loader **out, const gr_loader_config *config)
{
    gr_loader *l;
    gr_status st;

    GR_TRY(check(config));
    l = gr_calloc(1, sizeof(*l));
    if (!l)
        return GR_ERR_NOMEM;
    l->c = *config;
    l->ended = true; /* until the first seek */
    l->n_batches =
        config->batches_per_epoch > 0 ? config->batches_per_epoch : config->source->n_batches;
    /* Without workers nobody could use a second slot. */
    l->n_slots = 1;
    if (config->n_workers > 0)
        l->n_slots += config->prefetch > 0 ? config->prefetch : 1;
    l->n_epochs = epochs_in_flight(l);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    st = make_memory(l);
    if (st == GR_OK)
        st = start_threads(l);
    if (st != GR_OK) {
        gr_loader_destroy(l);
        return gr_wrap(st, "loader of %s samples", config->what);
    }
    *out = l;
    return GR_OK;
}

void gr_loader_destroy(gr_loader *l)
{
    if (!l)
        return;
    gr_loader_set_cancel(l, true);
    pthread_mutex_lock(&l->lock);
    l->quit = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_threads; i++)
        pthread_join(l->threads[i], NULL);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->ready);
    pthread_mutex_destroy(&l->lock);
    free_memory(l);
    gr_free(l);
}

/* ---- the caller's side ---- */

/* Nobody is busy: all slots are free again. The order that was drawn last is kept, for it is
 * often the one that is asked for. */
static void clear(gr_loader *l)
{
    l->n_released = l->claim_at = l->n_issued = 0;
    l->holds = false;
    for (int i = 0; i < l->n_epochs; i++)
        l->epochs[i].n_users = &l->epochs[i] == l->current;
}

gr_status gr_loader_seek(gr_loader *l, int64_t epoch, int64_t batch)
{
    if (epoch < 0 || batch < 0 || batch > l->n_batches)
        return gr_fail(GR_ERR_ARG,
                       "no batch %" PRId64 " in epoch %" PRId64 ": there are %" PRId64 " in each",
                       batch, epoch, l->n_batches);
    gr_loader_set_cancel(l, true);
    pthread_mutex_lock(&l->lock);
    while (l->n_busy > 0)
        pthread_cond_wait(&l->ready, &l->lock);
    clear(l);
    l->at_epoch = epoch;
    l->at_batch = batch;
    l->ended = false;
    gr_loader_set_cancel(l, false);
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    return GR_OK;
}

static void release(gr_loader *l)
{
    gr_loader_slot *s = gr_loader_slot_of(l, l->n_released);

    s->epoch->n_users--;
    s->epoch = NULL;
    l->holds = false;
    l->n_released++;
    if (l->n_idle > 0)
        pthread_cond_signal(&l->work);
}

/* NULL behind the last batch. */
static gr_loader_slot *wait_for_batch(gr_loader *l)
{
    for (;;) {
        gr_loader_slot *s = gr_loader_slot_of(l, l->n_released);

        if (l->n_released < l->n_issued && gr_loader_is_done(s))
            return s;
        if (l->ended && l->n_released == l->n_issued)
            return NULL;
        if (l->c.n_workers == 0)
            GR_BUG_IF(!gr_loader_work(l, 0));
        else
            pthread_cond_wait(&l->ready, &l->lock);
    }
}

/* Samples that did not load are closed up. */
static void drop_failed(const gr_loader *l, gr_loader_slot *s)
{
    int64_t n = 0;

    for (int64_t i = 0; i < s->n_all; i++) {
        if (s->failed[i])
            continue;
        for (int f = 0; f < l->c.n_fields && n < i; f++) {
            size_t bytes = gr_loader_bytes(l, f, s->out.size);
            char *mem = s->out.mem[f];

            memcpy(mem + (size_t)n * bytes, mem + (size_t)i * bytes, bytes);
        }
        s->index[n++] = s->index[i];
    }
    s->out.n = n;
}

/* Which samples did not load, and what the first ones said. */
static void list_skipped(gr_loader_slot *s)
{
    const int64_t *index = s->epoch->order.index + s->first;
    int64_t n = 0;

    for (int64_t i = 0; i < s->n_all && n < s->out.n_skipped; i++)
        if (s->failed[i])
            s->skipped[n++] = index[i];
    s->out.skipped = s->skipped;
    s->out.n_notes = s->notes.n;
    for (int k = 0; k < s->notes.n; k++)
        s->out.notes[k] = s->notes.error[k].text;
}

static void hand_out(gr_loader *l, gr_loader_slot *s, int64_t wait_ns)
{
    list_skipped(s);
    if (l->c.policy == GR_LOAD_DROP && s->out.n_skipped > 0)
        drop_failed(l, s);
    s->out.index = s->index;
    s->out.wait_ns = wait_ns;
    l->holds = true;
    l->stats.n_batches++;
    l->stats.n_samples += s->out.n;
    l->stats.n_skipped += s->out.n_skipped;
    l->stats.wait_ns += wait_ns;
}

gr_status gr_loader_next(gr_loader *l, const gr_loaded **out)
{
    int64_t began = gr_now_ns();
    gr_status st = GR_OK;
    gr_loader_slot *s;

    *out = NULL;
    pthread_mutex_lock(&l->lock);
    if (l->holds)
        release(l);
    s = wait_for_batch(l);
    if (s && s->is_fatal) {
        st = gr_error_raise(&s->notes.error[0]);
    } else if (s) {
        hand_out(l, s, gr_now_ns() - began);
        *out = &s->out;
    }
    pthread_mutex_unlock(&l->lock);
    return st;
}

int64_t gr_loader_batches(const gr_loader *l)
{
    return l->n_batches;
}

void gr_loader_get_stats(gr_loader *l, gr_loader_stats *out)
{
    pthread_mutex_lock(&l->lock);
    *out = l->stats;
    pthread_mutex_unlock(&l->lock);
}

void gr_loader_reset_stats(gr_loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->stats = (gr_loader_stats){ 0 };
    pthread_mutex_unlock(&l->lock);
}

int gr_loader_cores(int n_local)
{
    long n_online = sysconf(_SC_NPROCESSORS_ONLN);
    int n = gr_cpu_count();

    /* Sets that cannot all fit on the machine side by side are shared, not bound. */
    if (n_local > 1 && (int64_t)n * n_local > n_online)
        n /= n_local;
    return n > 1 ? n : 1;
}

int gr_loader_default_workers(int n_local)
{
    int n = gr_loader_cores(n_local);

    return n < DEFAULT_WORKERS ? n : DEFAULT_WORKERS;
}

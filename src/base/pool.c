/*
 * The thread pool.
 *
 * A job is published as one word, the ticket: how many slices it has and which is next.
 *
 *     caller   fn, arg, n_done = 0 ─► ticket = (n_slices, 0) ─► wake ─► take slices
 *              ─► wait until n_done == n_slices
 *     worker   wait for a new job number ─► take slices ─► wait …
 *
 * (1) A slice is taken by moving the ticket from (n, i) to (n, i + 1) in one step. Who did
 *     that holds an unfinished slice, so the caller cannot have left the job: fn and arg
 *     are read after it and are the right ones, however late a worker comes.
 * (2) A worker that found nothing to take touches neither n_done nor the job, so the caller
 *     never waits for one that slept through it.
 * (3) Which thread runs a slice depends on timing, what a slice is does not.
 * (4) Waiting is a spin of at most SPIN_NS, and none when threads outnumber cores, then a
 *     condition variable. A sleeper announces itself before its last look at what it waits
 *     for, and the waker changes that before it looks for sleepers (both sequentially
 *     consistent), so no wake-up is lost.
 *
 * gr_pool_run() does not allocate.
 */
#include "base/pool.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define MAX_THREADS 4096
#define SPIN_NS     200000 /* a few small nodes that one thread runs; a wake-up costs 10 to 50 us */
#define LINE_BYTES  64

#if defined(__x86_64__)
#define CPU_PAUSE() __builtin_ia32_pause()
#else
#define CPU_PAUSE() ((void)0)
#endif

struct gr_pool {
    int n_threads;      /* fixed at creation; the caller included */
    int n_workers;      /* fixed at creation; threads that really started */
    bool may_spin;      /* fixed at creation */
    pthread_t *workers; /* owned */

    gr_pool_fn *fn; /* fixed while a slice of the job is unfinished */
    void *arg;      /* likewise */

    atomic_bool is_running;   /* a job is under way; only to find wrong use */
    atomic_bool stop;         /* set once, by destroy */
    pthread_mutex_t lock;     /* for the two conditions; held for nothing else */
    pthread_cond_t work;      /* job_number or stop changed */
    pthread_cond_t done;      /* n_done reached the number of slices */
    atomic_int n_sleeping;    /* workers about to wait, or waiting, on `work` */
    atomic_bool caller_waits; /* the caller waits on `done` */

    _Alignas(LINE_BYTES) atomic_uint job_number; /* changes with each job */
    _Alignas(LINE_BYTES) atomic_ullong ticket;   /* n_slices << 32 | next slice */
    _Alignas(LINE_BYTES) atomic_int n_done;      /* finished slices of the job */
};

/* The condition variables could be waited for with a predicate of any shape, but two
 * predicates are all there are: kept as functions so that spin and sleep share them. */
static bool has_news(const gr_pool *p, unsigned seen)
{
    return atomic_load(&p->job_number) != seen || atomic_load(&p->stop);
}

static bool all_done(const gr_pool *p, int n_slices)
{
    return atomic_load(&p->n_done) == n_slices;
}

/* True while a spin that began at `start_ns` may go on; looks at the clock rarely. */
static bool may_go_on(const gr_pool *p, int *turn, int64_t start_ns)
{
    CPU_PAUSE();
    return p->may_spin && (++*turn % 64 != 0 || gr_now_ns() - start_ns < SPIN_NS);
}

static void wait_for_news(gr_pool *p, unsigned seen)
{
    int64_t start_ns = gr_now_ns();
    int turn = 0;

    while (may_go_on(p, &turn, start_ns))
        if (has_news(p, seen))
            return;
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->n_sleeping, 1);
    while (!has_news(p, seen))
        pthread_cond_wait(&p->work, &p->lock);
    atomic_fetch_sub(&p->n_sleeping, 1);
    pthread_mutex_unlock(&p->lock);
}

static void wait_for_done(gr_pool *p, int n_slices)
{
    int64_t start_ns;
    int turn = 0;

    if (all_done(p, n_slices))
        return;
    start_ns = gr_now_ns();
    while (may_go_on(p, &turn, start_ns))
        if (all_done(p, n_slices))
            return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_waits, true);
    while (!all_done(p, n_slices))
        pthread_cond_wait(&p->done, &p->lock);
    atomic_store(&p->caller_waits, false);
    pthread_mutex_unlock(&p->lock);
}

/* Runs slices until the ticket has none left. */
static void take_slices(gr_pool *p)
{
    unsigned long long t = atomic_load(&p->ticket);

    for (;;) {
        int n_slices = (int)(t >> 32);
        int slice = (int)(t & 0xffffffffu);

        if (slice >= n_slices)
            return;
        if (!atomic_compare_exchange_weak(&p->ticket, &t, t + 1))
            continue; /* t is what the ticket is now */
        p->fn(p->arg, slice, n_slices);
        if (atomic_fetch_add(&p->n_done, 1) + 1 == n_slices && atomic_load(&p->caller_waits)) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->done);
            pthread_mutex_unlock(&p->lock);
        }
        t = atomic_load(&p->ticket);
    }
}

static void *worker_main(void *arg)
{
    gr_pool *p = (gr_pool *)arg;
    unsigned seen = 0;

    while (!atomic_load(&p->stop)) {
        seen = atomic_load(&p->job_number); /* before taking: a later job is news again */
        take_slices(p);
        wait_for_news(p, seen);
    }
    return NULL;
}

/* Wakes at most n sleepers; more would find nothing to take. */
static void wake_workers(gr_pool *p, int n)
{
    int sleeping = atomic_load(&p->n_sleeping);

    if (sleeping == 0)
        return;
    pthread_mutex_lock(&p->lock);
    if (n >= sleeping)
        pthread_cond_broadcast(&p->work);
    for (int i = 0; n < sleeping && i < n; i++)
        pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

static int n_cores(void)
{
    cpu_set_t set;

    /* Fails only with more than 1024 cores; then there are enough. */
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : CPU_SETSIZE;
}

static gr_status start_workers(gr_pool *p)
{
    int err = 0;

    while (p->n_workers < p->n_threads - 1 && err == 0) {
        err = gr_thread_start(&p->workers[p->n_workers], worker_main, p);
        if (err == 0)
            p->n_workers++;
    }
    if (err != 0)
        return gr_fail(GR_ERR_NOMEM, "cannot start thread %d of %d: %s", p->n_workers + 2,
                       p->n_threads, strerror(err));
    return GR_OK;
}

gr_status gr_pool_create(gr_pool **out, int n_threads)
{
    gr_pool *p;
    gr_status st;

    if (n_threads < 1 || n_threads > MAX_THREADS)
        return gr_fail(GR_ERR_ARG, "a pool has 1 to %d threads, not %d", MAX_THREADS, n_threads);
    p = gr_malloc_aligned(sizeof(*p));
    if (!p)
        return GR_ERR_NOMEM;
    memset(p, 0, sizeof(*p));
    p->n_threads = n_threads;
    p->may_spin = n_threads <= n_cores();
    /* With default attributes these cannot fail on Linux. */
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    p->workers = gr_calloc((size_t)n_threads, sizeof(*p->workers));
    st = p->workers ? start_workers(p) : GR_ERR_NOMEM;
    if (st != GR_OK) {
        gr_pool_destroy(p);
        return st;
    }
    *out = p;
    return GR_OK;
}

void gr_pool_destroy(gr_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_workers; i++)
        pthread_join(p->workers[i], NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    gr_free(p->workers);
    gr_free(p);
}

int gr_pool_size(const gr_pool *p)
{
    return p ? p->n_threads : 1;
}

void gr_pool_run(gr_pool *p, gr_pool_fn *fn, void *arg, int n_slices)
{
    if (!p || p->n_threads == 1 || n_slices <= 1) {
        for (int i = 0; i < n_slices; i++)
            fn(arg, i, n_slices);
        return;
    }
    GR_BUG_IF(atomic_exchange(&p->is_running, true)); /* two callers, or a job in a slice */
    p->fn = fn;
    p->arg = arg;
    atomic_store(&p->n_done, 0);
    atomic_store(&p->ticket, (unsigned long long)n_slices << 32);
    atomic_fetch_add(&p->job_number, 1);
    wake_workers(p, n_slices - 1);
    take_slices(p);
    wait_for_done(p, n_slices);
    atomic_store(&p->is_running, false);
}

void gr_pool_cut(int64_t n, int64_t grain, int slice, int n_slices, int64_t *lo, int64_t *hi)
{
    int64_t n_grains = n / grain + (n % grain != 0);
    int64_t each = n_grains / n_slices;
    int64_t rest = n_grains % n_slices; /* the first `rest` slices get one more */
    int64_t first = each * slice + (slice < rest ? slice : rest);
    int64_t end = first + each + (slice < rest);

    *lo = first * grain;
    *hi = end < n_grains ? end * grain : n; /* the last grain may be short */
    if (*lo > n)
        *lo = n;
}

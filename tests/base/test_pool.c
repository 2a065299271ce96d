/*
 * The pool: every slice runs exactly once, cuts cover everything, no allocation, results
 * do not depend on the number of threads, workers sleep when there is nothing to do.
 */
#include "alloc_fail.h"
#include "base/clock.h"
#include "base/pool.h"
#include "check.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#define N_MAX 1000

typedef struct counts {
    int plain[N_MAX]; /* not atomic: TSan must see that slices and caller do not race */
    int n_slices;
} counts;

static void count_slice(void *arg, int slice, int n_slices)
{
    counts *c = (counts *)arg;

    c->plain[slice]++;
    if (c->n_slices != n_slices)
        c->plain[slice] = -1000000;
}

static void every_slice_once(int n_threads)
{
    static const int n_slices[] = { 0, 1, 2, 3, 7, 64, N_MAX };
    static counts c;
    gr_pool *p = NULL;
    long before;

    GR_CHECK_OK(gr_pool_create(&p, n_threads));
    GR_CHECK_EQ(gr_pool_size(p), n_threads);
    before = gr_alloc_count();
    for (size_t k = 0; k < sizeof(n_slices) / sizeof(n_slices[0]); k++) {
        c = (counts){ .n_slices = n_slices[k] };
        for (int turn = 1; turn <= 50; turn++) {
            gr_pool_run(p, count_slice, &c, n_slices[k]);
            for (int i = 0; i < N_MAX; i++)
                GR_CHECK_EQ(c.plain[i], i < n_slices[k] ? turn : 0);
        }
    }
    GR_CHECK_EQ(gr_alloc_count(), before);
    gr_pool_destroy(p);
}

/* Many tiny jobs with changing arguments: a late worker must not mix two jobs. */
static void jobs_do_not_mix(int n_threads, int n_jobs)
{
    static counts two[2];
    gr_pool *p;

    memset(two, 0, sizeof(two));
    GR_CHECK_OK(gr_pool_create(&p, n_threads));
    for (int job = 0; job < n_jobs; job++) {
        counts *c = &two[job % 2];

        c->n_slices = 2 + job % 5;
        memset(c->plain, 0, sizeof(int) * 8);
        gr_pool_run(p, count_slice, c, c->n_slices);
        for (int i = 0; i < 8; i++)
            GR_CHECK_EQ(c->plain[i], i < c->n_slices);
    }
    gr_pool_destroy(p);
}

static void nap_slice(void *arg, int slice, int n_slices)
{
    struct timespec nap = { 0, 2000000 };

    (void)slice;
    (void)n_slices;
    nanosleep(&nap, NULL);
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* Slices and pauses longer than the spin: both kinds of sleep and both wake-ups. */
static void sleeps_and_wakes(void)
{
    struct timespec pause = { 0, 3000000 };
    atomic_int n = 0;
    gr_pool *p;

    GR_CHECK_OK(gr_pool_create(&p, 4));
    for (int i = 0; i < 10; i++) {
        gr_pool_run(p, nap_slice, &n, 1 + i);
        GR_CHECK_EQ(atomic_load(&n), (i + 1) * (i + 2) / 2);
        nanosleep(&pause, NULL);
    }
    gr_pool_destroy(p);
}

static double cpu_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void idle_workers_cost_nothing(void)
{
    struct timespec pause = { 0, 200000000 };
    counts c = { .n_slices = 2 };
    double before;
    gr_pool *p;

    GR_CHECK_OK(gr_pool_create(&p, 2));
    gr_pool_run(p, count_slice, &c, 2);
    before = cpu_seconds();
    nanosleep(&pause, NULL);
    GR_CHECK(cpu_seconds() - before < 0.1);
    gr_pool_destroy(p);
}

static void cuts(void)
{
    static const int64_t sizes[] = { 0, 1, 7, 16, 17, 100, 4096, 100003 };
    static const int64_t grains[] = { 1, 3, 16, 1000 };

    for (size_t s = 0; s < 8; s++)
        for (size_t g = 0; g < 4; g++)
            for (int n_slices = 1; n_slices < 20; n_slices++) {
                int64_t at = 0, lo = 0, hi = 0;

                for (int i = 0; i < n_slices; i++) {
                    gr_pool_cut(sizes[s], grains[g], i, n_slices, &lo, &hi);
                    GR_CHECK_EQ(lo, at);
                    GR_CHECK(hi >= lo && (hi == sizes[s] || hi % grains[g] == 0));
                    GR_CHECK(hi - lo <= (sizes[s] / grains[g] / n_slices + 1) * grains[g]);
                    at = hi;
                }
                GR_CHECK_EQ(at, sizes[s]);
            }
}

typedef struct sum_job {
    double part[16];
} sum_job;

static void sum_slice(void *arg, int slice, int n_slices)
{
    sum_job *j = (sum_job *)arg;
    double sum = 0;
    int64_t lo, hi;

    gr_pool_cut(100000, 8, slice, n_slices, &lo, &hi);
    for (int64_t i = lo; i < hi; i++)
        sum += 1.0 / (double)(i + 1);
    j->part[slice] = sum;
}

/* The same number of slices gives the same bits, whatever the number of threads. */
static void same_bits(void)
{
    sum_job one = { { 0 } }, many = { { 0 } };
    gr_pool *p;

    gr_pool_run(NULL, sum_slice, &one, 16);
    GR_CHECK_OK(gr_pool_create(&p, 3));
    gr_pool_run(p, sum_slice, &many, 16);
    gr_pool_destroy(p);
    GR_CHECK(memcmp(&one, &many, sizeof(one)) == 0);
}

static gr_status body(void *arg)
{
    gr_pool *p;

    (void)arg;
    GR_TRY(gr_pool_create(&p, 2));
    gr_pool_destroy(p);
    return GR_OK;
}

int main(void)
{
    gr_pool *p = NULL;

    GR_CHECK_FAILS(gr_pool_create(&p, 0), GR_ERR_ARG, "not 0");
    GR_CHECK_FAILS(gr_pool_create(&p, 1000000), GR_ERR_ARG, "not 1000000");
    GR_CHECK_EQ(gr_pool_size(NULL), 1);
    gr_pool_destroy(NULL);
    for (int n = 1; n <= 8; n += n < 4 ? 1 : 4)
        every_slice_once(n);
    jobs_do_not_mix(2, 20000); /* spins on two cores */
    jobs_do_not_mix(16, 2000); /* more threads than most machines have cores */
    sleeps_and_wakes();
    idle_workers_cost_nothing();
    cuts();
    same_bits();
    GR_CHECK_EQ(gr_alloc_fail_each(body, NULL), 2);
    return 0;
}

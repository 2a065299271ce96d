/*
 * The thread pool: n-1 workers and the caller run slices of one job. One job at a
 * time, started by one thread; a slice may not start another job.
 */
#ifndef GR_BASE_POOL_H
#define GR_BASE_POOL_H

#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_pool gr_pool;

/* `slice` of `n_slices`, which never depends on timing: same count, same cuts. */
typedef void gr_pool_fn(void *arg, int slice, int n_slices);

/* n_threads >= 1, the caller included: 1 makes no thread at all. */
gr_status gr_pool_create(gr_pool **out, int n_threads) GR_MUST_CHECK;
void gr_pool_destroy(gr_pool *p);
int gr_pool_size(const gr_pool *p); /* 1 for NULL */

/* Runs fn for slices 0..n_slices-1 and returns when all are done. With a NULL pool,
 * or one slice, everything runs in the caller. n_slices may exceed the threads. */
void gr_pool_run(gr_pool *p, gr_pool_fn *fn, void *arg, int n_slices);

/* The stretch [*lo, *hi) of n items that belongs to a slice, cut at multiples of
 * `grain` (>= 1). */
void gr_pool_cut(int64_t n, int64_t grain, int slice, int n_slices, int64_t *lo, int64_t *hi);

#ifdef __cplusplus
}
#endif

#endif

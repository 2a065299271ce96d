/* Conditions of threads that are waited for until a deadline: by the monotonic clock, so that
 * nobody waits longer or shorter when the date is set. */
#ifndef GR_BASE_COND_H
#define GR_BASE_COND_H

#include "base/clock.h"

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* End it with pthread_cond_destroy(). */
GR_API void gr_cond_init(pthread_cond_t *c);
/* As pthread_cond_wait(), the lock held; false when the deadline has passed. */
GR_API bool gr_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, gr_deadline d);

#ifdef __cplusplus
}
#endif

#endif

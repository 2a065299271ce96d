/* Conditions on the clock that deadlines are made of. */
#include "base/cond.h"

#include <time.h>

void gr_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

bool gr_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, gr_deadline d)
{
    struct timespec until = { .tv_sec = d.at_ns / 1000000000, .tv_nsec = d.at_ns % 1000000000 };

    return pthread_cond_timedwait(c, lock, &until) == 0;
}

/* Threads of the library's own. */
#ifndef GR_BASE_THREAD_H
#define GR_BASE_THREAD_H

#include "gradus/status.h"

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* pthread_create() with all signals blocked in the new thread: they are for the threads of the
 * program. 0, or an errno value. */
GR_API int gr_thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif

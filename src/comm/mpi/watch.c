/* The thread that looks at the clock while MPI waits. */
#include "comm/mpi/watch.h"

#include "base/alloc.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/thread.h"
#include "comm/pg.h"
#include "net/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LATE_MS 5000

struct mpi_watch {
    const char *what;
    gr_deadline deadline;
    int64_t start_ns;
    char who[64]; /* "rank 0 of 3"; MPI itself cannot be asked yet, or any more */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool is_over; /* guarded by lock */
};

/* False: the call has come to an end. */
static bool lasts_until(mpi_watch *w, gr_deadline d)
{
    while (!w->is_over && gr_cond_wait(&w->ended, &w->lock, d))
        continue;
    return !w->is_over;
}

static void *look(void *arg)
{
    mpi_watch *w = (mpi_watch *)arg;
    gr_deadline late = gr_deadline_in_ms(LATE_MS);
    bool lasts = true;

    pthread_mutex_lock(&w->lock);
    if (late.at_ns < w->deadline.at_ns)
        lasts = lasts_until(w, late);
    if (lasts && late.at_ns < w->deadline.at_ns)
        gr_log(COMM, WARN, "%s has waited %.0f s in %s (MPI does not say who is missing)", w->who,
               (double)(gr_now_ns() - w->start_ns) * 1e-9, w->what);
    if (lasts && lasts_until(w, w->deadline)) {
        gr_log(COMM, ERROR,
               "timed out: %s waited %.1f s in %s (MPI does not say who is missing); this process "
               "ends here; " GR_TIMEOUT_HINT,
               w->who, (double)(gr_now_ns() - w->start_ns) * 1e-9, w->what);
        fflush(NULL);
        _exit(EXIT_FAILURE);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

mpi_watch *mpi_watch_begin(const char *what, gr_deadline d)
{
    mpi_watch *w = (mpi_watch *)gr_calloc(1, sizeof(*w));
    gr_job job;
    int rc;

    if (!w)
        return NULL;
    w->what = what;
    w->deadline = d;
    w->start_ns = gr_now_ns();
    if (gr_job_ranks_from_env(&job) == GR_OK)
        snprintf(w->who, sizeof(w->who), "rank %d of %d", job.rank, job.n_ranks);
    else
        snprintf(w->who, sizeof(w->who), "a rank");
    pthread_mutex_init(&w->lock, NULL);
    gr_cond_init(&w->ended);
    rc = gr_thread_start(&w->thread, look, w);
    if (rc == 0)
        return w;
    pthread_cond_destroy(&w->ended);
    pthread_mutex_destroy(&w->lock);
    gr_free(w);
    return NULL;
}

void mpi_watch_end(mpi_watch *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->is_over = true;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->ended);
    pthread_mutex_destroy(&w->lock);
    gr_free(w);
}

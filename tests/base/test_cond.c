/* Waiting for another thread, with and without success. */
#include "base/cond.h"

#include "check.h"

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_here;
} meeting;

static void *come(void *arg)
{
    meeting *m = (meeting *)arg;

    pthread_mutex_lock(&m->lock);
    m->is_here = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

int main(void)
{
    meeting m = { .lock = PTHREAD_MUTEX_INITIALIZER };
    gr_deadline soon = gr_deadline_in_ms(30), late = gr_deadline_in_ms(600000);
    pthread_t other;

    gr_cond_init(&m.changed);
    pthread_mutex_lock(&m.lock);
    while (gr_cond_wait(&m.changed, &m.lock, soon))
        ; /* it may wake for nothing, but ends */
    GR_CHECK(gr_deadline_passed(soon));
    GR_CHECK(!gr_cond_wait(&m.changed, &m.lock, gr_deadline_in_ms(0)));
    GR_CHECK_EQ(pthread_create(&other, NULL, come, &m), 0);
    while (!m.is_here)
        GR_CHECK(gr_cond_wait(&m.changed, &m.lock, late));
    pthread_mutex_unlock(&m.lock);
    GR_CHECK_EQ(pthread_join(other, NULL), 0);
    pthread_cond_destroy(&m.changed);
    return 0;
}

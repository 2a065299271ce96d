/*
 * What the two files of the loader share.
 *
 * Batches have running numbers from gr_loader_seek() on; number k lies in slot k mod n_slots.
 *
 *     n_released        claim_at            n_issued          n_released + n_slots
 *         │  made, or being made │ not all claimed │   free slots         │
 *
 * (1) Everything is under `lock`, except: the memory of a claimed stretch of samples belongs
 *     to the worker that claimed it, a batch that is done to the caller, and the order of an
 *     epoch is not written while a slot or `current` uses it.
 * (2) A worker claims a stretch of a batch, so that all of them work on the batch that is
 *     needed next. Stretches depend on the number of workers; what is in them does not.
 * (3) The order of the next epoch is drawn without the lock; `issuing` keeps others away.
 * (4) `cancel` is looked at between samples. Whoever sets it waits until nobody is busy.
 */
#ifndef GR_DATA_LOADER_IMPL_H
#define GR_DATA_LOADER_IMPL_H

#include "data/loader.h"

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_loader_epoch {
    gr_order order;
    int64_t epoch;
    int n_users; /* slots, and one for being current */
} gr_loader_epoch;

/* The places with the lowest numbers that did not load, in their order. */
typedef struct gr_loader_notes {
    int n;
    int64_t at[GR_LOADER_NOTES];
    gr_error error[GR_LOADER_NOTES]; /* what happened there */
} gr_loader_notes;

typedef struct gr_loader_slot {
    gr_loaded out;
    void *block;      /* owned: the memory of all fields */
    int64_t *index;   /* owned: of the samples that were loaded */
    bool *failed;     /* owned: places whose own sample did not load */
    int64_t *skipped; /* owned: those samples, when the batch is handed out */
    gr_loader_epoch *epoch;
    int64_t first;                      /* place of its first sample in the epoch's order */
    int64_t n_all, n_claimed, n_loaded; /* samples */
    bool is_fatal;                      /* the first note is to be raised */
    gr_loader_notes notes;
} gr_loader_slot;

struct gr_loader {
    gr_loader_config c;
    int64_t n_batches; /* of an epoch */
    int n_slots;
    gr_loader_slot *slots;   /* owned */
    gr_loader_epoch *epochs; /* owned: as many as slots can hold batches of, and the next */
    int n_epochs;
    pthread_t *threads; /* owned */
    int n_threads;      /* that were started */
    bool cancel;        /* see gr_loader_cancelled() */

    pthread_mutex_t lock;
    pthread_cond_t work;  /* for workers: something may be claimed or issued, or the end */
    pthread_cond_t ready; /* for the caller: a batch is done, or nobody is busy */
    int n_named;          /* workers that have their number */
    int n_idle, n_busy;   /* workers */
    bool quit, issuing;
    bool ended; /* nothing is left to be issued */
    bool holds; /* the caller has batch n_released */
    int64_t n_released, claim_at, n_issued;
    int64_t at_epoch, at_batch; /* what is issued next */
    gr_loader_epoch *current;
    gr_loader_stats stats;
};

/* Called with the lock held, which they let go of while they load or draw. */
bool gr_loader_work(gr_loader *l, int worker); /* false: nothing to do */
bool gr_loader_is_done(const gr_loader_slot *s);

/* Bytes of one sample of a field in batches of size k. */
static inline size_t gr_loader_bytes(const gr_loader *l, int field, int64_t k)
{
    const gr_loader_field *f = &l->c.fields[field];

    return f->by_size ? f->by_size[k] : f->bytes;
}

#define GR_LOADER_ALIGN ((size_t)256) /* of each field of a batch */

/* `cancel` is read without the lock. Built-ins, since headers here are C++ too. */
static inline bool gr_loader_cancelled(const gr_loader *l)
{
    return __atomic_load_n(&l->cancel, __ATOMIC_ACQUIRE);
}

static inline void gr_loader_set_cancel(gr_loader *l, bool cancel)
{
    __atomic_store_n(&l->cancel, cancel, __ATOMIC_RELEASE);
}

static inline gr_loader_slot *gr_loader_slot_of(gr_loader *l, int64_t number)
{
    return &l->slots[number % l->n_slots];
}

#ifdef __cplusplus
}
#endif

#endif

/*
 * The loader: batches in order, made ahead of time by threads (no processes: P7).
 *
 *     source ──► order of an epoch ──► slots, filled by workers ──► gr_loader_next()
 *
 * Batches come strictly in the order of the source, epoch after epoch without a pause: the
 * first batches of the next epoch are made while the last ones of this epoch are used. What
 * comes out does not depend on the number of workers, on the prefetch or on timing.
 *
 * A loader belongs to one thread, which calls everything here. load() is called by workers,
 * several at once; the source by one of them at a time.
 */
#ifndef GR_DATA_LOADER_H
#define GR_DATA_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/status.h"
#include "data/order.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_LOADER_MAX_FIELDS   64
#define GR_LOADER_MAX_WORKERS  256
#define GR_LOADER_MAX_PREFETCH 1024
#define GR_LOADER_NOTES        5 /* samples of a batch that did not load, with their words */

typedef struct gr_load_item {
    int64_t epoch, index;
    int size;   /* which of the source's sizes the batch is padded to; 0 where nothing is padded */
    int worker; /* who loads: 0 .. n_workers - 1; 0 when the caller does */
} gr_load_item;

/* Writes sample item->index to mem[i] of each field i, all bytes of it. What it writes depends
 * on `arg`, epoch, index and size alone: never on the worker. Fails with a message that
 * says what (which file); the loader adds the index. */
typedef gr_status gr_load_fn(void *arg, const gr_load_item *item, void *const *mem);

/* What happens to a sample that does not load (P42). It is never left as zeros. */
typedef enum gr_load_policy {
    GR_LOAD_FAIL,    /* gr_loader_next() fails with the message */
    GR_LOAD_REPLACE, /* the next one of the epoch's order that loads, and fits, takes its place:
                        training */
    GR_LOAD_DROP,    /* the batch is shorter by it, possibly empty: validation, predict */
} gr_load_policy;

typedef struct gr_loader_field {
    size_t bytes; /* of one sample */
    const size_t
        *by_size; /* borrowed: instead, of one sample at each of the source's sizes; NULL */
} gr_loader_field;

typedef struct gr_loader_config {
    gr_order_source *source; /* borrowed; nobody else may use it meanwhile */
    gr_load_fn *load;
    void *load_arg;
    gr_loader_field fields[GR_LOADER_MAX_FIELDS];
    int n_fields;
    gr_device *device;         /* whose pinned memory the batches lie in; NULL: plain memory */
    int n_workers;             /* threads; 0: the caller loads inside gr_loader_next() */
    int prefetch;              /* batches made ahead of the one in use; at least 1 with workers */
    int64_t batches_per_epoch; /* the first so many of each epoch; 0: all */
    int64_t end_epoch;         /* epochs from this one on are not loaded; 0: no end */
    gr_load_policy policy;
    const char *what; /* borrowed; "training": stands in messages before "sample 5" */
} gr_loader_config;

#define GR_LOADER_CONFIG_INIT         \
    {                                 \
        .prefetch = 2, .what = "data" \
    }

/* One batch. Borrowed: everything in it holds until the next call of the loader. */
typedef struct gr_loaded {
    int64_t epoch, number;           /* batch `number` of `epoch` */
    int64_t n;                       /* samples */
    int64_t n_all;                   /* of orders for training: samples of all ranks' batches */
    int size;                        /* which of the source's sizes they are padded to */
    const int64_t *index;            /* of the n samples that are in it */
    void *mem[GR_LOADER_MAX_FIELDS]; /* n samples of each field, one after the other */
    int64_t n_skipped;               /* samples that did not load */
    const int64_t *skipped;          /* their indices, in the order of the batch */
    int n_notes;                     /* what the first ones of them said: which file, and why */
    const char *notes[GR_LOADER_NOTES];
    int64_t wait_ns; /* how long the caller waited for it */
} gr_loaded;

typedef struct gr_loader_stats {
    int64_t n_batches, n_samples, n_skipped; /* handed out */
    int64_t wait_ns;                         /* the caller waited, or loaded itself */
    int64_t load_ns;                         /* spent in load(), all workers together */
} gr_loader_stats;

typedef struct gr_loader gr_loader;

/* Makes slots and threads; nothing is loaded before gr_loader_seek(). The caller owns *out. */
gr_status gr_loader_create(gr_loader **out, const gr_loader_config *config) GR_MUST_CHECK;
/* At once: waits for the samples that are being loaded, not for batches. NULL is fine. */
void gr_loader_destroy(gr_loader *l);

/* Starts loading at batch `batch` of `epoch`, whatever was loaded before is dropped: for the
 * start, for resuming, for another round over validation data. */
gr_status gr_loader_seek(gr_loader *l, int64_t epoch, int64_t batch) GR_MUST_CHECK;

/* The next batch; *out is NULL behind the last one. Releases the batch before it. After a
 * failure the same failure comes again until gr_loader_seek(). No allocation, unless the
 * source makes one when an epoch begins. */
gr_status gr_loader_next(gr_loader *l, const gr_loaded **out) GR_MUST_CHECK;

/* Batches of one epoch: of the source, or batches_per_epoch. */
int64_t gr_loader_batches(const gr_loader *l);

void gr_loader_get_stats(gr_loader *l, gr_loader_stats *out); /* since create or the last reset */
void gr_loader_reset_stats(gr_loader *l);

/* The cores of a rank, with n_local ranks on this machine: what its affinity allows when the
 * ranks are bound, and else an even share. At least 1. */
int gr_loader_cores(int n_local);
/* Threads for a rank that was asked for none in particular: 4, but not more than its cores. */
int gr_loader_default_workers(int n_local);

#ifdef __cplusplus
}
#endif

#endif

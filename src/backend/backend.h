/*
 * Device drivers. A device is memory, streams of work, and copies. The host waits only in
 * sync() and slot_wait().
 *
 * Each stream is an order of its own. A stream that waits for an event goes on when all has
 * run that was queued before the event was recorded, so work forks off the compute stream and
 * joins it again. Where has_streams is false all streams are one, in the order of the calls.
 */
#ifndef GR_BACKEND_BACKEND_H
#define GR_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Slots of a device: two for staging (memory that copies go up from is written again after the
 * wait), the others for records that come down (step/vote.c). */
#define GR_N_STAGING 2
#define GR_N_SLOTS   5

typedef struct gr_device gr_device;
typedef struct gr_backend_ops gr_backend_ops;

typedef enum gr_stream_kind {
    GR_STREAM_COMPUTE,  /* the main order, in which a step begins and ends */
    GR_STREAM_COPY,     /* inputs on their way to the device */
    GR_STREAM_EXCHANGE, /* collectives: goes first where both could run */
    GR_N_STREAMS
} gr_stream_kind;

struct gr_backend_ops {
    const char *name; /* "cpu", "cuda", "null" */
    size_t align;     /* of what lies in arena, state and exchange: a power of two from 64 on */

    /* What a driver can do, by the question that is asked. */
    bool has_host_memory; /* the host can read and write device memory at its addresses */
    bool needs_copies;    /* kernels cannot read the caller's memory: inputs are copied */
    bool runs_at_once;  /* work is done when its call returns; else what a download brings is there
                         * after sync(), or after slot_wait() on a slot marked behind it */
    bool can_poll;      /* between two nodes the host has time for collectives */
    bool has_streams;   /* the streams are several */
    bool can_capture;   /* the capture functions work */
    bool shares_memory; /* the ranks of a machine take from one memory; else each has a device */
    bool keeps_low;     /* it pays to keep parameters in 16 bits beside those in 32 */

    gr_status (*open)(gr_device **out, int index);
    void (*close)(gr_device *d);
    int (*count)(void);                           /* devices that could be opened */
    void (*describe)(gr_device *d, gr_text *out); /* "NVIDIA H200, 139 GiB" */

    gr_status (*alloc)(gr_device *d, size_t n_bytes, void **out); /* 256-byte aligned, zeroed */
    void (*free)(gr_device *d, void *mem);
    gr_status (*host_alloc)(gr_device *d, size_t n_bytes, void **out); /* pinned, device-visible */
    void (*host_free)(gr_device *d, void *mem);

    /* On the compute stream. upload: src is pinned and stays unchanged until the copy ran.
     * copy: within the device. */
    gr_status (*upload)(gr_device *d, void *dst, const void *src, size_t n_bytes);
    gr_status (*download)(gr_device *d, void *dst, const void *src, size_t n_bytes);
    gr_status (*copy)(gr_device *d, void *dst, const void *src, size_t n_bytes);
    gr_status (*zero)(gr_device *d, void *dst, size_t n_bytes);
    /* As upload, on the copy stream: it overlaps with what computes. */
    gr_status (*upload_ahead)(gr_device *d, void *dst, const void *src, size_t n_bytes);
    gr_status (*sync)(gr_device *d);                      /* all streams */
    void *(*stream)(gr_device *d, gr_stream_kind stream); /* what kernels launch on; CPU: NULL */

    /* An event that was never recorded has happened. Recording it again is a new event: waits
     * that are queued already stay with the old one. */
    gr_status (*event_create)(gr_device *d, void **out);
    void (*event_destroy)(gr_device *d, void *event); /* NULL is fine */
    gr_status (*event_record)(gr_device *d, void *event, gr_stream_kind stream);
    gr_status (*event_wait)(gr_device *d, void *event, gr_stream_kind stream);

    /* Places in a stream: what was queued before the latest mark of a slot is done when the
     * wait for it returns; at once, if it was never marked. */
    gr_status (*slot_mark)(gr_device *d, int slot, gr_stream_kind stream);
    gr_status (*slot_wait)(gr_device *d, int slot);

    /* Work queued between begin and end is recorded, not run; launch runs it. Recording begins
     * on the compute stream; another takes part from its wait for an event of it on, and must
     * be waited for by the compute stream before the end. */
    gr_status (*capture_begin)(gr_device *d);
    gr_status (*capture_end)(gr_device *d, void **recorded);
    gr_status (*capture_launch)(gr_device *d, void *recorded);
    void (*capture_free)(gr_device *d, void *recorded);

    /* A watch over queued work: how long what was queued between the two took. end waits. */
    gr_status (*timer_begin)(gr_device *d);
    gr_status (*timer_end)(gr_device *d, double *seconds);

    /* Bytes that could be allocated now, and all that there are; both 0: not known. */
    gr_status (*memory)(gr_device *d, size_t *n_free, size_t *n_all);
    bool (*has_bf16)(gr_device *d); /* products in bf16 are not slower than in f32 */
};

/* Every device struct begins with this. */
struct gr_device {
    const gr_backend_ops *ops;
    int index;
};

extern const gr_backend_ops gr_backend_cpu;  /* src/backend/cpu */
extern const gr_backend_ops gr_backend_null; /* gives memory, runs nothing: for tests */
/* The CPU, but results are seen as late as the table allows: for tests of what GPUs do. */
extern const gr_backend_ops gr_backend_late;

#ifdef __cplusplus
}
#endif

#endif

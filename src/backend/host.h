/*
 * What drivers share whose device memory is host memory: the slots of gr_backend_ops
 * that come out the same for each of them.
 *
 * Any thread; a block may be freed by another thread than the one that got it.
 */
#ifndef GR_BACKEND_HOST_H
#define GR_BACKEND_HOST_H

#include "backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 256-byte aligned and zeroed; large blocks are mapped and ask for huge pages. */
gr_status gr_host_alloc(gr_device *d, size_t n_bytes, void **out) GR_MUST_CHECK;
void gr_host_free(gr_device *d, void *mem); /* NULL is fine */

gr_status gr_host_copy(gr_device *d, void *dst, const void *src, size_t n_bytes) GR_MUST_CHECK;
gr_status gr_host_zero(gr_device *d, void *dst, size_t n_bytes) GR_MUST_CHECK;

/* Work is done when its call returns, so there is never anything to wait for. */
gr_status gr_host_sync(gr_device *d) GR_MUST_CHECK;
gr_status gr_host_mark(gr_device *d, int slot, gr_stream_kind stream) GR_MUST_CHECK;
gr_status gr_host_slot(gr_device *d, int slot) GR_MUST_CHECK;
void *gr_host_stream(gr_device *d, gr_stream_kind stream); /* NULL */

/* One order: there are no events to wait for. */
gr_status gr_host_event_create(gr_device *d, void **out) GR_MUST_CHECK; /* NULL in *out */
void gr_host_event_destroy(gr_device *d, void *event);
gr_status gr_host_event(gr_device *d, void *event, gr_stream_kind stream) GR_MUST_CHECK;

/* Host work cannot be recorded: these fail with GR_ERR_DEVICE. */
gr_status gr_host_capture_begin(gr_device *d) GR_MUST_CHECK;
gr_status gr_host_capture_end(gr_device *d, void **recorded) GR_MUST_CHECK;
gr_status gr_host_capture_launch(gr_device *d, void *recorded) GR_MUST_CHECK;
void gr_host_capture_free(gr_device *d, void *recorded);

gr_status gr_host_timer_begin(gr_device *d) GR_MUST_CHECK;
gr_status gr_host_timer_end(gr_device *d, double *seconds) GR_MUST_CHECK;

/* What the kernel calls available, within the limit of the process's group (cgroup). */
gr_status gr_host_memory(gr_device *d, size_t *n_free, size_t *n_all) GR_MUST_CHECK;
bool gr_host_has_bf16(gr_device *d); /* as storage always */

/* A device that is its table, its index and a watch. */
gr_status gr_host_open(const gr_backend_ops *ops, int index, gr_device **out) GR_MUST_CHECK;
void gr_host_close(gr_device *d); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif

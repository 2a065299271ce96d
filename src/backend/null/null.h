/*
 * A device whose streams hold what they are given until somebody waits, and then run it in
 * an order drawn at random among all that the events allow: what a real device may do, and
 * more. For tests. Its memory is host memory; kernels of tests hand over their work with
 * gr_replay_queue(), all others run at once, which is too early.
 *
 * Recording is strict as CUDA's is: work queued on a stream that takes no part, waits for events
 * from outside and streams that have not joined at the end are failures.
 */
#ifndef GR_BACKEND_NULL_NULL_H
#define GR_BACKEND_NULL_NULL_H

#include "backend/backend.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Streams and recording; opened with the seed as index. */
extern const gr_backend_ops gr_backend_replay;

typedef void gr_replay_fn(void *arg);

/* Queues fn(arg) on a stream of the device (gr_launch.stream). `arg` must live until it ran. */
gr_status gr_replay_queue(void *stream, gr_replay_fn *fn, void *arg) GR_MUST_CHECK;

/* What has run since the last call in another order than it was queued: a test that finds 0
 * has tested nothing. */
int gr_replay_n_reordered(gr_device *d);

#ifdef __cplusplus
}
#endif

#endif

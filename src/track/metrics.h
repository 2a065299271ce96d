/*
 * metrics.jsonl: numbers for plots, one JSON object a line, written whole by one write.
 * Rank 0 only; one thread. Every record begins with its step.
 */
#ifndef GR_TRACK_METRICS_H
#define GR_TRACK_METRICS_H

#include <stdint.h>

#include "base/status.h"
#include "track/keep.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_metrics gr_metrics;

/*
 * Opens `path` for appending. What is not kept is removed first, and a last line that a crash
 * cut.
 */
gr_status gr_metrics_open(gr_metrics **out, const char *path, const gr_keep *keep) GR_MUST_CHECK;
void gr_metrics_close(gr_metrics *m);

/* begin, any number of values, end: one record. JSON knows no NaN: it becomes null. */
void gr_metrics_begin(gr_metrics *m, int64_t step);
void gr_metrics_i64(gr_metrics *m, const char *name, int64_t value);
void gr_metrics_f64(gr_metrics *m, const char *name, double value);
gr_status gr_metrics_end(gr_metrics *m) GR_MUST_CHECK;
/* Until the disk has every record. */
gr_status gr_metrics_sync(gr_metrics *m) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
